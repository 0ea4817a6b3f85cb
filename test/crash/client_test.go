package crash

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/witness"
)

// newClient returns the client of a witness. Connections to a process do not
// outlive it for long: its port may be another's soon.
func newClient(t testing.TB) *http.Client {
	c := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func newWitness(t testing.TB, l *logDir) *witness.Witness {
	return witness.New(l.Log, witness.Options{Chains: chains, HTTP: newClient(t), Pause: 5 * time.Millisecond, AtOnce: 50}, newRand(t.Name()))
}

// load submits over several connections until ctx is done or the process ends.
func (s *subject) load(ctx context.Context, p *process, connections int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.Done:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.Load(ctx, p.Addr, connections)
}

// fill submits chains until count more are promised.
func (s *subject) fill(t testing.TB, p *process, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	want := s.count() + count
	go func() {
		for s.count() < want && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	s.load(ctx, p, 100)
	if s.count() < want {
		t.Fatalf("only %d SCTs came, statuses %v\n%s", s.count(), s.Counts().Statuses, p.Out.Text())
	}
}

// count returns how many entries are promised.
func (s *subject) count() int { return s.Counts().Promised }

// refused submits a new chain, which must be refused with this status.
func (s *subject) refused(t testing.TB, p *process, want int) {
	t.Helper()
	if status, _ := s.Submit(t.Context(), p.Addr, s.Next(0)); status != want {
		t.Errorf("submission: status %d, want %d\n%s", status, want, p.Out.Text())
	}
}

// failed reports what went wrong.
func (s *subject) failed(t testing.TB) {
	t.Helper()
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}
