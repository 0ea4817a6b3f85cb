package sqlitelock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/storagetest"
)

func openTest(tb testing.TB, path string, o Options) *Lock {
	tb.Helper()
	l, err := Open(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	})
	return l
}

func TestLock(t *testing.T) {
	storagetest.TestLock(t, func(tb testing.TB) storage.Lock {
		return openTest(tb, filepath.Join(tb.TempDir(), "lock.db"), Options{Create: true})
	})
}

func TestLocks(t *testing.T) {
	storagetest.TestLocks(t, func(tb testing.TB, n int) []storage.Lock {
		path := filepath.Join(tb.TempDir(), "lock.db")
		locks := make([]storage.Lock, n)
		for i := range locks {
			locks[i] = openTest(tb, path, Options{Create: true})
		}
		return locks
	})
}

func TestLockReopen(t *testing.T) {
	storagetest.TestLockReopen(t, func(tb testing.TB) func() storage.Lock {
		path := filepath.Join(tb.TempDir(), "lock.db")
		var last *Lock
		return func() storage.Lock {
			if last != nil {
				if err := last.Close(); err != nil {
					tb.Fatal(err)
				}
			}
			last = openTest(tb, path, Options{Create: true})
			return last
		}
	})
}

// TestSettingsInForce reads back what durability depends on.
func TestSettingsInForce(t *testing.T) {
	l := openTest(t, filepath.Join(t.TempDir(), "lock.db"), Options{Create: true})
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		got, err := sqlitex.ResultText(l.conn.Prep("PRAGMA " + name))
		if err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestNotMadeByAccident: without Create nothing comes into being.
func TestNotMadeByAccident(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock.db")
	if _, err := Open(path, Options{}); !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), path) {
		t.Errorf("absent: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("a refused Open made %v", files)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrAbsent) {
		t.Errorf("empty: %v", err)
	}
}

// TestEmptyIsNotNull: an empty body is an empty blob (reports E09).
func TestEmptyIsNotNull(t *testing.T) {
	l := openTest(t, filepath.Join(t.TempDir(), "lock.db"), Options{Create: true})
	if err := l.Create(t.Context(), [32]byte{1}, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Swap(t.Context(), [32]byte{1}, nil, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := l.Swap(t.Context(), [32]byte{1}, []byte("a"), nil); err != nil {
		t.Fatal(err)
	}
	got, err := sqlitex.ResultText(l.conn.Prep("SELECT typeof(body) || length(body) FROM checkpoints"))
	if err != nil || got != "blob0" {
		t.Errorf("an empty body is stored as %q, %v", got, err)
	}
}

// TestProcesses lets other processes swap the same register: of all swaps from
// one value exactly one succeeds.
func TestProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.db")
	l := openTest(t, path, Options{Create: true})
	if err := l.Create(t.Context(), [32]byte{1}, []byte("0")); err != nil {
		t.Fatal(err)
	}
	const processes, rounds = 4, 50
	var cmds []*exec.Cmd
	var outs []*bytes.Buffer
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSwapProcess$")
		cmd.Env = append(os.Environ(), "DAYBOOK_TEST_LOCK="+path, fmt.Sprintf("DAYBOOK_TEST_ROUNDS=%d", rounds))
		out := &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	wins := map[string]int{}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, outs[i])
		}
		for line := range strings.Lines(outs[i].String()) {
			if from, ok := strings.CutPrefix(line, "won "); ok {
				wins[from]++
			}
		}
	}
	if len(wins) != rounds {
		t.Errorf("%d swaps succeeded, want %d", len(wins), rounds)
	}
	for from, n := range wins {
		if n != 1 {
			t.Errorf("%d processes swapped %s", n, from)
		}
	}
	if got, err := l.Fetch(t.Context(), [32]byte{1}); err != nil || string(got) != fmt.Sprint(rounds) {
		t.Errorf("the register holds %s, %v", got, err)
	}
}

// TestProcessesOpen: processes that open the lock at once wait for each other, also while
// one of them folds the WAL back.
func TestProcessesOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.db")
	l := openTest(t, path, Options{Create: true})
	if err := l.Create(t.Context(), [32]byte{1}, []byte("0")); err != nil {
		t.Fatal(err)
	}
	var cmds []*exec.Cmd
	for range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenProcess$")
		cmd.Env = append(os.Environ(), "DAYBOOK_TEST_LOCK="+path)
		cmd.Stderr = os.Stderr
		cmds = append(cmds, cmd)
	}
	var wg sync.WaitGroup
	for _, cmd := range cmds {
		wg.Go(func() {
			if out, err := cmd.Output(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
}

// TestOpenProcess is the other process of TestProcessesOpen.
func TestOpenProcess(t *testing.T) {
	path := os.Getenv("DAYBOOK_TEST_LOCK")
	if path == "" {
		t.Skip("not asked for: TestProcessesOpen runs this in processes of its own")
	}
	for range 50 {
		l, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		body, err := l.Fetch(t.Context(), [32]byte{1})
		if err == nil {
			err = l.Swap(t.Context(), [32]byte{1}, body, append(body, '0'))
		}
		if err := errors.Join(err, l.Close()); err != nil && !errors.Is(err, storage.ErrConflict) {
			t.Fatal(err)
		}
	}
}

// TestSwapProcess is the other process of TestProcesses.
func TestSwapProcess(t *testing.T) {
	path, rounds := os.Getenv("DAYBOOK_TEST_LOCK"), 0
	if path == "" {
		t.Skip("not asked for: TestProcesses runs this in processes of its own")
	}
	if _, err := fmt.Sscan(os.Getenv("DAYBOOK_TEST_ROUNDS"), &rounds); err != nil {
		t.Fatal(err)
	}
	l := openTest(t, path, Options{})
	for i := range rounds {
		switch err := l.Swap(t.Context(), [32]byte{1}, []byte(fmt.Sprint(i)), []byte(fmt.Sprint(i+1))); {
		case err == nil:
			fmt.Printf("won %d\n", i)
		case !errors.Is(err, storage.ErrConflict):
			t.Fatal(err)
		}
	}
}

// TestSunlightLock opens a lock database that Sunlight left behind, with its WAL
// not folded in.
func TestSunlightLock(t *testing.T) {
	src := cases.Dir(t, "sunlight-log")
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(filepath.Join(src, "checkpoints.db"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "lock.db"+suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.Join(src, "data", "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	l := openTest(t, filepath.Join(dir, "lock.db"), Options{})
	id := [32]byte{}
	if err := sqlitex.ExecuteTransient(l.conn, "SELECT logID FROM checkpoints", &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
		stmt.ColumnBytes(0, id[:])
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	got, err := l.Fetch(t.Context(), id)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("Fetch: %d bytes, %v; want the %d of the published checkpoint", len(got), err, len(want))
	}
	if err := l.Swap(t.Context(), id, got, append(got, '\n')); err != nil {
		t.Errorf("Swap: %v", err)
	}
}
