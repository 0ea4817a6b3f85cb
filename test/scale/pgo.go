package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// A profile is taken over so many load times in the middle of a load of profiledLoads.
const (
	profiled      = 2
	profiledLoads = 3
)

// takeProfile writes a CPU profile of a log under load, for a profile-guided build.
func takeProfile(ctx context.Context, o *options) error {
	return withDev(ctx, o, o.daybook, func(d *dev) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error {
			_, err := d.load(ctx, o, o.daybook, profiledLoads*o.loadTime)
			return err
		})
		g.Go(func() error {
			select { // until all clients are connected
			case <-time.After((profiledLoads - profiled) * o.loadTime / 2):
			case <-ctx.Done():
				return ctx.Err()
			}
			profile, err := get(ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", strings.TrimSuffix(d.Metrics, "/metrics"), int((profiled*o.loadTime).Seconds())))
			if err != nil {
				return err
			}
			return os.WriteFile(o.profile, []byte(profile), 0o644)
		})
		if err := g.Wait(); err != nil {
			return err
		}
		o.say("wrote %s", o.profile)
		return nil
	})
}

// loaded is what daybook load --json says.
type loaded struct {
	Rate   float64 `json:"accepted_per_second"`
	Server struct {
		CPU float64 `json:"cpu_seconds_per_10000_accepted"`
	} `json:"server"`
}

// load puts load on the log, as many new entries as it takes.
func (d *dev) load(ctx context.Context, o *options, program string, duration time.Duration) (r loaded, err error) {
	cmd := exec.CommandContext(ctx, program, "load", "--dev", d.dir, "--clients", fmt.Sprint(o.clients), "--duration", duration.String(), "--json")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err == nil && (r.Server.CPU == 0 || r.Rate == 0) {
		err = errors.New("it did not say what the server used")
	}
	if err != nil {
		err = fmt.Errorf("daybook load: %w\n%s", err, &problems)
	}
	return r, err
}

// withDev runs f with a new log.
func withDev(ctx context.Context, o *options, program string, f func(*dev) error) (err error) {
	dir, err := os.MkdirTemp(o.dir, "dev-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := startDev(ctx, program, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	return f(d)
}

// comparePGO builds the program with the profile and without, and compares what
// an entry costs, in turn.
func comparePGO(ctx context.Context, o *options) error {
	profile, err := filepath.Abs(o.profile)
	if err != nil {
		return err
	}
	builds := []struct{ name, pgo, program string }{
		{"without", "off", filepath.Join(o.dir, "daybook-plain")},
		{"with", profile, filepath.Join(o.dir, "daybook-pgo")},
	}
	for i, b := range builds {
		start := time.Now()
		cmd := exec.CommandContext(ctx, "go", "build", "-pgo="+b.pgo, "-o", b.program, "./cmd/daybook")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building: %w\n%s", err, out)
		}
		if builds[i].program, err = filepath.Abs(b.program); err != nil {
			return err
		}
		info, err := os.Stat(b.program)
		if err != nil {
			return err
		}
		o.say("built %s profile in %s, %s", b.name, short(time.Since(start)), size(info.Size()))
	}
	t := &table{head: []string{"turn", "CPU s per 10,000 without", "with", "ratio", "accepted/s without", "with"}}
	var ratios []float64
	for turn := range o.turns {
		var got [2]loaded
		// Who comes first alternates, since the machine may be warmer for the second.
		for j := range builds {
			i := (turn + j) % len(builds)
			if err := withDev(ctx, o, builds[i].program, func(d *dev) (err error) {
				// The load comes from one program, so that it costs the same.
				got[i], err = d.load(ctx, o, builds[0].program, o.loadTime)
				return err
			}); err != nil {
				return err
			}
		}
		ratio := got[1].Server.CPU / got[0].Server.CPU
		ratios = append(ratios, ratio)
		t.add(fmt.Sprint(turn+1), fmt.Sprintf("%.3f", got[0].Server.CPU), fmt.Sprintf("%.3f", got[1].Server.CPU), fmt.Sprintf("%.3f", ratio),
			fmt.Sprintf("%.0f", got[0].Rate), fmt.Sprintf("%.0f", got[1].Rate))
		o.say("turn %d: ratio %.3f", turn+1, ratio)
	}
	slices.Sort(ratios)
	t.add("median", "", "", fmt.Sprintf("%.3f [%.3f to %.3f]", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1]), "", "")
	return t.print(o.out, fmt.Sprintf("Profile-guided build: `daybook dev` under %d clients in closed loop for %v.", o.clients, o.loadTime))
}
