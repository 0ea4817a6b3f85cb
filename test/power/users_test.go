package power

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/test/witness"
)

const (
	logPath = "/power/"
	origin  = "ct.example.com/power"
)

// answerTime bounds the wait for an answer. A round takes a second or two here.
const answerTime = 30 * time.Second

// users submit to one log through all its lives, and watch its checkpoint.
type users struct{ *witness.Witness }

func newUsers(t testing.TB, l witness.Log, r *rand.Rand) *users {
	client := newClient(t)
	w := witness.New(l, witness.Options{Chains: chains, HTTP: client, Monitor: monitor.ClientOptions{HTTP: client, Timeout: answerTime},
		Pause: 10 * time.Millisecond, AtOnce: 24}, r)
	w.MayMove(true) // a cut may cost the cache its last rows
	return &users{w}
}

// fork returns others who know the same at this moment.
func (u *users) fork(t testing.TB, r *rand.Rand) *users {
	return &users{u.Fork(newClient(t), rand.New(rand.NewPCG(r.Uint64(), r.Uint64())))}
}

// newClient returns a client whose connections are opened one by one, each of
// which has got an answer before the next is opened: QEMU listens for the machine
// with a queue of one, and what comes while that is full may hang for minutes.
func newClient(t testing.TB) *http.Client {
	var dialing sync.Mutex
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialing.Lock()
		defer dialing.Unlock()
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
	client := &http.Client{Timeout: answerTime, Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: connections, IdleConnTimeout: 10 * time.Second}}
	t.Cleanup(client.CloseIdleConnections)
	return client
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

// count returns how many entries are promised.
func (u *users) count() int { return u.Counts().Promised }

// load submits over several connections, and watches the checkpoint, until the
// returned function is called, which waits for the end.
func (u *users) load(t testing.TB, addr string, connections int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { u.Load(ctx, addr, connections) })
	all.Go(func() {
		for tick := time.NewTicker(30 * time.Millisecond); ; {
			select {
			case <-tick.C:
				u.Look(ctx, addr)
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// verify verifies the whole log as a monitor does: every promise, and every
// checkpoint ever seen, the present one among them.
func (u *users) verify(ctx context.Context, addr string, signatures bool) error {
	u.Look(ctx, addr)
	if _, err := u.Verify(ctx, addr, signatures); err != nil {
		return err
	}
	return u.Err()
}

// notServed asks for files that must not be served.
func (u *users) notServed(ctx context.Context, addr string, names []string) error {
	_, err := u.NotServed(ctx, addr, names)
	return errors.Join(err, u.Err())
}
