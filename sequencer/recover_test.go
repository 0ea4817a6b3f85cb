package sequencer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

var errCrash = errors.New("crash")

// TestCrashAtEveryStep stops a round before and after each step, for good, as a
// crash would; recovery then must keep every promise, lose no SCT, fork nothing,
// and log resubmitted entries once. It also crashes during recovery, after each
// of its writes (S11).
func TestCrashAtEveryStep(t *testing.T) {
	for _, step := range allSteps() {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%v", step, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashAt(t, step, after) })
			})
		}
	}
}

func allSteps() (steps []Step) {
	for s := range Step(stepCount) {
		steps = append(steps, s)
	}
	return steps
}

func crashAt(t *testing.T, step Step, after bool) {
	p := newProbe()
	l := p.open(t, 0)
	stop := run(t, l)
	// 250 entries first, so that the crashing round crosses a tile boundary.
	promises := addAll(t, l, 0, 250)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	earlier := p.publicLog(t)

	l = p.open(t, 0)
	l.c.hook = func(s Step, a bool) error {
		if s == step && a == after {
			return errCrash
		}
		return nil
	}
	tickets := make([]*Ticket, 10)
	for i := range tickets {
		var err error
		if tickets[i], err = l.Submit(t.Context(), newEntry(t, 250+i, High)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(t, l)(); !errors.Is(err, errCrash) {
		t.Fatalf("the round returned %v", err)
	}
	answered := 0
	for i, ticket := range tickets {
		position, err := ticket.Wait(t.Context())
		if err == nil {
			answered++
			promises = append(promises, promise{newEntry(t, 250+i, High).Entry.Key(), position})
		}
	}
	if want := step > StepResolve || step == StepResolve && after; want != (answered == len(tickets)) {
		t.Errorf("%d of %d were answered", answered, len(tickets))
	}
	recoverWithCrashes(t, p)

	l = p.open(t, 0)
	stop = run(t, l)
	promises = append(promises, addAll(t, l, 240, 270)...)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	o := p.publicLog(t)
	if err := o.extends(earlier.head); err != nil {
		t.Error(err)
	}
	if err := o.keeps(promises); err != nil {
		t.Error(err)
	}
	if len(o.leaves) != 270 {
		t.Errorf("270 entries became %d leaves", len(o.leaves))
	}
	if names, _ := p.store.List(t.Context(), "staging/"); len(names) > 0 {
		t.Errorf("bundles are left: %v", names)
	}
}

// recoverWithCrashes opens the log again and again, letting one more write
// through each time, until it opens.
func recoverWithCrashes(t *testing.T, p *probe) {
	t.Helper()
	for writes := 0; ; writes++ {
		left := writes
		p.setFault(func(op, _ string) error {
			if op == "put" || op == "delete" || op == "cache put" {
				if left--; left < 0 {
					return fmt.Errorf("%w: %w", storage.ErrNotDurable, errCrash)
				}
			}
			return nil
		})
		_, err := Open(t.Context(), p.config(t, 0))
		if err == nil {
			break
		}
		if !errors.Is(err, errCrash) || writes > 50 {
			t.Fatalf("recovery after %d writes: %v", writes, err)
		}
	}
	p.setFault(nil)
}

// TestRestartAtTileBoundaries stops and starts a log at sizes around full tiles
// (F14).
func TestRestartAtTileBoundaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		var promises []promise
		size := 0
		for _, next := range []int{1, 255, 256, 257, 511, 512, 513, 768} {
			l := p.open(t, 0)
			stop := run(t, l)
			promises = append(promises, addAll(t, l, size, next)...)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			size = next
			if err := p.publicLog(t).keeps(promises); err != nil {
				t.Fatalf("size %d: %v", size, err)
			}
		}
	})
}

