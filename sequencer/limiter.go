package sequencer

import (
	"net/netip"
	"time"
)

// limiter is a token bucket per submitter. It is guarded by the turnstile.
//
// Its table is bounded: buckets live in two generations, and when the young one
// is full the old one is dropped. A dropped submitter starts with a full
// bucket, which errs on the side of answering.
type limiter struct {
	rate       float64 // tokens per second; 0 is no limit
	burst      float64
	young, old map[netip.Prefix]bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

// limiterGeneration bounds each generation; a bucket takes about 100 bytes.
const limiterGeneration = 10_000

func newLimiter(rate float64) *limiter {
	return &limiter{rate: rate, burst: max(1, 10*rate), young: make(map[netip.Prefix]bucket)}
}

// allow takes a token of the submitter, if there is one.
func (l *limiter) allow(submitter netip.Prefix, now time.Time) bool {
	if l.rate == 0 {
		return true
	}
	b, ok := l.young[submitter]
	if !ok {
		if b, ok = l.old[submitter]; !ok {
			b = bucket{tokens: l.burst, at: now}
		}
		if len(l.young) >= limiterGeneration {
			l.old, l.young = l.young, make(map[netip.Prefix]bucket)
		}
	}
	if elapsed := now.Sub(b.at).Seconds(); elapsed > 0 {
		b.tokens = min(l.burst, b.tokens+elapsed*l.rate)
		b.at = now
	}
	allowed := b.tokens >= 1
	if allowed {
		b.tokens--
	}
	l.young[submitter] = b
	return allowed
}
