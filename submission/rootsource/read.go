package rootsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// errUnusable marks what was read but is no list of roots. All other errors of
// a source mean that it could not be read.
var errUnusable = errors.New("it is no list of roots")

// maxRedirects bounds the redirects that a URL may lead through.
const maxRedirects = 5

// content is what a source holds.
type content struct {
	files []file // one, or those of a directory
	// The server's name for this version, to ask whether there is a newer one.
	etag, modified string
	unchanged      bool // it is what etag and modified of the request name; there are no files
}

// file is one file of a source.
type file struct {
	name string // in a directory; else ""
	text []byte
	err  error // why it could not be read; only of files in a directory
}

// readPath reads a file, or the files of a directory that have PEM text, at
// most limit bytes altogether.
func readPath(path string, directory bool, limit int64) (content, error) {
	info, err := os.Stat(path)
	if err != nil {
		return content{}, err
	}
	if !info.IsDir() || !directory {
		text, err := readFile(path, limit)
		if err != nil {
			return content{}, err
		}
		return content{files: []file{{text: text}}}, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return content{}, err
	}
	var c content
	for _, e := range entries {
		ext := strings.ToLower(filepath.Ext(e.Name()))
		if ext != ".pem" && ext != ".crt" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		f := file{name: e.Name()}
		if f.text, f.err = readFile(filepath.Join(path, e.Name()), limit); errors.Is(f.err, errTooLarge) {
			return content{}, fmt.Errorf("with %s: %w", f.name, f.err)
		}
		limit -= int64(len(f.text))
		c.files = append(c.files, f)
	}
	if len(c.files) == 0 {
		return content{}, fmt.Errorf("%w: the directory has no file *.pem or *.crt", errUnusable)
	}
	return c, nil
}

var errTooLarge = fmt.Errorf("%w: it is too large", errUnusable)

func readFile(path string, limit int64) (text []byte, err error) {
	// Opening anything else, such as a pipe, could wait for ever.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return readAll(f, limit)
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	return text, nil
}

// newClient returns a client for root lists. It keeps no connections, as hours
// pass between requests.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableKeepAlives = true
		t.MaxResponseHeaderBytes = 64 << 10
		transport = t
	}
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			if err := checkURL(req.URL, via[0].URL.Scheme == "http"); err != nil {
				return fmt.Errorf("the redirect to %s is refused: %w", req.URL.Redacted(), err)
			}
			return nil
		},
	}
}

// fetch gets a root list of at most limit bytes, unless it is still the version
// that etag and modified name.
func fetch(ctx context.Context, client *http.Client, location, userAgent, etag, modified string, limit int64) (c content, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return c, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "text/csv, */*;q=0.1")
	for name, value := range map[string]string{"If-None-Match": etag, "If-Modified-Since": modified} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		if wrapped := new(url.Error); errors.As(err, &wrapped) {
			err = wrapped.Err // the URL stands beside it in the log
		}
		return c, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	switch {
	case resp.StatusCode == http.StatusNotModified && (etag != "" || modified != ""):
		return content{etag: etag, modified: modified, unchanged: true}, nil
	case resp.StatusCode != http.StatusOK:
		return c, fmt.Errorf("the server answers with status %d, not 200", resp.StatusCode)
	case resp.ContentLength > limit:
		return c, fmt.Errorf("%w: %d bytes, of which %d are possible", errTooLarge, resp.ContentLength, limit)
	}
	text, err := readAll(resp.Body, limit)
	if err != nil {
		return c, fmt.Errorf("reading the answer: %w", err)
	}
	return content{files: []file{{text: text}}, etag: resp.Header.Get("ETag"), modified: resp.Header.Get("Last-Modified")}, nil
}
