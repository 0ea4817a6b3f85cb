package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// steps of a round, in the words of package sequencer.
var steps = []string{"close", "assign", "grow", "stage", "sign", "commit", "apply", "publish", "resolve", "remember", "discard"}

// recoveries are kills in the writes of recovery, and after which kill each
// write is needed.
var recoveries = map[string]script{
	"commit:after":   {"recover.apply:before", "recover.apply:after"},
	"apply:before":   {"recover.publish:before"},
	"apply:after":    {"recover.publish:after"},
	"publish:before": {"recover.remember:before"},
	"publish:after":  {"recover.remember:after"},
	"resolve:before": {"recover.discard:before"},
	"resolve:after":  {"recover.discard:after"},
	"remember:after": {"recover.sync:before", "recover.sync:after"},
}

// inner are places within steps that write files, and within recovery.
var (
	inner = script{
		"stage/file.create:after", "stage/file.write:before", "stage/file.write:after", "stage/file.sync:after", "stage/file.link:before",
		"stage/file.link:after", "stage/file.sync_dir:before",
		"apply/file.write:after", "apply/file.sync:before", "apply/file.link:before", "apply/file.link:after", "apply/file.remove:before",
		"publish/file.create:after", "publish/file.write:before", "publish/file.sync:after", "publish/file.rename:before",
		"publish/file.rename:after", "discard/file.sync_dir:before", "discard/file.sync_dir:after", "discard/file.remove:before", "discard/file.remove:after",
	}
	innerRecoveries = script{
		"recover.apply/file.write:after", "recover.apply/file.sync:after", "recover.apply/file.link:before", "recover.apply/file.link:after",
		"recover.sync/file.sync_dir:before", "recover.sync/file.sync_dir:after", "recover.publish/file.rename:before", "recover.publish/file.rename:after",
		"recover.discard/file.remove:before", "recover.discard/file.remove:after",
	}
)

// script is a chain of kills between two checks of the log: the first one
// under load, the others in the recoveries that follow it.
type script []string

// anytime and opening are places of kills from outside, at a random time: under
// load, and of a process that has just been started.
const anytime, opening = "random, under load", "random, while opening"

// scripts returns scripts with at least so many kills in all. The first deck
// has some forty, at the places that matter most; later ones go deeper.
func scripts(r *rand.Rand, kills int) (list []script) {
	for first := true; kills > 0; first = false {
		var deck []script
		for _, step := range steps {
			for _, when := range []string{":before", ":after"} {
				place := step + when
				if after := recoveries[place]; after != nil {
					deck = append(deck, append(script{"new." + place}, after...))
				} else {
					deck = append(deck, script{place})
				}
			}
		}
		for range 4 {
			deck = append(deck, script{anytime, opening})
		}
		if !first {
			for _, place := range inner {
				deck = append(deck, script{place})
			}
			for _, place := range innerRecoveries {
				deck = append(deck, script{"new.commit:after", place})
			}
			for range 10 {
				deck = append(deck, script{"new.commit:after", opening, opening}, script{anytime})
			}
		}
		r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for _, s := range deck {
			if kills > 0 {
				list = append(list, s)
			}
			kills -= len(s)
		}
	}
	return list
}

// TestKills kills a log under load at every place of a round and of recovery,
// and at random times, and holds it to its promises after each.
func TestKills(t *testing.T) {
	const perLog = 120 // kills; a log starts anew then, to stay small
	c := &campaign{rand: newRand(t.Name()), kills: map[string]int{}}
	for list := scripts(c.rand, *kills); len(list) > 0 && !t.Failed(); {
		n, total := 0, 0
		for ; n < len(list) && total < perLog; n++ {
			total += len(list[n])
		}
		t.Run(fmt.Sprintf("log-%d", c.logs), func(t *testing.T) { c.run(t, list[:n]) })
		list = list[n:]
	}
	t.Log(c.report())
}

// campaign counts.
type campaign struct {
	rand  *rand.Rand
	kills map[string]int

	logs, promised, repeated, entries, duplicates int
	checkpoints, asked, temps, bundles, finished  int
}

