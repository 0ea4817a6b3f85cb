package crash

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
)

// watcher reads the checkpoint all the time, through all lives of a log, and
// asks for what must not be served.
type watcher struct {
	l    *logDir
	http *http.Client

	mu       sync.Mutex
	last     checkpoint.TreeHead
	seen     [][]byte // each once, in their order
	checked  int      // of seen, held against a later tree
	asked    int      // requests for temporary files and bundles, all answered 404
	distinct int      // checkpoints seen
	faults   []error
}

func newWatcher(t testing.TB, l *logDir) *watcher {
	w := &watcher{l: l, http: &http.Client{Timeout: patience, Transport: &http.Transport{IdleConnTimeout: time.Second}}}
	t.Cleanup(w.http.CloseIdleConnections)
	return w
}

// watch watches until the process ends or the returned function is called,
// which waits for the end.
func (w *watcher) watch(t testing.TB, p *process) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	client, err := monitor.NewClient("http://"+p.addr+logPath, monitor.ClientOptions{HTTP: w.http, Retries: -1, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	var watchers sync.WaitGroup
	every := func(period time.Duration, f func(context.Context)) {
		watchers.Go(func() {
			tick := time.NewTicker(period)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-p.done:
					return
				case <-tick.C:
					f(ctx)
				}
			}
		})
	}
	every(5*time.Millisecond, func(ctx context.Context) {
		if signed, err := client.Get(ctx, "checkpoint", checkpoint.MaxNoteSize); err == nil {
			w.see(signed)
		}
	})
	every(5*time.Millisecond, func(ctx context.Context) { w.ask(ctx, p) })
	return func() { cancel(); watchers.Wait() }
}

// see notes a checkpoint. It must not be older than the one before.
func (w *watcher) see(signed []byte) {
	head, err := w.l.verifier.Verify(signed)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.faults = append(w.faults, fmt.Errorf("a checkpoint does not verify: %w", err))
	case head == w.last:
	case w.distinct > 0 && (head.Timestamp <= w.last.Timestamp || head.Tree.N < w.last.Tree.N || head.Tree.N == w.last.Tree.N && head.Tree != w.last.Tree):
		w.faults = append(w.faults, fmt.Errorf("checkpoint of size %d at %d came after the one of size %d at %d", head.Tree.N, head.Timestamp, w.last.Tree.N, w.last.Timestamp))
	default:
		if head.Tree != w.last.Tree {
			w.seen = append(w.seen, signed)
		}
		w.last = head
		w.distinct++
	}
}

// ask asks for the temporary files and staging bundles that are there.
func (w *watcher) ask(ctx context.Context, p *process) {
	var names []string
	for _, dir := range []string{"", "staging/"} {
		entries, err := os.ReadDir(w.l.at("data/" + dir))
		if err != nil {
			continue // no staging yet
		}
		for _, e := range entries {
			if e.Type().IsRegular() && (dir != "" || e.Name()[0] == '.') {
				names = append(names, dir+e.Name())
			}
		}
	}
	for _, name := range names {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+logPath+name, nil)
		if err != nil {
			w.fault(err)
			return
		}
		resp, err := w.http.Do(req)
		if err != nil {
			return
		}
		_ = resp.Body.Close()
		if w.fault(nil); resp.StatusCode != http.StatusNotFound {
			w.fault(fmt.Errorf("%s is served: status %d", name, resp.StatusCode))
		}
	}
}

// fault counts a request, or notes what was wrong.
func (w *watcher) fault(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.faults = append(w.faults, err)
	} else {
		w.asked++
	}
}

func (w *watcher) failed(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.faults {
		t.Error(err)
	}
	w.faults = nil
}

// checkpoints returns those that were not yet held against a later tree,
// and the last one that was; or all of them.
func (w *watcher) checkpoints(all bool) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := max(0, w.checked-1)
	if all {
		from = 0
	}
	w.checked = len(w.seen)
	return append([][]byte(nil), w.seen[from:]...)
}
