package sequencer

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestBlock: a blocked log refuses before the turnstile and the cache, keeps
// what it promised, and goes on publishing.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 150)
		stop := run(t, l)
		ctx := t.Context()

		before, err := l.Submit(ctx, newEntry(t, 1, High))
		if err != nil {
			t.Fatal(err)
		}
		gets := p.gets
		reason := fmt.Errorf("%w: 3 bytes are free", ErrStorage)
		l.Block(reason)
		for _, n := range []int{1, 2} { // known or not
			if _, err := l.Submit(ctx, newEntry(t, n, High)); !errors.Is(err, ErrStorage) || err.Error() != reason.Error() {
				t.Errorf("entry %d: %v", n, err)
			}
		}
		if err := l.Preflight(netip.Prefix{}, High); !errors.Is(err, ErrStorage) {
			t.Errorf("preflight: %v", err)
		}
		if p.gets != gets {
			t.Errorf("%d cache gets of refused entries", p.gets-gets)
		}
		if got := l.Status().Blocked; got == nil || got.Error() != reason.Error() {
			t.Errorf("status says %v", got)
		}
		if position, err := before.Wait(ctx); err != nil || position.Index != 0 {
			t.Errorf("entry admitted before: %v, %v", position, err)
		}
		published := l.Status().Published
		time.Sleep(3 * l.c.Interval)
		if later := l.Status().Published; !later.After(published) {
			t.Errorf("checkpoint of %v, then of %v", published, later)
		}
		l.Unblock()
		if position, err := l.Add(ctx, newEntry(t, 2, High)); err != nil || position.Index != 1 {
			t.Errorf("after it was unblocked: %v, %v", position, err)
		}
		if err := l.Status().Blocked; err != nil {
			t.Errorf("status says %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestBlockYields: what is for good is said before what may pass.
func TestBlockYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newProbe().open(t, 150)
		l.c.Sunset = time.Now().Add(time.Hour)
		l.Block(ErrStorage)
		if _, err := l.Submit(t.Context(), newEntry(t, 1, High)); !errors.Is(err, ErrStorage) {
			t.Errorf("blocked: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := l.Submit(t.Context(), newEntry(t, 1, High)); !errors.Is(err, ErrSunset) {
			t.Errorf("blocked and read-only: %v", err)
		}
		_ = l.halt(errors.New("for the test"))
		if _, err := l.Submit(t.Context(), newEntry(t, 1, High)); !errors.Is(err, ErrHalted) {
			t.Errorf("blocked, read-only and halted: %v", err)
		}
	})
}
