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
