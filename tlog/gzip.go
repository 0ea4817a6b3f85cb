package tlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// compressionLevel of data and names tiles. Partial tiles are compressed anew
// each round, so the level is a fast one.
const compressionLevel = gzip.BestSpeed

var writers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, compressionLevel)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// Compress returns b as one gzip member. The same input gives the same bytes.
func Compress(b []byte) []byte {
	w := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	buf := bytes.NewBuffer(make([]byte, 0, len(b)/2+64))
	w.Reset(buf)
	// Writes to a bytes.Buffer do not fail.
	_, _ = w.Write(b)
	_ = w.Close()
	return buf.Bytes()
}

// ErrTooLarge is returned by Decompress for content over the limit.
var ErrTooLarge = errors.New("decompressed content is too large")

// Decompress undoes Compress, for content of at most limit bytes.
func Decompress(b []byte, limit int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	if int64(len(out)) > limit {
		return nil, ErrTooLarge
	}
	return out, nil
}