// TestOpenRefuses covers what recovery must not guess about.
func TestOpenRefuses(t *testing.T) {
	sign := func(t *testing.T, n int64, root byte, timestamp int64) []byte {
		tree := tlog.Tree{N: n, Hash: tlog.Hash{root}}
		if n == 0 {
			tree.Hash = tlog.EmptyRoot
		}
		note, err := newTestSigner(t).SignTreeHead(tree, timestamp)
		if err != nil {
			t.Fatal(err)
		}
		return note
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, p *probe, c *Config)
		is    error
		want  string
	}{
		{"no log", func(t *testing.T, p *probe, c *Config) { c.Lock = memory.NewLock() }, ErrNoLog, "create it first"},
		{"storage of nobody", func(t *testing.T, p *probe, c *Config) { c.Store = memory.NewStore() }, ErrInconsistent, "has no checkpoint"},
		{"lock restored from a backup", func(t *testing.T, p *probe, c *Config) {
			put(t, p, "checkpoint", sign(t, 400, 1, 946684900000))
		}, ErrInconsistent, "newer than the lock"},
		{"published timestamp newer", func(t *testing.T, p *probe, c *Config) {
			head := p.publicLog(t).head
			note, err := c.Signer.SignTreeHead(head.Tree, head.Timestamp+1)
			if err != nil {
				t.Fatal(err)
			}
			put(t, p, "checkpoint", note)
		}, ErrInconsistent, "newer than the lock"},
		{"fork", func(t *testing.T, p *probe, c *Config) {
			put(t, p, "checkpoint", sign(t, 300, 1, 946684800001))
		}, ErrInconsistent, "forked"},
		{"storage restored from a backup", func(t *testing.T, p *probe, c *Config) {
			put(t, p, "checkpoint", sign(t, 100, 1, 946684800001))
		}, ErrInconsistent, "bundle"},
		{"checkpoint of garbage", func(t *testing.T, p *probe, c *Config) { put(t, p, "checkpoint", []byte("garbage")) }, nil, "not this log's"},
		{"another key", func(t *testing.T, p *probe, c *Config) {
			keys, err := checkpoint.KeysFromSeed(make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			if c.Signer, err = checkpoint.NewSigner(testOrigin, keys); err != nil {
				t.Fatal(err)
			}
		}, ErrNoLog, "create it first"},
		{"another origin", func(t *testing.T, p *probe, c *Config) {
			keys, err := checkpoint.KeysFromSeed([]byte(strings.Repeat("\x07", 32)))
			if err != nil {
				t.Fatal(err)
			}
			if c.Signer, err = checkpoint.NewSigner("other.example/log", keys); err != nil {
				t.Fatal(err)
			}
		}, nil, "not this log's"},
		{"flipped bit in the edge", func(t *testing.T, p *probe, c *Config) {
			c.Store = flipped{probeStore{p}, "tile/0/001.p/44"}
		}, tlog.ErrMismatch, "tile"},
		{"unreadable tile", func(t *testing.T, p *probe, c *Config) {
			p.setFault(func(op, name string) error {
				if op == "get" && name == "tile/data/001.p/44" {
					return errors.New("input/output error")
				}
				return nil
			})
		}, nil, "input/output error"},
		{"public prefix of another log", func(t *testing.T, p *probe, c *Config) {
			c.Public = func(context.Context) ([]byte, error) { return []byte("<html>"), nil }
		}, nil, "right prefix"},
		{"public checkpoint newer", func(t *testing.T, p *probe, c *Config) {
			head := p.publicLog(t).head
			note, err := c.Signer.SignTreeHead(head.Tree, head.Timestamp+1)
			if err != nil {
				t.Fatal(err)
			}
			c.Public = func(context.Context) ([]byte, error) { return note, nil }
		}, ErrInconsistent, "newer than the lock"},
		{"public tree of another history", func(t *testing.T, p *probe, c *Config) {
			note := sign(t, 200, 9, 946684800001)
			c.Public = func(context.Context) ([]byte, error) { return note, nil }
		}, ErrInconsistent, "forked"},
		{"unreadable checkpoint", func(t *testing.T, p *probe, c *Config) {
			p.setFault(func(op, name string) error {
				if op == "get" && name == "checkpoint" {
					return errors.New("input/output error")
				}
				return nil
			})
		}, nil, "input/output error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbe()
				l := p.open(t, 0)
				stop := run(t, l)
				addAll(t, l, 0, 300)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				config := p.config(t, 0)
				c.spoil(t, p, &config)
				before, _ := p.store.Get(t.Context(), "checkpoint")
				_, err := Open(t.Context(), config)
				if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("Open: %v, want %q (%v)", err, c.want, c.is)
				}
				if after, _ := p.store.Get(t.Context(), "checkpoint"); string(after) != string(before) {
					t.Error("a refused start changed the published checkpoint")
				}
			})
		})
	}
}

