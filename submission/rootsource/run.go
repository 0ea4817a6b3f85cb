package rootsource

import (
	"context"
	"os"
	"time"
)

// storeRetry is when roots that the storage did not take are tried again.
const storeRetry = time.Minute

// Run reads the sources of the logs again when they are due, and all of them
// for each value that ask sends, and updates the logs. It returns when ctx is
// done. ask may be nil.
func (l *Loader) Run(ctx context.Context, logs []*Accepted, ask <-chan os.Signal) {
	var sources []Source
	for _, a := range logs {
		sources = append(sources, a.o.Sources...)
	}
	next := l.due(sources)
	for {
		timer := time.NewTimer(time.Until(next))
		want := func(*reading) bool { return true }
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-ask:
			l.o.Logger.InfoContext(ctx, "the accepted roots are read again, as was asked for")
		case <-timer.C:
			now := time.Now()
			want = func(r *reading) bool { return !r.due.After(now) }
		}
		timer.Stop()
		if l.load(ctx, sources, want) != nil {
			return
		}
		next = l.due(sources)
		for _, a := range logs {
			if a.Update(ctx) != nil {
				next = earlier(next, time.Now().Add(storeRetry))
			}
		}
	}
}

// due returns when the first of the sources is to be read.
func (l *Loader) due(sources []Source) time.Time {
	first := never
	for _, r := range l.readings(sources) {
		r.mu.Lock()
		first = earlier(first, r.due)
		r.mu.Unlock()
	}
	return first
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
