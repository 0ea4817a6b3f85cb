package crash

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRandomFlips flips a random bit in each kind of file of a log that does
// not run. The log either refuses to start, or it starts and keeps all
// promises, or a monitor finds the one object that was spoiled. It never
// promises anything that is not so.
func TestRandomFlips(t *testing.T) {
	t.Parallel()
	fork(t, false) // the names of objects are known after that
	for _, c := range []struct {
		name   string
		killed bool
		late   bool // killed when there is a WAL of the cache
		public bool // a monitor may find it, and then names it
	}{
		{name: edge("0")}, {name: edge("data")}, {name: edge("names")}, {name: tilePath("1", 0, 2)},
		{name: full("0"), public: true}, {name: full("data"), public: true}, {name: full("names"), public: true},
		{name: "data/issuer/*", public: true},
		{name: "data/checkpoint"}, {name: "data/log.v3.json"}, {name: "data/_roots.pem"},
		{name: "seed.bin"}, {name: "lock.db"}, {name: "cache.db"},
		{name: "data/staging/*", killed: true}, {name: "lock.db", killed: true}, {name: "lock.db-wal", killed: true},
		{name: "cache.db", killed: true}, {name: "cache.db-wal", killed: true, late: true},
	} {
		name := c.name
		if c.killed {
			name += ", killed"
		}
		t.Run(name, func(t *testing.T) {
			outcomes := map[string]int{}
			r := newRand(t.Name())
			again := func() *subject { return fork(t, c.killed) }
			if c.late {
				template := killedHere(t, afterPut)
				again = func() *subject { return template.fork(t, "") }
			}
			for range *flips {
				s := again()
				found, err := filepath.Glob(s.at(c.name))
				if err != nil || len(found) == 0 {
					t.Fatalf("%s: %v", c.name, err)
				}
				file, err := filepath.Rel(s.dir, found[r.IntN(len(found))])
				if err != nil {
					t.Fatal(err)
				}
				bit := r.IntN(8 * len(s.read(t, file)))
				s.flip(t, file, bit)
				outcome, err := s.judge(t, strings.TrimPrefix(file, "data/"), c.public)
				outcomes[outcome]++
				if err != nil {
					t.Errorf("%s, bit %d: %v", file, bit, err)
				}
			}
			t.Log(outcomes)
		})
	}
}

// judge starts a log with a spoiled file and uses it.
func (s *subject) judge(t *testing.T, object string, public bool) (outcome string, err error) {
	t.Helper()
	p := s.start(t, how{})
	defer p.kill()
	if !p.ready() {
		if code := p.State().ExitCode(); code != 1 {
			return "", fmt.Errorf("ended with %v:\n%s", p.State(), p.Out.Text())
		}
		return "refused", nil
	}
	s.MayMove(true) // the cache may be what was spoiled
	s.All(t.Context(), p.Addr, s.some(60), func(uint64, int) {})
	outcome = "harmless"
	if _, halted := p.Out.Seen(`"msg":"log has halted`); halted {
		outcome = "halted"
	} else if s.Counts().Statuses[http.StatusInternalServerError] > 0 {
		outcome = "some refused"
	}
	if err := s.Err(); err != nil {
		return "", err
	}
	_, err = s.verify(t.Context(), p)
	if err != nil && public && strings.HasPrefix(err.Error(), object) {
		return outcome + ", found by a monitor", nil
	}
	return outcome, err
}

// some returns chains to submit: known ones, and as many new ones.
func (s *subject) some(n int) []uint64 {
	list := s.Sample(n / 2)
	for range n / 2 {
		list = append(list, s.Next(0))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestWrongCache has a cache with rows that are not so: the log never takes
// its word for them (S8).
func TestWrongCache(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, s *subject)
	}{
		{"index", func(t *testing.T, s *subject) {
			s.sql(t, "cache.db", "UPDATE cache256 SET leaf_index = (leaf_index | 1) - (leaf_index & 1)")
		}},
		{"timestamp", func(t *testing.T, s *subject) {
			s.sql(t, "cache.db", "UPDATE cache256 SET timestamp = timestamp + 1")
		}},
		{"of another log", func(t *testing.T, s *subject) {
			other := newSubject(t, layout{})
			p := other.serve(t, how{})
			other.Next(99) // so that the same chains have other places
			other.fill(t, p, 300)
			p.stop(t)
			s.restore(t, other.logDir, "cache.db")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fork(t, false)
			c.spoil(t, s)
			p := s.serve(t, how{})
			s.MayMove(true) // what another log's cache lacks is logged again
			var list []uint64
			for n := range uint64(150) {
				list = append(list, 100+n)
			}
			var refused atomic.Int64
			s.All(t.Context(), p.Addr, list, func(uint64, int) { refused.Add(1) })
			if c.name != "of another log" && int(refused.Load()) != len(list) {
				t.Errorf("%d of %d were refused", refused.Load(), len(list))
			}
			if s.Counts().Statuses[http.StatusInternalServerError] < 50 {
				t.Errorf("answers by status: %v", s.Counts().Statuses)
			}
			if n := p.metric(t, "daybook_intake_total", `outcome="contradicted"`); int(n) != s.Counts().Statuses[http.StatusInternalServerError] {
				t.Errorf("%v contradictions were counted", n)
			}
			t.Log(p.says(t, "contradicts the tree"))
			s.fill(t, p, 50) // new entries are no problem
			s.sound(t, p)
			p.kill()
			s.remove(t, "cache.db", "cache.db-wal", "cache.db-shm")
			p = s.serve(t, how{})
			s.Resubmit(t.Context(), p.Addr, 50)
			s.sound(t, p)
		})
	}
}

// TestDamagedBundlePublished: once its tree is published, a bundle is good for
// the cache alone.
func TestDamagedBundlePublished(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	s.killAt(t, "new.resolve:after:2")
	s.flip(t, s.newest(t), 2000)
	p := s.serve(t, how{})
	t.Log(p.says(t, "is damaged and dropped"))
	if _, bundles := s.leftovers(t); len(bundles) > 0 {
		t.Errorf("bundles are left: %v", bundles)
	}
	s.MayMove(true)
	s.Resubmit(t.Context(), p.Addr, 50)
	t.Logf("%d entries were logged twice", s.sound(t, p))
}

// TestLostCheckpoint: the published checkpoint can be put back from the lock.
func TestLostCheckpoint(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	s.remove(t, "data/checkpoint")
	if message := s.refuses(t, how{}); !strings.Contains(message, "is this the right storage?") {
		t.Error(message)
	}
	s.write(t, "data/checkpoint", s.column(t, "lock.db", "SELECT body FROM checkpoints"))
	s.sound(t, s.serve(t, how{}))
}
