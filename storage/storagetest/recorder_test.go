package storagetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// recorder is a testing.TB that notes failures in place of failing the test,
// so that a suite can be watched while it condemns a broken fake.
type recorder struct {
	testing.TB // the real test, for what is not overridden

	ctx context.Context

	mu       sync.Mutex
	failures []string
}

func (r *recorder) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, s)
}

func (r *recorder) Context() context.Context  { return r.ctx }
func (r *recorder) Helper()                   {}
func (r *recorder) Log(...any)                {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Error(args ...any)         { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(fmt.Sprintf(f, a...)) }
func (r *recorder) Fail()                     { r.note("Fail") }
func (r *recorder) Fatal(args ...any)         { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }

// record runs f with a recorder and returns what failed. f ends early if it
// calls Fatal.
func record(t *testing.T, f func(tb testing.TB)) []string {
	r := &recorder{TB: t, ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.failures
}

func TestRecorder(t *testing.T) {
	got := record(t, func(tb testing.TB) {
		tb.Error("one")
		tb.Errorf("two %d", 2)
		tb.Fatal("three")
		tb.Error("not reached")
	})
	if len(got) != 3 {
		t.Errorf("recorded %q, want three failures", got)
	}
	if got := record(t, func(testing.TB) {}); len(got) != 0 {
		t.Errorf("recorded %q for a test that passes", got)
	}
}
