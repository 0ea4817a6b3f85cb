package conformance

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds the bytes of an answer that are read.
const maxAnswer = 64 << 20

// answer is what came back for a request. A request without an answer has
// status 0 and err.
type answer struct {
	status int
	header http.Header
	body   []byte // as it came, with its coding
	took   time.Duration
	err    error
}

// String says what came, in a few words.
func (a answer) String() string {
	if a.err != nil {
		return "no answer (" + a.err.Error() + ")"
	}
	s := fmt.Sprintf("status %d", a.status)
	if text := a.text(); text != "" && a.status != http.StatusOK {
		s += fmt.Sprintf(" %q", text)
	}
	return s
}

// text returns the beginning of the body, without the newline at its end.
func (a answer) text() string {
	return strings.TrimSpace(string(a.body[:min(len(a.body), 300)]))
}

func (a answer) refused() bool { return a.status >= 400 && a.status < 500 }

// decoded returns the body without its Content-Encoding.
func (a answer) decoded() ([]byte, error) {
	switch coding := a.header.Get("Content-Encoding"); coding {
	case "":
		return a.body, nil
	case "gzip":
		return gunzip(a.body)
	default:
		return nil, fmt.Errorf("Content-Encoding is %q", coding)
	}
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(out) > maxAnswer {
		err = errors.New("too much comes out of the gzip stream")
	}
	return out, err
}

// client sends requests below one prefix. It is safe for concurrent use.
type client struct {
	prefix string // without the slash at its end
	http   *http.Client
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

func newClient(prefix string, t *Target) (*client, error) {
	u, err := url.Parse(prefix)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is not the URL of a prefix", prefix)
	}
	dial := t.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	c := &client{prefix: strings.TrimRight(prefix, "/"), dial: dial}
	c.http = &http.Client{
		Timeout:       t.timeout(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:         dial,
			DisableCompression:  true, // codings are part of what is judged
			MaxIdleConnsPerHost: 32,
			ForceAttemptHTTP2:   true,
			IdleConnTimeout:     30 * time.Second,
		},
	}
	return c, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call is a request.
type call struct {
	method string // default GET
	path   string // below the prefix, sent as it stands
	header http.Header
	body   io.Reader
	length int64 // of body if it cannot be told, -1 for chunks
}

func (c *client) do(ctx context.Context, r call) answer {
	if r.method == "" {
		r.method = http.MethodGet
	}
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, r.method, c.prefix+"/"+r.path, r.body)
	if err != nil {
		return answer{err: err}
	}
	req.Header = r.header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("User-Agent", "daybook-conformance")
	if r.length != 0 {
		req.ContentLength = r.length
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{err: errors.Unwrap(err), took: time.Since(start)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close() // it was read to its end, or err says why not
	a := answer{status: resp.StatusCode, header: resp.Header, body: body, took: time.Since(start)}
	if err != nil {
		a.status, a.err = 0, fmt.Errorf("reading the answer: %w", err)
	}
	return a
}

func (c *client) get(ctx context.Context, path string) answer {
	return c.do(ctx, call{path: path})
}

// accepting gets with an Accept-Encoding; none is sent if it is empty.
func (c *client) accepting(ctx context.Context, path, codings string) answer {
	h := make(http.Header)
	if codings != "" {
		h.Set("Accept-Encoding", codings)
	}
	return c.do(ctx, call{path: path, header: h})
}

// raw sends bytes to the host of the prefix, ends its side of the connection,
// and reads one answer.
func (c *client) raw(ctx context.Context, request string) (a answer) {
	start := time.Now()
	defer func() { a.took = time.Since(start) }()
	conn, err := c.connect(ctx)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = conn.Close() }() // all of interest has been read
	if err := conn.SetDeadline(start.Add(c.http.Timeout)); err != nil {
		return answer{err: err}
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return answer{err: err}
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			return answer{err: err}
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{err: err}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close()
	return answer{status: resp.StatusCode, header: resp.Header, body: body, err: err}
}

func (c *client) connect(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(c.prefix)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := c.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme == "http" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: u.Hostname()})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// requestLine returns the path of the prefix and its host, for raw requests.
func (c *client) parts() (host, path string) {
	_, rest, _ := strings.Cut(c.prefix, "://")
	host, path, _ = strings.Cut(rest, "/")
	if path != "" {
		path = "/" + path
	}
	return host, path
}
