package power

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	logPath = "/power/"
	origin  = "ct.example.com/power"
)

// answerTime bounds the wait for an answer. A round takes a second or two here.
const answerTime = 30 * time.Second

// identity is what is public of a log.
type identity struct {
	key      []byte // SPKI
	verifier *checkpoint.Verifier
}

// users submit to one log through all its lives, and keep what it promised
// and showed. A chain is its number.
type users struct {
	identity
	http    *http.Client
	dialing sync.Mutex

	mu       sync.Mutex
	rand     *rand.Rand
	next     uint64
	promised map[uint64]promise
	open     map[uint64]bool // submitted, and never answered with an SCT
	moved    []monitor.Promise
	repeated int                 // resubmissions that were answered with the same SCT
	last     checkpoint.TreeHead // of seen
	seen     [][]byte            // checkpoints of different trees, in their order
	faults   []error
}

// promise is an SCT that reached a client.
type promise struct {
	monitor.Promise
	sct []byte // as it was answered
}

func newUsers(t testing.TB, id identity, r *rand.Rand) *users {
	u := &users{identity: id, rand: r, promised: map[uint64]promise{}, open: map[uint64]bool{}}
	u.http = &http.Client{Timeout: answerTime, Transport: &http.Transport{DialContext: u.dial, MaxIdleConnsPerHost: connections, IdleConnTimeout: 10 * time.Second}}
	t.Cleanup(u.http.CloseIdleConnections)
	return u
}

// dial opens connections one by one, each of which has got an answer before the
// next is opened: QEMU listens for the machine with a queue of one, and what
// comes while that is full may hang for minutes.
func (u *users) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	u.dialing.Lock()
	defer u.dialing.Unlock()
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	if _, err = io.WriteString(c, "HEAD "+logPath+"checkpoint HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"); err == nil {
		err = readHeader(c)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// readHeader reads the header of an answer without a body, and no more.
func readHeader(r io.Reader) error {
	for end, b := 0, make([]byte, 1); end < 4; {
		if _, err := r.Read(b); err != nil {
			return err
		}
		if b[0] == "\r\n\r\n"[end] {
			end++
		} else {
			end = 0
		}
	}
	return nil
}

// fork returns others who know the same at this moment.
func (u *users) fork(t testing.TB) *users {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := newUsers(t, u.identity, rand.New(rand.NewPCG(u.rand.Uint64(), u.rand.Uint64())))
	f.next, f.promised, f.open = u.next, maps.Clone(u.promised), maps.Clone(u.open)
	f.moved, f.last, f.seen = slices.Clone(u.moved), u.last, slices.Clone(u.seen)
	return f
}

// chain returns chain n and the entry that it must become.
func chain(n uint64) (testca.Chain, *tlog.Entry, error) {
	c, err := ca.Make(n, testca.Leaf{Precert: n%2 == 0, NotBefore: started.Add(-time.Hour), NotAfter: started.Add(90 * 24 * time.Hour)})
	if err != nil {
		return c, nil, err
	}
	var e *tlog.Entry
	if c.Precert {
		e, err = tlog.NewPrecertEntry(c.SignedEntry, ca.IssuerKeyHash(), c.SignedEntry, nil, nil)
	} else {
		e, err = tlog.NewX509Entry(c.SignedEntry, nil, nil)
	}
	return c, e, err
}

// submit submits chain n. ok tells whether an SCT came back; if none did for
// want of an answer, status is 0.
func (u *users) submit(ctx context.Context, addr string, n uint64) (status int, ok bool) {
	c, entry, err := chain(n)
	if err != nil {
		u.fault(err)
		return 0, false
	}
	u.mu.Lock()
	if _, known := u.promised[n]; !known {
		u.open[n] = true
	}
	u.mu.Unlock()
	status, body, err := u.post(ctx, "http://"+addr+logPath+c.Endpoint(), c.Body())
	if err != nil || status != http.StatusOK {
		return status, false
	}
	var sct checkpoint.SCT
	if err := json.Unmarshal(body, &sct); err != nil {
		u.fault(fmt.Errorf("answer to chain %d is no SCT: %w", n, err))
		return status, false
	}
	position, err := u.verifier.CheckSCT(sct, entry)
	if err != nil {
		u.fault(fmt.Errorf("chain %d: %w", n, err))
		return status, false
	}
	u.keep(n, promise{monitor.Promise{Key: entry.Key(), Position: position}, body})
	return status, true
}

// keep notes an SCT. An entry that comes again may get another one, if the
// cache has lost it; then both must be kept (S8).
func (u *users) keep(n uint64, p promise) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, known := u.promised[n]
	switch {
	case known && bytes.Equal(before.sct, p.sct):
		u.repeated++
		return
	case known:
		u.moved = append(u.moved, before.Promise)
	}
	delete(u.open, n)
	u.promised[n] = p
}

// post returns status 0 and the error if no whole answer came.
func (u *users) post(ctx context.Context, url string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, answer, nil
}

func (u *users) fault(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults = append(u.faults, err)
}