// run runs scripts on one log. Each process is verified, then loaded, then killed.
func (c *campaign) run(t *testing.T, list []script) {
	c.logs++
	s := newSubject(t, layout{interval: 40 * time.Millisecond})
	for _, script := range list {
		p := c.recover(t, s, script[0])
		c.killLoaded(t, s, p, script[0])
		for _, place := range script[1:] {
			c.killOpening(t, s, place)
		}
	}
	p := c.recover(t, s, anytime)
	n := s.sound(t, p)
	if n > 0 {
		t.Errorf("%d entries were logged twice, although the cache was never taken away", n)
	}
	c.duplicates += n
	c.entries += int(s.head(t, p).Tree.N)
	c.promised += s.count()
	c.repeated += s.Counts().Repeated
	c.checkpoints += s.Counts().Checkpoints
	c.asked += int(s.asked.Load())
	p.stop(t)
}

// recover starts the log, to be killed at this place later, and verifies what
// recovery has made of it.
func (c *campaign) recover(t *testing.T, s *subject, place string) *process {
	t.Helper()
	temps, bundles := s.leftovers(t)
	c.temps, c.bundles = c.temps+len(temps), c.bundles+len(bundles)
	s.remove(t, "arm")
	p := s.serve(t, how{plan: c.plan(place), arm: s.at("arm")})
	if strings.Contains(p.says(t, `"msg":"log opened"`), `"finished_round":true`) {
		c.finished++
	}
	// Nothing is submitted yet, so nothing is staged; the checkpoint is
	// published under changing temporary names.
	left, staged := s.leftovers(t)
	for _, name := range left {
		if slices.Contains(temps, name) {
			t.Errorf("%s is left after recovery", name)
		}
	}
	if len(staged) > 0 {
		t.Errorf("staging bundles are left after recovery: %v", staged)
	}
	s.verifyFresh(t, p)
	s.Resubmit(t.Context(), p.Addr, 10)
	s.failed(t)
	if t.Failed() {
		t.Fatal(p.Out.Text())
	}
	return p
}

// plan turns a place into a fault to plan, "" for a kill from outside.
func (c *campaign) plan(place string) string {
	if place == anytime {
		return ""
	}
	times := 3
	switch {
	case strings.HasPrefix(place, "recover."):
		times = 1
	case strings.HasPrefix(place, "apply/"):
		times = 9
	}
	return fmt.Sprintf("%s:%d", place, 1+c.rand.IntN(times))
}

// killLoaded puts the log under load until it is killed at this place.
func (c *campaign) killLoaded(t *testing.T, s *subject, p *process, place string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := s.watch(t, p)
	var killer sync.WaitGroup
	before, wait := s.count(), time.Duration(c.rand.IntN(250))*time.Millisecond
	killer.Go(func() {
		for s.count() == before && ctx.Err() == nil { // until the load has begun
			time.Sleep(time.Millisecond)
		}
		time.Sleep(wait)
		if place == anytime {
			_ = p.Cmd.Process.Kill()
		} else if err := os.WriteFile(s.at("arm"), nil, 0o600); err != nil {
			s.Fault(err)
		}
	})
	s.load(ctx, p, 48)
	killer.Wait()
	stop()
	p.diedByKill(t)
	c.kills[place]++
}

// killOpening starts the log and kills it while it recovers.
func (c *campaign) killOpening(t *testing.T, s *subject, place string) {
	t.Helper()
	if place == opening {
		wait := time.Duration(c.rand.IntN(40_000)) * time.Microsecond
		p := s.start(t, how{})
		time.Sleep(wait)
		p.kill()
		p.diedByKill(t)
	} else if p := s.start(t, how{plan: c.plan(place)}); p.ready() {
		t.Fatalf("recovery did not come to %s\n%s", place, p.Out.Text())
	} else {
		p.diedByKill(t)
	}
	c.kills[place]++
}

func (c *campaign) report() string {
	var b strings.Builder
	total := 0
	for _, place := range slices.Sorted(maps.Keys(c.kills)) {
		fmt.Fprintf(&b, "%5d  %s\n", c.kills[place], place)
		total += c.kills[place]
	}
	return fmt.Sprintf("%d kills of %d logs, by place:\n%s"+
		"%d SCTs promised, %d lost; %d entries logged, %d of them twice; %d resubmissions answered with the same SCT\n"+
		"%d checkpoints seen, all consistent; %d temporary files and %d bundles left by kills, all cleared; %d rounds finished by recovery\n"+
		"%d requests for temporary files and bundles, all 404",
		total, c.logs, &b, c.promised, lost.Load(), c.entries, c.duplicates, c.repeated,
		c.checkpoints, c.temps, c.bundles, c.finished, c.asked)
}
