package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestSlowClients: five hundred connections that send a byte a second are shed
// after ten, and submissions beside them are answered as ever.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	const clients = 500
	p := newPlace(t)
	a := p.log("a")
	p.create(a)
	r := p.start(Options{Logs: []LogOptions{a}})
	conns := make([]net.Conn, clients)
	for i := range conns {
		c, err := net.Dial("tcp", r.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c
		if _, err := fmt.Fprint(c, "POST /a/ct/v1/add-chain HTTP/1.1\r\nHost: ct.example.com\r\nContent-Length: 5000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	shed := make([]time.Duration, clients)
	var slow sync.WaitGroup
	for i, c := range conns {
		slow.Go(func() {
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				_, _ = io.Copy(io.Discard, c) // until the server closes it
				shed[i] = time.Since(start)
			}()
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-closed:
					_ = c.Close()
					return
				case <-tick.C:
					_, _ = c.Write([]byte(" "))
				}
			}
		})
	}
	for n := range 20 {
		if code, body := p.submit(r, "a", uint64(n)); code != http.StatusOK {
			t.Errorf("a submission beside slow clients: %d %s", code, body)
		}
	}
	slow.Wait()
	for i, took := range shed {
		if took > 20*time.Second {
			t.Fatalf("client %d was shed after %v", i, took)
		}
	}
}
