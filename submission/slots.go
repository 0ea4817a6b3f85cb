package submission

import (
	"context"
	"time"
)

// maxSlotWait bounds the wait for a validation slot. Beyond it the submitter's
// patience, about 2 s, would not reach to the end of a round.
const maxSlotWait = time.Second

// slots bounds how many goroutines do CPU-heavy work at once, so that a round
// never waits for a core behind hundreds of signature checks. The first to
// wait is the first to go on. It is safe for concurrent use.
type slots chan struct{}

// take waits for a slot, which give returns. It fails with the context's error,
// or errOverloaded after the given time.
func (s slots) take(ctx context.Context, atMost time.Duration) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errOverloaded
	}
}

func (s slots) give() { <-s }

// turn is a request's use of the slots.
type turn struct {
	validating, low slots
	has, hasLow     bool
}

// begin takes a slot; what the request is of is not known yet.
func (t *turn) begin(ctx context.Context) error {
	if err := t.validating.take(ctx, maxSlotWait); err != nil {
		return err
	}
	t.has = true
	return nil
}

// stepBack is called when the request turns out to be of low priority, before its
// signatures are verified. Those of low priority may have half of the slots
// among them; if they do, this one lets others go before it.
func (t *turn) stepBack(ctx context.Context) error {
	select {
	case t.low <- struct{}{}:
		t.hasLow = true
		return nil
	default:
	}
	t.validating.give()
	t.has = false
	if err := t.low.take(ctx, maxSlotWait); err != nil {
		return err
	}
	t.hasLow = true
	return t.begin(ctx)
}

func (t *turn) end() {
	if t.has {
		t.validating.give()
	}
	if t.hasLow {
		t.low.give()
	}
}
