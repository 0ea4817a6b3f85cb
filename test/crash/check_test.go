package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/test/witness"
	"github.com/daybook-ct/daybook/tlog"
)

// lost counts promises that were not kept, over all tests.
var lost atomic.Int64

// subject is a log with those who use it.
type subject struct {
	*logDir
	*witness.Witness
	watcher
}

func newSubject(t testing.TB, o layout) *subject {
	t.Helper()
	return subjectOf(t, newLog(t, t.TempDir(), o))
}

func subjectOf(t testing.TB, l *logDir) *subject {
	return &subject{logDir: l, Witness: newWitness(t, l)}
}

// fork returns a copy of the log, which must not be running, with what its
// users know. The directory dir must not exist; "" stands for a new one.
func (s *subject) fork(t testing.TB, dir string) *subject {
	t.Helper()
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "log")
	}
	return &subject{logDir: s.logDir.copy(t, dir), Witness: s.Fork(newClient(t), newRand(t.Name()))}
}

// verify verifies the whole log through its monitoring prefix. It returns the
// error of a monitor.
func (s *subject) verify(ctx context.Context, p *process) (*monitor.Report, error) {
	return s.Verify(ctx, p.Addr, true)
}

// sound verifies the whole log, which must be as it should be, and returns how
// many entries stand in it more than once.
func (s *subject) sound(t testing.TB, p *process) (duplicates int) {
	t.Helper()
	r, err := s.verify(t.Context(), p)
	if err != nil {
		lost.Add(1) // at least; what is lost stands in the error
		t.Fatalf("%v\n%s", err, p.Out.Text())
	}
	s.failed(t)
	duplicates, err = s.duplicates(t.Context(), p, r.Tree)
	if err != nil {
		t.Fatal(err)
	}
	return duplicates
}

// duplicates counts the leaves of a tree whose entry stands in it before.
func (s *subject) duplicates(ctx context.Context, p *process, tree tlog.Tree) (n int, err error) {
	client, err := monitor.NewClient("http://"+p.Addr+logPath, monitor.ClientOptions{})
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

// verifyFresh verifies what happened since the last check.
func (s *subject) verifyFresh(t testing.TB, p *process) {
	t.Helper()
	if _, err := s.VerifyFresh(t.Context(), p.Addr, 50); err != nil {
		lost.Add(1)
		t.Fatalf("%v\n%s", err, p.Out.Text())
	}
	s.failed(t)
}

// head returns the published checkpoint's tree.
func (s *subject) head(t testing.TB, p *process) checkpoint.TreeHead {
	t.Helper()
	client, err := monitor.NewClient("http://"+p.Addr+logPath, monitor.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	signed, err := client.Get(t.Context(), "checkpoint", checkpoint.MaxNoteSize)
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.Verifier.Verify(signed)
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