func put(t *testing.T, p *probe, name string, data []byte) {
	t.Helper()
	if err := p.store.Put(t.Context(), storage.Object{Name: name, Data: data}); err != nil {
		t.Fatal(err)
	}
}

// TestPublicCheckpoint: an older checkpoint of the same tree is fine, and so is a
// monitoring prefix that does not answer yet.
func TestPublicCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 0)
		stop := run(t, l)
		addAll(t, l, 0, 100)
		older, err := p.store.Get(t.Context(), "checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		addAll(t, l, 100, 300)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for name, public := range map[string]func(context.Context) ([]byte, error){
			"older":       func(context.Context) ([]byte, error) { return older, nil },
			"same":        func(ctx context.Context) ([]byte, error) { return p.store.Get(ctx, "checkpoint") },
			"unreachable": func(context.Context) ([]byte, error) { return nil, errors.New("connection refused") },
		} {
			c := p.config(t, 0)
			c.Public = public
			if _, err := Open(t.Context(), c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestPublicCheckpointAfterFaults: what one lost answer would skip is found by
// the next try. A prefix that never answers is given up, in bounded time.
func TestPublicCheckpointAfterFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 0)
		stop := run(t, l)
		addAll(t, l, 0, 10)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		newer, err := newTestSigner(t).SignTreeHead(tlog.Tree{N: 20, Hash: tlog.Hash{1}}, time.Now().UnixMilli()+1)
		if err != nil {
			t.Fatal(err)
		}
		for _, failures := range []int{1, len(publicPauses)} {
			tries := 0
			c := p.config(t, 0)
			c.Public = func(context.Context) ([]byte, error) {
				if tries++; tries <= failures {
					return nil, errors.New("connection reset by peer")
				}
				return newer, nil
			}
			if _, err := Open(t.Context(), c); !errors.Is(err, ErrInconsistent) {
				t.Errorf("a newer public checkpoint after %d failures: %v", failures, err)
			}
		}

		c := p.config(t, 0)
		var out strings.Builder
		c.Logger = slog.New(slog.NewTextHandler(&out, nil))
		c.Public = func(ctx context.Context) ([]byte, error) {
			<-ctx.Done() // an address that takes connections and says nothing
			return nil, ctx.Err()
		}
		start := time.Now()
		if _, err := Open(t.Context(), c); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != publicPatience {
			t.Errorf("the start waited for %v, not %v", took, publicPatience)
		}
		if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "is not checked") {
			t.Errorf("no warning of what is not checked: %s", out.String())
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := Open(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("a start that is cancelled meanwhile: %v", err)
		}
	})
}

// TestCreateRefuses: a log is never made over another one.
func TestCreateRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		p.open(t, 0)
		if err := Create(t.Context(), p.config(t, 0)); !errors.Is(err, storage.ErrExists) {
			t.Errorf("over both: %v", err)
		}
		c := p.config(t, 0)
		c.Lock = memory.NewLock()
		if err := Create(t.Context(), c); !errors.Is(err, storage.ErrExists) {
			t.Errorf("over a storage: %v", err)
		}
		c = p.config(t, 0)
		c.Store = memory.NewStore()
		if err := Create(t.Context(), c); !errors.Is(err, storage.ErrExists) {
			t.Errorf("over a lock: %v", err)
		}
		// A crash between the two writes of Create leaves a log that opens.
		if _, err := Open(t.Context(), c); err != nil {
			t.Errorf("after half a creation: %v", err)
		}
	})
}

// flipped is a store with one flipped bit.
type flipped struct {
	probeStore
	name string
}

func (f flipped) Get(ctx context.Context, name string) ([]byte, error) {
	b, err := f.probeStore.Get(ctx, name)
	if name == f.name && len(b) > 0 {
		b[0] ^= 1
	}
	return b, err
}
