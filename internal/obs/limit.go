package obs

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// fullEvery is how often at most it is said that connections have to wait.
	fullEvery = time.Minute

	// fullPeriod is how often room is made while one waits.
	fullPeriod = 50 * time.Millisecond
)

// limited is a listener with a bound on its open connections. One above it is
// accepted and has to wait, others stay in the operating system's queue, where
// they cost no file.
type limited struct {
	net.Listener
	slots chan struct{}
	full  func() // called now and then while a connection has to wait
	log   *slog.Logger
	said  time.Time // when the last warning was; of the goroutine in Accept

	closed chan struct{}
	once   sync.Once
}

func limit(l net.Listener, connections int, full func(), log *slog.Logger) *limited {
	return &limited{Listener: l, slots: make(chan struct{}, connections), full: full, log: log, closed: make(chan struct{})}
}

// Accept returns a connection once there is a slot for it.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.slot() {
		_ = c.Close() // nothing was said on it
		return nil, net.ErrClosed
	}
	return &slotConn{Conn: c, free: func() { <-l.slots }}, nil
}

// slot waits for a free slot. It fails if the listener is closed before.
func (l *limited) slot() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	if now := time.Now(); now.Sub(l.said) >= fullEvery {
		l.said = now
		l.log.Warn("all connections are taken, more have to wait: raise the open-file limit, or see who holds so many",
			"address", l.Addr().String(), "connections", cap(l.slots))
	}
	tick := time.NewTicker(fullPeriod)
	defer tick.Stop()
	for {
		l.full()
		select {
		case l.slots <- struct{}{}:
			return true
		case <-l.closed:
			return false
		case <-tick.C:
		}
	}
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// slotConn gives its slot back when it is closed, once.
type slotConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}
