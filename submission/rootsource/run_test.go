package rootsource

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestRun: when sources are read, on a clock of its own.
func TestRun(t *testing.T) {
	r := newRoots(t, 5)
	path := write(t, filepath.Join(t.TempDir(), "roots.pem"), r[0])
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex // guards both
		var requests []time.Duration
		var answer func() (string, error)
		set := func(text string, err error) {
			mu.Lock()
			defer mu.Unlock()
			answer = func() (string, error) { return text, err }
		}
		set(reportOf(r[1]), nil)
		f := newFixture(t, Options{Transport: answers(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, time.Since(start))
			text, err := answer()
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: req, ContentLength: -1}, nil
		})})
		report, err := CCADB("https://ccadb.example.org/roots.csv")
		if err != nil {
			t.Fatal(err)
		}
		store := newStore()
		a := f.open(store, PEM(path)) // so that the log has roots already
		a.o.Sources = append(a.o.Sources, report)
		ctx, stop := context.WithCancel(t.Context())
		ask := make(chan os.Signal, 1)
		ended := make(chan struct{})
		go func() {
			f.Run(ctx, []*Accepted{a}, ask)
			close(ended)
		}()
		at := func(when time.Duration, roots int, times ...time.Duration) {
			t.Helper()
			time.Sleep(when - time.Since(start))
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if n := a.Roots().Len(); n != roots {
				t.Errorf("after %v: %d roots, want %d", when, n, roots)
			}
			if len(requests) != len(times) {
				t.Fatalf("after %v: requests at %v, want %v", when, requests, times)
			}
			for i := range times {
				if requests[i] != times[i] {
					t.Errorf("after %v: requests at %v, want %v", when, requests, times)
				}
			}
		}
		const hour = time.Hour
		// A URL that was not read at the start is read at once.
		at(0, 2, 0)
		// URLs are read every day, files are not.
		write(t, path, r[2])
		set(reportOf(r[3]), nil)
		at(24*hour-1, 2, 0)
		at(24*hour, 3, 0, 24*hour)
		// Asking reads all, and the day begins anew.
		time.Sleep(6 * hour)
		ask <- syscall.SIGHUP
		at(30*hour, 4, 0, 24*hour, 30*hour)
		at(54*hour-1, 4, 0, 24*hour, 30*hour)
		// What fails is tried again each hour, but nothing else is.
		set("", errors.New("no route"))
		write(t, path, r[4])
		at(56*hour, 4, 0, 24*hour, 30*hour, 54*hour, 55*hour, 56*hour)
		set(reportOf(r[3], r[1]), nil)
		at(57*hour, 4, 0, 24*hour, 30*hour, 54*hour, 55*hour, 56*hour, 57*hour)
		at(81*hour-1, 4, 0, 24*hour, 30*hour, 54*hour, 55*hour, 56*hour, 57*hour)
		// A root that the storage does not take is tried again each minute.
		store.fail(errors.New("no space"), nil)
		ask <- syscall.SIGHUP
		synctest.Wait()
		time.Sleep(storeRetry)
		synctest.Wait()
		if n := f.lines.Count("level=ERROR", "could not be kept"); n != 2 || a.Roots().Len() != 4 {
			t.Errorf("%d tries in the first minute", n)
		}
		store.fail(nil, nil)
		time.Sleep(storeRetry)
		synctest.Wait()
		if a.Roots().Len() != 5 {
			t.Errorf("%d roots in the end", a.Roots().Len())
		}
		stop()
		<-ended
	})
}

// TestRunEnds: the end does not wait for a server, and is no failure of it.
func TestRunEnds(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "roots.pem"), newRoots(t, 1)[0])
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{Transport: answers(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})})
		report, err := CCADB("https://ccadb.example.org/roots.csv")
		if err != nil {
			t.Fatal(err)
		}
		store := newStore()
		f.open(store, PEM(path))
		// A second start: the URL does not hold it up.
		start := time.Now()
		a := f.open(store, PEM(path), report)
		if took := time.Since(start); took > 0 || a.Roots().Len() != 1 {
			t.Errorf("%d roots after %v", a.Roots().Len(), took)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			f.Run(ctx, []*Accepted{a}, nil)
			close(ended)
		}()
		synctest.Wait() // it waits for the server now
		stop()
		<-ended
		if took := time.Since(start); took > 0 || f.lines.Count("level=ERROR") > 0 || f.reloads(report, outcomeUnreadable) != 0 {
			t.Errorf("it ended after %v\n%s", took, f.lines)
		}
		// While nothing ends it, the server has its time and no more.
		ctx, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		f.Run(ctx, []*Accepted{a}, nil)
		if f.reloads(report, outcomeUnreadable) != 1 || f.lines.Count("level=ERROR", "deadline exceeded") != 1 {
			t.Errorf("no time limit:\n%s", f.lines)
		}
		// The first start waits for it, but can be interrupted.
		ctx, stop = context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := newFixtureWith(t, f).Open(ctx, LogOptions{Sources: []Source{report}, Store: newStore()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an interrupted start: %v", err)
		}
	})
}

// newFixtureWith returns a new Loader with the transport of another.
func newFixtureWith(t *testing.T, f *fixture) *fixture {
	return newFixture(t, Options{Transport: f.o.Transport})
}
