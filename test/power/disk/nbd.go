package disk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
)

// The parts of the NBD protocol that are spoken here: the fixed newstyle
// handshake with NBD_OPT_GO, and simple replies.
const (
	nbdMagic      = 0x4e42444d41474943 // "NBDMAGIC"
	optionMagic   = 0x49484156454f5054 // "IHAVEOPT"
	replyMagic    = 0x3e889045565a9    // to an option
	requestMagic  = 0x25609513
	responseMagic = 0x67446698

	fixedNewstyle, noZeroes = 1, 2

	optAbort, optGo = 2, 7

	repAck, repInfo, repUnsupported = 1, 3, 1<<31 | 1
	infoExport                      = 0

	hasFlags, sendFlush, sendForce = 1, 4, 8 // transmission flags

	cmdRead, cmdWrite, cmdDisconnect, cmdFlush = 0, 1, 2, 3
	flagForce                                  = 1

	maxOption  = 64 << 10
	maxRequest = 64 << 20
)

// Server serves one disk to one client at a time.
type Server struct {
	listener net.Listener
	owner    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // open
	err   error             // first error of the protocol
}

// Serve serves a disk on a listener until Close.
func Serve(l net.Listener, d *Disk) *Server {
	s := &Server{listener: l, conns: map[net.Conn]bool{}}
	s.owner.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.owner.Go(func() { s.serve(c, d) })
		}
	})
	return s
}

// Close ends the service at once and waits for requests in progress. It returns
// the first error that a client made, if there was one.
func (s *Server) Close() error {
	_ = s.listener.Close() // it is of use to nobody any more
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.owner.Wait()
	return s.err
}

func (s *Server) serve(c net.Conn, d *Disk) {
	p := &protocol{Reader: bufio.NewReaderSize(c, 1<<20), conn: c, disk: d, gone: make(chan struct{})}
	err := p.handshake()
	if err == nil {
		err = p.requests()
	}
	close(p.gone)
	_ = c.Close()
	p.flushes.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	// A client may be killed at any point.
	gone := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	if err != nil && !gone && s.err == nil {
		s.err = err
	}
}

// protocol is one connection.
type protocol struct {
	*bufio.Reader
	disk *Disk
	gone chan struct{} // closed when the client has gone

	flushes sync.WaitGroup
	mu      sync.Mutex // held for an answer
	conn    io.Writer
}

func (p *protocol) get(values ...any) error {
	for _, v := range values {
		if err := binary.Read(p, binary.BigEndian, v); err != nil {
			return err
		}
	}
	return nil
}

// put sends values in one packet.
func (p *protocol) put(values ...any) (err error) {
	var b []byte
	for _, v := range values {
		if b, err = binary.Append(b, binary.BigEndian, v); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.conn.Write(b)
	return err
}

func (p *protocol) handshake() error {
	var clientFlags uint32
	if err := errors.Join(p.put(uint64(nbdMagic), uint64(optionMagic), uint16(fixedNewstyle|noZeroes)), p.get(&clientFlags)); err != nil {
		return err
	}
	for {
		var magic uint64
		var option, length uint32
		if err := p.get(&magic, &option, &length); err != nil {
			return err
		}
		if magic != optionMagic || length > maxOption {
			return fmt.Errorf("option %d of %d bytes with magic %x", option, length, magic)
		}
		if _, err := p.Discard(int(length)); err != nil { // the name of the export: there is one only
			return err
		}
		switch option {
		case optGo:
			return errors.Join(
				p.put(uint64(replyMagic), option, uint32(repInfo), uint32(12), uint16(infoExport), uint64(p.disk.size), uint16(hasFlags|sendFlush|sendForce)),
				p.put(uint64(replyMagic), option, uint32(repAck), uint32(0)))
		case optAbort:
			return p.put(uint64(replyMagic), option, uint32(repAck), uint32(0))
		}
		if err := p.put(uint64(replyMagic), option, uint32(repUnsupported), uint32(0)); err != nil {
			return err
		}
	}
}

// requests answers requests in their order, each before the next is read, but
// for flushes, beside which other requests go on. If the client goes before a
// flush is over, that is given up.
func (p *protocol) requests() error {
	for {
		var r struct {
			Magic       uint32
			Flags, Type uint16
			Handle      uint64
			Offset      uint64
			Length      uint32
		}
		if err := p.get(&r); err != nil {
			return err
		}
		if r.Magic != requestMagic || r.Length > maxRequest {
			return fmt.Errorf("request %d of %d bytes with magic %x", r.Type, r.Length, r.Magic)
		}
		switch r.Type {
		case cmdDisconnect:
			return nil
		case cmdFlush:
			p.flushes.Go(func() {
				if p.disk.Flush(p.gone) == nil {
					_ = p.put(uint32(responseMagic), uint32(0), r.Handle) // reading will tell, too
				}
			})
			continue
		}
		answer, err := p.request(r.Type, r.Flags, int64(r.Offset), r.Length)
		code := syscall.Errno(0)
		switch {
		case errors.Is(err, ErrBadSector):
			code = syscall.EIO
		case errors.Is(err, errRequest):
			code = syscall.EINVAL
		case err != nil:
			return err
		}
		if err := p.put(uint32(responseMagic), uint32(code), r.Handle, answer); err != nil {
			return err
		}
	}
}

// errRequest means that a request cannot be done.
var errRequest = errors.New("cannot be done")

// request does one request and returns what was read. The flush that has to
// begin after it has not begun yet.
func (p *protocol) request(command, flags uint16, off int64, length uint32) ([]byte, error) {
	b := make([]byte, length)
	var err error
	switch command {
	case cmdRead:
		if _, err = p.disk.ReadAt(b, off); err == nil {
			return b, nil
		}
	case cmdWrite:
		if _, err := io.ReadFull(p, b); err != nil {
			return nil, err // the client has gone; nothing of it was written
		}
		err = p.disk.Write(b, off, flags&flagForce != 0)
		if err == nil || errors.Is(err, ErrBadSector) {
			return nil, err
		}
	default:
		err = errors.New("unknown command")
	}
	return nil, fmt.Errorf("%w: %w", errRequest, err)
}
