package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxHeaderLines = 100
	maxBody        = 64 << 10 // an SCT has 350 bytes
)

var errResponse = errors.New("malformed HTTP response")

// target is where requests go.
type target struct {
	address string // host:port
	host    string // Host header
	path    string // of the prefix, with trailing slash
	tls     *tls.Config
	timeout time.Duration
}

func newTarget(prefix string, timeout time.Duration) (*target, error) {
	u, err := url.Parse(prefix)
	if err != nil {
		return nil, fmt.Errorf("submission prefix: %w", err)
	}
	t := &target{host: u.Host, path: strings.TrimRight(u.Path, "/") + "/", timeout: timeout}
	port := "80"
	switch u.Scheme {
	case "http":
	case "https":
		port, t.tls = "443", &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
	default:
		return nil, fmt.Errorf("submission prefix %q is not an http or https URL", prefix)
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("submission prefix %q has no host", prefix)
	}
	if p := u.Port(); p != "" {
		port = p
	}
	t.address = net.JoinHostPort(u.Hostname(), port)
	return t, nil
}

// appendHead appends the head of a POST request with a body of n bytes.
func (t *target) appendHead(b []byte, endpoint string, n int) []byte {
	b = append(b, "POST "...)
	b = append(b, t.path...)
	b = append(b, endpoint...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, t.host...)
	b = append(b, "\r\nUser-Agent: daybook-load\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n\r\n"...)
}

// conn is one client's keep-alive connection: a small HTTP/1.1 client whose
// cost is a write and a read, since the load generator shares the machine with
// what it measures. It is used by one goroutine.
type conn struct {
	target *target
	source netip.Addr // local address, if valid
	c      net.Conn   // nil before the first request and after an error
	r      *bufio.Reader
	body   []byte
}

// answer is a response. Its body is valid until the next request.
type answer struct {
	status     int
	retryAfter time.Duration
	body       []byte
}

// do sends a request and reads the answer. A kept connection that the server
// has closed in the meantime is opened again, once, if nothing was answered.
func (c *conn) do(ctx context.Context, request []byte) (answer, error) {
	for fresh := c.c == nil; ; fresh = true {
		if c.c == nil {
			if err := c.dial(ctx); err != nil {
				return answer{}, err
			}
		}
		a, keep, err := c.exchange(request)
		if err != nil || !keep {
			c.close()
		}
		if closed := errors.Is(err, errClosed); !closed || fresh {
			return a, err
		}
	}
}

func (c *conn) close() {
	if c.c != nil {
		_ = c.c.Close() // nothing is lost with it
		c.c = nil
	}
}

func (c *conn) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.target.timeout)
	defer cancel()
	d := net.Dialer{KeepAlive: -1}
	if c.source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.source, 0))
	}
	raw, err := d.DialContext(ctx, "tcp", c.target.address)
	if err != nil {
		return err
	}
	if c.target.tls != nil {
		t := tls.Client(raw, c.target.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			return errors.Join(err, raw.Close())
		}
		raw = t
	}
	c.c = raw
	if c.r == nil {
		c.r = bufio.NewReaderSize(nil, 2048)
	}
	c.r.Reset(raw)
	return nil
}

// errClosed means that the server closed the connection before it answered.
var errClosed = errors.New("connection was closed before the answer")

func (c *conn) exchange(request []byte) (a answer, keep bool, err error) {
	if err := c.c.SetDeadline(time.Now().Add(c.target.timeout)); err != nil {
		return a, false, err
	}
	if _, err := c.c.Write(request); err != nil {
		// The server may have answered and closed without reading it all.
		if _, perr := c.r.Peek(1); perr != nil {
			return a, false, fmt.Errorf("%w: %w", errClosed, err)
		}
	}
	if _, err := c.r.Peek(1); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return a, false, err
		}
		return a, false, fmt.Errorf("%w: %w", errClosed, err)
	}
	return c.readAnswer()
}

// head is what matters of a response's head.
type head struct {
	status     int
	length     int64 // -1 if not stated
	chunked    bool
	keep       bool
	retryAfter time.Duration
}

func (c *conn) readAnswer() (answer, bool, error) {
	h, err := c.readHead()
	for err == nil && h.status < 200 { // 100 Continue and the like
		h, err = c.readHead()
	}
	if err != nil {
		return answer{}, false, err
	}
	a := answer{status: h.status, retryAfter: h.retryAfter}
	var body io.Reader
	switch {
	case h.status == 204 || h.status == 304:
		return a, h.keep, nil
	case h.chunked:
		body = httputil.NewChunkedReader(c.r)
	case h.length >= 0:
		if h.length > maxBody {
			return a, false, fmt.Errorf("%w: body of %d bytes", errResponse, h.length)
		}
		if int64(cap(c.body)) < h.length {
			c.body = make([]byte, maxBody)
		}
		a.body = c.body[:h.length]
		_, err := io.ReadFull(c.r, a.body)
		return a, h.keep, err
	default:
		body, h.keep = c.r, false
	}
	a.body, err = io.ReadAll(io.LimitReader(body, maxBody+1))
	if err == nil && len(a.body) > maxBody {
		err = fmt.Errorf("%w: body of more than %d bytes", errResponse, maxBody)
	}
	if h.chunked && err == nil { // the trailer ends with an empty line
		for line, e := c.readLine(); len(line) > 0 || e != nil; line, e = c.readLine() {
			if e != nil {
				return a, false, e
			}
		}
	}
	return a, h.keep, err
}

// readHead reads a status line and header fields (RFC 9112 sections 4 and 5).
func (c *conn) readHead() (head, error) {
	line, err := c.readLine()
	if err != nil {
		return head{}, err
	}
	// HTTP/1.1 200 OK
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return head{}, errResponse
	}
	h := head{length: -1, keep: line[7] == '1'}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil || h.status < 100 || (len(line) > 12 && line[12] != ' ') {
		return head{}, errResponse
	}
	for range maxHeaderLines {
		if line, err = c.readLine(); err != nil {
			return head{}, err
		}
		if len(line) == 0 {
			return h, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return head{}, errResponse
		}
		if err := h.field(name, bytes.TrimSpace(value)); err != nil {
			return head{}, err
		}
	}
	return head{}, errResponse
}

func (h *head) field(name, value []byte) error {
	switch {
	case is(name, "content-length"):
		n, err := strconv.ParseUint(string(value), 10, 62)
		if err != nil {
			return errResponse
		}
		h.length = int64(n)
	case is(name, "transfer-encoding"):
		if !is(value, "chunked") {
			return errResponse
		}
		h.chunked = true
	case is(name, "connection"):
		if is(value, "close") {
			h.keep = false
		}
	case is(name, "retry-after"):
		if n, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			h.retryAfter = time.Duration(n) * time.Second
		}
	}
	return nil
}

// is compares with a lower-case ASCII word.
func is(b []byte, word string) bool {
	return len(b) == len(word) && bytes.EqualFold(b, []byte(word))
}

// readLine returns a line without its end, valid until the next read.
func (c *conn) readLine() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errResponse
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}
