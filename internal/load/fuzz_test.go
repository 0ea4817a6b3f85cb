package load

import (
	"bufio"
	"bytes"
	"testing"
)

// FuzzAnswer: whatever a server sends, the client neither panics nor keeps more
// than it said it would.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 503 Busy\nRetry-After: 1\nConnection: close\n\nbody",
		"HTTP/1.1 204 No Content\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &conn{r: bufio.NewReaderSize(bytes.NewReader(b), 2048)}
		a, keep, err := c.readAnswer()
		if err != nil {
			return
		}
		if a.status < 200 || a.status > 999 || len(a.body) > maxBody || a.retryAfter < 0 {
			t.Errorf("answer with status %d and %d bytes, wait %v", a.status, len(a.body), a.retryAfter)
		}
		if keep && len(b) < len("HTTP/1.1 200\n\n") {
			t.Errorf("kept after %q", b)
		}
	})
}
