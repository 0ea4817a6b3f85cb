package crash

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

// lost counts promises that were not kept, over all tests.
var lost atomic.Int64

// subject is a log with those who use it.
type subject struct {
	*logDir
	*submitters
	*watcher
}

func newSubject(t testing.TB, o layout) *subject {
	t.Helper()
	return subjectOf(t, newLog(t, t.TempDir(), o))
}

func subjectOf(t testing.TB, l *logDir) *subject {
	return &subject{l, newSubmitters(t, l), newWatcher(t, l)}
}

// fork returns a copy of the log, which must not be running, with what its
// users know. The directory dir must not exist; "" stands for a new one.
func (s *subject) fork(t testing.TB, dir string) *subject {
	t.Helper()
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "log")
	}
	f := subjectOf(t, s.logDir.copy(t, dir))
	f.rand = newRand(t.Name())
	s.submitters.mu.Lock()
	defer s.submitters.mu.Unlock()
	f.next = s.next
	f.promised, f.open = maps.Clone(s.promised), maps.Clone(s.open)
	s.watcher.mu.Lock()
	defer s.watcher.mu.Unlock()
	f.seen, f.last, f.distinct = slices.Clone(s.seen), s.last, s.distinct
	return f
}

// verify verifies the whole log through its monitoring prefix: every promise
// ever made, and every checkpoint ever seen. It returns the error of a monitor.
func (s *subject) verify(ctx context.Context, p *process) (*monitor.Report, error) {
	return monitor.Verify(ctx, monitor.Options{
		Prefix: "http://" + p.addr + logPath, Origin: origin, Key: s.key,
		Promises: s.promises(-1), Known: s.checkpoints(true), Signatures: true,
	})
}

// sound verifies the whole log, which must be as it should be, and returns how
// many entries stand in it more than once.
func (s *subject) sound(t testing.TB, p *process) (duplicates int) {
	t.Helper()
	promises := len(s.promised) + len(s.moved)
	r, err := s.verify(t.Context(), p)
	if err != nil {
		lost.Add(1) // at least; what is lost stands in the error
		t.Fatalf("%v\n%s", err, p.out.text())
	}
	if r.Promises != promises {
		t.Fatalf("%d promises were verified, of %d", r.Promises, promises)
	}
	s.submitters.failed(t)
	s.watcher.failed(t)
	duplicates, err = s.duplicates(t.Context(), p, r.Tree)
	if err != nil {
		t.Fatal(err)
	}
	return duplicates
}

// duplicates counts the leaves of a tree whose entry stands in it before.
func (s *subject) duplicates(ctx context.Context, p *process, tree tlog.Tree) (n int, err error) {
	client, err := monitor.NewClient("http://"+p.addr+logPath, monitor.ClientOptions{})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	keys := map[tlog.Key]bool{}
	for i := int64(0); i*tlog.TileWidth < tree.N; i++ {
		t := tlog.Tile{L: tlog.DataLevel, N: i, W: int(min(tree.N-i*tlog.TileWidth, tlog.TileWidth))}
		b, err := client.Get(ctx, t.Path(), 16<<20)
		if err != nil {
			return 0, err
		}
		for len(b) > 0 {
			var leaf tlog.Leaf
			if leaf, b, err = tlog.ReadTileLeaf(b); err != nil {
				return 0, fmt.Errorf("%s: %w", t.Path(), err)
			}
			if keys[leaf.Entry.Key()] {
				n++
			}
			keys[leaf.Entry.Key()] = true
		}
	}
	return n, nil
}

// fresh verifies what happened since the last check: the promises since then
// and some before, and the checkpoints since then.
func (s *subject) verifyFresh(t testing.TB, p *process) {
	t.Helper()
	promises := s.promises(50)
	r, err := monitor.Verify(t.Context(), monitor.Options{
		Prefix: "http://" + p.addr + logPath, Origin: origin, Key: s.key,
		Promises: promises, PromisesOnly: true, Known: s.checkpoints(false),
	})
	switch {
	case err != nil:
		lost.Add(1)
		t.Fatalf("%v\n%s", err, p.out.text())
	case r.Promises != len(promises):
		t.Fatalf("%d promises were verified, of %d", r.Promises, len(promises))
	}
	s.submitters.failed(t)
	s.watcher.failed(t)
}

// head returns the published checkpoint's tree.
func (s *subject) head(t testing.TB, p *process) checkpoint.TreeHead {
	t.Helper()
	client, err := monitor.NewClient("http://"+p.addr+logPath, monitor.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	signed, err := client.Get(t.Context(), "checkpoint", checkpoint.MaxNoteSize)
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.verifier.Verify(signed)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// killAt loads the log until a planned fault kills it.
func (s *subject) killAt(t testing.TB, plan string) {
	t.Helper()
	p := s.serve(t, how{plan: plan})
	s.loaded(t, p)
	p.diedByKill(t)
}

// loaded loads the log and watches it until the process ends.
func (s *subject) loaded(t testing.TB, p *process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := s.watch(t, p)
	s.load(ctx, p, 20)
	stop()
}
