package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/daybook-ct/daybook/tlog"
)

const (
	// usualLimit is what an object may have without waiting for others; above
	// it, up to its own limit, objects are decompressed one at a time, so that
	// memory is bounded whatever a log sends.
	usualLimit = 16 << 20

	// maxWait bounds the wait that a log may ask for with Retry-After.
	maxWait = 30 * time.Second
)

// ClientOptions configure a Client. The zero value is usable.
type ClientOptions struct {
	// HTTP sends the requests. Default: a client of its own with one
	// connection for each concurrent request.
	HTTP *http.Client
	// UserAgent names the client; logs ask for a way to reach its operator.
	UserAgent string
	// Timeout bounds each attempt, from request to the end of the body.
	// Default 30 s.
	Timeout time.Duration
	// Retries is the number of further attempts after a connection error, a
	// 5xx or a 429. Default 4, negative for none.
	Retries int
	// Backoff is the wait before the first retry; it doubles each time.
	// Default 250 ms.
	Backoff time.Duration
	// Concurrency bounds the requests in flight. Default 16.
	Concurrency int
}

// Client reads the objects of one log. It is safe for concurrent use.
type Client struct {
	prefix   string // with trailing slash
	o        ClientOptions
	inFlight chan struct{}
	large    chan struct{} // taken by the one object over usualLimit

	requests, retries, bytes atomic.Int64
}

// NewClient returns a client of the log with this monitoring prefix, an http or
// https URL. Nothing is sent.
func NewClient(prefix string, o ClientOptions) (*Client, error) {
	u, err := url.Parse(prefix)
	if err != nil {
		return nil, fmt.Errorf("monitoring prefix: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("monitoring prefix %q is not an http or https URL without query and fragment", prefix)
	}
	if o.UserAgent == "" {
		o.UserAgent = "daybook-monitor/1"
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Retries == 0 {
		o.Retries = 4
	}
	if o.Backoff <= 0 {
		o.Backoff = 250 * time.Millisecond
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 16
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DisableCompression:  true, // decompressed here, within bounds
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: o.Concurrency,
			IdleConnTimeout:     time.Minute,
			TLSHandshakeTimeout: 10 * time.Second,
		}}
	}
	return &Client{
		prefix:   strings.TrimRight(prefix, "/") + "/",
		o:        o,
		inFlight: make(chan struct{}, o.Concurrency),
		large:    make(chan struct{}, 1),
	}, nil
}

// Close closes idle connections. Requests in flight are not disturbed.
func (c *Client) Close() { c.o.HTTP.CloseIdleConnections() }

// Prefix returns the monitoring prefix, with a trailing slash.
func (c *Client) Prefix() string { return c.prefix }

// Get returns the content of an object, decompressed, of at most limit bytes.
// The error wraps ErrNotFound if the log says that there is none, and
// ErrUnavailable if there was no usable answer. It is a [Fault] if the answer is
// too large or does not decompress.
func (c *Client) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	select {
	case c.inFlight <- struct{}{}:
		defer func() { <-c.inFlight }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	wait := c.o.Backoff
	for attempt := 0; ; attempt++ {
		b, again, err := c.try(ctx, name, limit)
		if err == nil || again < 0 || attempt >= c.o.Retries {
			return b, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.retries.Add(1)
		timer := time.NewTimer(min(max(wait, again), maxWait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		wait *= 2
	}
}

// final is returned by try for an answer that another attempt would not change.
const final = time.Duration(-1)

// try makes one attempt. again is the wait that the log asked for, or final.
func (c *Client) try(ctx context.Context, name string, limit int64) (b []byte, again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.prefix+name, nil)
	if err != nil {
		return nil, final, err
	}
	req.Header.Set("User-Agent", c.o.UserAgent)
	req.Header.Set("Accept-Encoding", "gzip, identity") // static-ct-api: clients should list both
	c.requests.Add(1)
	resp, err := c.o.HTTP.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotFound, code == http.StatusGone:
		c.drain(resp.Body)
		return nil, final, fmt.Errorf("%s: %w", name, ErrNotFound)
	case code == http.StatusTooManyRequests, code >= 500:
		c.drain(resp.Body)
		return nil, retryAfter(resp), fmt.Errorf("%w: %s: status %s", ErrUnavailable, name, resp.Status)
	default:
		c.drain(resp.Body)
		return nil, final, fmt.Errorf("%w: %s: status %s", ErrUnavailable, name, resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	c.bytes.Add(int64(len(raw)))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s: %w", ErrUnavailable, name, err)
	}
	if int64(len(raw)) > limit {
		return nil, final, fault(name, "more than %d bytes", limit)
	}
	switch coding := strings.ToLower(resp.Header.Get("Content-Encoding")); coding {
	case "", "identity":
		return raw, final, nil
	case "gzip", "x-gzip":
		b, err := c.decompress(ctx, name, raw, limit)
		return b, final, err
	default:
		return nil, final, fault(name, "has Content-Encoding %q, which was not asked for", coding)
	}
}

// drain reads a short body, so that the connection can be used again.
func (c *Client) drain(body io.Reader) {
	n, _ := io.CopyN(io.Discard, body, 4096) // an error ends the connection, nothing more
	c.bytes.Add(n)
}

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

func (c *Client) decompress(ctx context.Context, name string, raw []byte, limit int64) ([]byte, error) {
	b, err := gunzip(raw, min(limit, usualLimit))
	if errors.Is(err, tlog.ErrTooLarge) && limit > usualLimit {
		select {
		case c.large <- struct{}{}:
			defer func() { <-c.large }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		b, err = gunzip(raw, limit)
	}
	return b, gunzipFault(name, limit, err)
}

// Decompress returns the content of a gzip-compressed object, of at most limit
// bytes. The error is a *[Fault].
func Decompress(name string, raw []byte, limit int64) ([]byte, error) {
	b, err := gunzip(raw, limit)
	if err := gunzipFault(name, limit, err); err != nil {
		return nil, err
	}
	return b, nil
}

// gunzipFault puts an error of gunzip in words.
func gunzipFault(name string, limit int64, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tlog.ErrTooLarge):
		return fault(name, "decompresses to more than %d bytes", limit)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault(name, "gzip stream is cut short")
	}
	return fault(name, "does not decompress: %v", err)
}

// gunzip is strict where tlog.Decompress is: the checksum must match.
func gunzip(raw []byte, limit int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	buf.Grow(int(min(limit, int64(len(raw))*3)))
	n, err := io.Copy(&buf, io.LimitReader(r, limit+1))
	if n > limit {
		return nil, tlog.ErrTooLarge
	}
	return buf.Bytes(), err
}