func (u *users) known(n uint64) bool { _, ok := u.promised[n]; return ok }

func (u *users) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.promised)
}

// pick chooses what to submit next: a new chain, or, one time in ten, one that
// was promised before.
func (u *users) pick() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next > 0 && u.rand.IntN(10) == 0 {
		if n := u.rand.Uint64N(u.next); u.known(n) {
			return n
		}
	}
	u.next++
	return u.next - 1
}

// load submits over several connections, and watches the checkpoint, until the
// returned function is called, which waits for the end.
func (u *users) load(t testing.TB, addr string, connections int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for n, next := uint64(0), true; ctx.Err() == nil; {
				if next {
					n = u.pick()
				}
				if _, next = u.submit(ctx, addr, n); !next {
					select {
					case <-time.After(10 * time.Millisecond): // and then again
					case <-ctx.Done():
					}
				}
			}
		})
	}
	all.Go(func() {
		for tick := time.NewTicker(30 * time.Millisecond); ; {
			select {
			case <-tick.C:
				u.look(ctx, addr)
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// look reads the checkpoint, which must not be older than the one before.
func (u *users) look(ctx context.Context, addr string) {
	client, err := monitor.NewClient("http://"+addr+logPath, monitor.ClientOptions{HTTP: u.http, Retries: -1, Timeout: answerTime})
	if err != nil {
		u.fault(err)
		return
	}
	signed, err := client.Get(ctx, "checkpoint", checkpoint.MaxNoteSize)
	if err != nil {
		return
	}
	head, err := u.verifier.Verify(signed)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err != nil:
		u.faults = append(u.faults, fmt.Errorf("a checkpoint does not verify: %w", err))
	case head == u.last:
	case len(u.seen) > 0 && (head.Timestamp <= u.last.Timestamp || head.Tree.N < u.last.Tree.N || head.Tree.N == u.last.Tree.N && head.Tree != u.last.Tree):
		u.faults = append(u.faults, fmt.Errorf("checkpoint of size %d at %d came after the one of size %d at %d", head.Tree.N, head.Timestamp, u.last.Tree.N, u.last.Timestamp))
	default:
		if len(u.seen) == 0 || head.Tree != u.last.Tree {
			u.seen = append(u.seen, signed)
		}
		u.last = head
	}
}

// resubmit submits again what was never answered, and a sample of what was
// promised, the last ones among them. All must be answered.
func (u *users) resubmit(t testing.TB, addr string, sample int) {
	t.Helper()
	u.mu.Lock()
	again := slices.Collect(maps.Keys(u.open))
	for n := u.next; n > 0 && n+uint64(sample) > u.next; n-- {
		if u.known(n - 1) {
			again = append(again, n-1)
		}
	}
	for range sample {
		if n := u.rand.Uint64N(max(u.next, 1)); u.known(n) {
			again = append(again, n)
		}
	}
	u.mu.Unlock()
	slices.Sort(again)
	again = slices.Compact(again)
	var clients sync.WaitGroup
	work := make(chan uint64)
	for range 24 {
		clients.Go(func() {
			for n := range work {
				if status, ok := u.submit(t.Context(), addr, n); !ok {
					u.fault(fmt.Errorf("resubmission of chain %d: status %d", n, status))
				}
			}
		})
	}
	for _, n := range again {
		work <- n
	}
	close(work)
	clients.Wait()
}

// promises returns all promises.
func (u *users) promises() []monitor.Promise {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := slices.Clone(u.moved)
	for _, p := range u.promised {
		list = append(list, p.Promise)
	}
	return list
}

// verify verifies the whole log as a monitor does: every promise, and every
// checkpoint ever seen.
func (u *users) verify(ctx context.Context, addr string, signatures bool) error {
	u.look(ctx, addr)
	promises := u.promises()
	client, err := monitor.NewClient("http://"+addr+logPath, monitor.ClientOptions{HTTP: u.http, Timeout: answerTime})
	if err != nil {
		return err
	}
	r, err := monitor.Verify(ctx, monitor.Options{Client: client, Prefix: client.Prefix(), Origin: origin, Key: u.key,
		Promises: promises, Known: u.seen, Signatures: signatures})
	if err != nil {
		return err
	}
	if r.Promises != len(promises) {
		return fmt.Errorf("%d promises were verified, of %d", r.Promises, len(promises))
	}
	return u.err()
}

// err returns what went wrong since the last call.
func (u *users) err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	faults := u.faults
	if u.faults = nil; len(faults) > 10 {
		faults = append(faults[:10], fmt.Errorf("and %d more", len(faults)-10))
	}
	return errors.Join(faults...)
}

// notServed asks for files that must not be served.
func (u *users) notServed(ctx context.Context, addr string, names []string) error {
	for _, name := range names {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+logPath+name, nil)
		if err != nil {
			return err
		}
		resp, err := u.http.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusNotFound {
			return fmt.Errorf("%s is served: status %d", name, resp.StatusCode)
		}
	}
	return nil
}
