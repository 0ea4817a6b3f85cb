package tlog

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

const (
	// fullLevel compresses full tiles, which are kept and read for ever. Over
	// partialLevel it saves 4% of the bytes for 8 microseconds an entry
	// (measured on tiles of a public log).
	fullLevel = 6
	// partialLevel compresses what is new in a partial tile, each round.
	partialLevel = 2
	// dictSize is how far back a partial tile's new part may refer. Without it
	// the parts of small rounds would be 10% to 150% larger.
	dictSize = 16 << 10
)

// gzipHeader is the header of RFC 1952 with nothing optional: no name, no time,
// unknown operating system.
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}

// gzipTrailerSize is an empty last block, CRC-32 and size.
const gzipTrailerSize = 2 + 4 + 4

// stream is the compressed form of an open data or names tile, which grows by
// what a round adds: deflate blocks without a last one. It is immutable.
type stream struct {
	blocks buffer
	size   int    // bytes of content that the blocks stand for
	crc    uint32 // of that content
}

// extended returns the stream of content, of which it compresses only what is
// new.
func (s stream) extended(content []byte) stream {
	added := content[s.size:]
	if len(added) == 0 {
		return s
	}
	dict := content[max(0, s.size-dictSize):s.size]
	blocks, _ := s.blocks.extended(len(added)/2 + 64)
	return stream{
		blocks: newBuffer(deflate(blocks, added, dict, partialLevel)),
		size:   len(content),
		crc:    crc32.Update(s.crc, crc32.IEEETable, added),
	}
}

// gzip returns the stream as one complete gzip member.
func (s stream) gzip() []byte {
	b := make([]byte, 0, len(gzipHeader)+len(s.blocks.b)+gzipTrailerSize)
	b = append(b, gzipHeader...)
	b = append(b, s.blocks.b...)
	b = append(b, 3, 0) // a last block, empty
	b = binary.LittleEndian.AppendUint32(b, s.crc)
	return binary.LittleEndian.AppendUint32(b, uint32(s.size))
}

// Compress returns b as one gzip member, compressed as full tiles are. The same
// input gives the same bytes.
func Compress(b []byte) []byte {
	s := stream{size: len(b), crc: crc32.ChecksumIEEE(b)}
	s.blocks.b = deflate(make([]byte, 0, len(b)/3+64), b, nil, fullLevel)
	return s.gzip()
}

// idleDeflaters bounds the compressors of one level that are kept, at 0.4 MB
// (partialLevel) or 1.3 MB each. A log needs one at a time.
const idleDeflaters = 2

// deflaters holds idle compressors by level. Unlike a sync.Pool, which the
// garbage collector empties, it does not make each round pay for new ones.
var deflaters = map[int]chan *flate.Writer{
	partialLevel: make(chan *flate.Writer, idleDeflaters),
	fullLevel:    make(chan *flate.Writer, idleDeflaters),
}

func newDeflater(level int) *flate.Writer {
	select {
	case w := <-deflaters[level]:
		return w
	default:
	}
	w, err := flate.NewWriter(nil, level)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}

func keepDeflater(w *flate.Writer, level int) {
	select {
	case deflaters[level] <- w:
	default:
	}
}

// deflate appends the deflate blocks of content, none of them the last, which
// may refer back to dict. It ends at a byte boundary.
func deflate(dst, content, dict []byte, level int) []byte {
	w := newDeflater(level)
	defer keepDeflater(w, level)
	buf := bytes.NewBuffer(dst)
	w.ResetDict(buf, dict) // plain Reset would keep the last dictionary
	// Writes to a bytes.Buffer do not fail.
	_, _ = w.Write(content)
	_ = w.Flush()
	dst = buf.Bytes()
	w.ResetDict(io.Discard, nil) // let go of buf
	return dst
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
