package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/daybook-ct/daybook/tlog"
)

// filter is a negative filter over the keys of a dedup cache: what it does not
// have is not in the cache, and needs no look there. No log has one; it is here
// so that what it would bring can be measured (docs/performance.md).
//
// It is a Bloom filter in blocks of a cache line, with one bit in each word of
// the block. Keys are hashes, so their bytes choose the bits.
type filter struct {
	words []uint64
	// version tells whether another process has changed the cache since the filter
	// was made: a log would have to ask that each time.
	conn    *sqlite.Conn
	version *sqlite.Stmt
	since   int64
	took    time.Duration // to make it
}

const blockWords = 8

// bitsOf returns the block of a key, and the six bits that choose one in each word.
func (f *filter) bitsOf(k *tlog.Key) (block []uint64, choice uint64) {
	n, _ := bits.Mul64(binary.LittleEndian.Uint64(k[:]), uint64(len(f.words)/blockWords))
	return f.words[n*blockWords:][:blockWords], binary.LittleEndian.Uint64(k[8:])
}

func (f *filter) add(k *tlog.Key) {
	block, choice := f.bitsOf(k)
	for i := range block {
		block[i] |= 1 << (choice & 63)
		choice >>= 6
	}
}

// has reports whether the key may have been added.
func (f *filter) has(k *tlog.Key) bool {
	block, choice := f.bitsOf(k)
	for i := range block {
		if block[i]&(1<<(choice&63)) == 0 {
			return false
		}
		choice >>= 6
	}
	return true
}

// newFilter makes a filter of so many bytes of all keys of a cache.
func newFilter(ctx context.Context, path string, bytes int64) (f *filter, err error) {
	f = &filter{words: make([]uint64, max(1, bytes/8/blockWords)*blockWords)}
	if f.conn, err = sqlite.OpenConn(path, sqlite.OpenReadOnly); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.conn.Close())
		}
	}()
	start := time.Now()
	if err := f.scan(ctx); err != nil {
		return nil, fmt.Errorf("reading all keys: %w", err)
	}
	f.took = time.Since(start)
	if f.version, err = f.conn.Prepare("PRAGMA data_version"); err != nil {
		return nil, err
	}
	f.since, err = f.dataVersion()
	return f, err
}

// scan adds all keys.
func (f *filter) scan(ctx context.Context) error {
	s, err := f.conn.Prepare("SELECT key FROM cache256")
	if err != nil {
		return err
	}
	var k tlog.Key
	for n := 0; ; n++ {
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
		s.ColumnBytes(0, k[:])
		f.add(&k)
		if n%100_000 == 0 && ctx.Err() != nil {
			return errors.Join(ctx.Err(), s.Reset())
		}
	}
}

func (f *filter) dataVersion() (int64, error) {
	if _, err := f.version.Step(); err != nil {
		return 0, err
	}
	v := f.version.ColumnInt64(0)
	return v, f.version.Reset()
}

// absent reports whether the key is certainly not in the cache. Here, puts go
// through another connection of this process, so that any version will do; what
// counts is the time that it takes to ask.
func (f *filter) absent(k *tlog.Key) (bool, error) {
	if f == nil || f.has(k) {
		return false, nil
	}
	_, err := f.dataVersion()
	return err == nil, err
}

func (f *filter) close() error {
	if f == nil {
		return nil
	}
	return f.conn.Close()
}
