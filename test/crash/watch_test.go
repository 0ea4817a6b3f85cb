package crash

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watcher reads the checkpoint all the time, through all lives of a log, and
// asks for what must not be served.
type watcher struct {
	asked atomic.Int64 // requests for temporary files and bundles, all answered 404
}

// watch watches until the process ends or the returned function is called,
// which waits for the end.
func (s *subject) watch(t testing.TB, p *process) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var watchers sync.WaitGroup
	every := func(period time.Duration, f func(context.Context)) {
		watchers.Go(func() {
			tick := time.NewTicker(period)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-p.Done:
					return
				case <-tick.C:
					f(ctx)
				}
			}
		})
	}
	every(5*time.Millisecond, func(ctx context.Context) { s.Look(ctx, p.Addr) })
	every(5*time.Millisecond, func(ctx context.Context) { s.ask(ctx, p) })
	return func() { cancel(); watchers.Wait() }
}

// ask asks for the temporary files and staging bundles that are there.
func (s *subject) ask(ctx context.Context, p *process) {
	var names []string
	for _, dir := range []string{"", "staging/"} {
		entries, err := os.ReadDir(s.at("data/" + dir))
		if err != nil {
			continue // no staging yet
		}
		for _, e := range entries {
			if e.Type().IsRegular() && (dir != "" || e.Name()[0] == '.') {
				names = append(names, dir+e.Name())
			}
		}
	}
	denied, _ := s.NotServed(ctx, p.Addr, names) // it may end at any time
	s.asked.Add(int64(denied))
}
