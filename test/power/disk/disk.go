// Package disk is a disk for a virtual machine that can lose its power: what
// was written since the last flush stands in a volatile cache, of which a cut
// keeps a part. It is served over NBD (network block device), on a socket.
package disk

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// SectorSize is what the disk writes as one, in bytes: a cut never tears
	// a sector.
	SectorSize = 512
	blockSize  = 4096
)

var (
	// ErrBadSector is the error of a write to sectors that were made to fail.
	ErrBadSector = errors.New("bad sector")

	// ErrGivenUp is the error of a flush that was given up.
	ErrGivenUp = errors.New("flush was given up")
)

// block is never changed once it is in a map, so that maps can be shared.
type block = [blockSize]byte

// content is what stands on a disk; blocks that are missing are zero.
type content map[int64]*block

// write puts bytes at an offset. Blocks are replaced, not changed.
func (c content) write(b []byte, off int64) {
	for len(b) > 0 {
		n, at := off/blockSize, off%blockSize
		next := new(block)
		if old := c[n]; old != nil {
			*next = *old
		}
		k := copy(next[at:], b)
		c[n] = next
		b, off = b[k:], off+int64(k)
	}
}

func (c content) read(b []byte, off int64) {
	for len(b) > 0 {
		n, at := off/blockSize, off%blockSize
		k := min(int64(len(b)), blockSize-at)
		if old := c[n]; old != nil {
			copy(b[:k], old[at:])
		} else {
			clear(b[:k])
		}
		b, off = b[k:], off+k
	}
}

// pending is a write that was acknowledged and not yet flushed.
type pending struct {
	data  []byte
	off   int64
	force bool // was asked to be durable at once
}

// Disk is safe for concurrent use.
type Disk struct {
	size int64

	mu      sync.Mutex
	seen    content // by who reads
	durable content // at the last flush
	pending []pending
	first   int // number of pending[0], of all writes ever
	flush   time.Duration
	bad     map[int64]bool // sectors that cannot be written
	stats   Stats
}

// Stats count what was asked of a disk.
type Stats struct {
	Writes, Flushes, Failed int64
}

// New returns a disk of zeros with this size in bytes, a multiple of 4096.
func New(size int64) *Disk {
	return &Disk{size: size, seen: content{}, durable: content{}}
}

// Load reads the whole content of a new disk from an image.
func Load(image io.ReaderAt, size int64) (*Disk, error) {
	d := New(size)
	b := make([]byte, blockSize)
	for off := int64(0); off < size; off += blockSize {
		if n, err := image.ReadAt(b, off); err != nil && (err != io.EOF || n != len(b)) {
			return nil, fmt.Errorf("reading the image: %w", err)
		}
		if *(*block)(b) != (block{}) {
			d.seen.write(b, off)
		}
	}
	d.durable = maps.Clone(d.seen)
	return d, nil
}

// Size returns the size in bytes.
func (d *Disk) Size() int64 { return d.size }

// Stats returns the counts since the disk was made.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

func (d *Disk) within(length int, off int64) error {
	if off < 0 || int64(length) > d.size-off || off%SectorSize != 0 || length%SectorSize != 0 {
		return fmt.Errorf("%d bytes at %d are not sectors of a disk of %d", length, off, d.size)
	}
	return nil
}

// ReadAt implements io.ReaderAt for whole sectors. It sees all writes.
func (d *Disk) ReadAt(b []byte, off int64) (int, error) {
	if err := d.within(len(b), off); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen.read(b, off)
	return len(b), nil
}

// Write writes whole sectors, which are durable after the next Flush, or, with
// force, at once.
func (d *Disk) Write(b []byte, off int64, force bool) error {
	if err := d.within(len(b), off); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Writes++
	if len(d.bad) > 0 {
		for s := off / SectorSize; s < (off+int64(len(b)))/SectorSize; s++ {
			if d.bad[s] {
				d.stats.Failed++
				return ErrBadSector
			}
		}
	}
	d.seen.write(b, off)
	d.pending = append(d.pending, pending{append([]byte(nil), b...), off, force})
	return nil
}

// Flush makes durable what was written before. It takes as long as a disk may
// take, meanwhile others write; if it is given up, nothing is said about what is
// durable.
func (d *Disk) Flush(giveUp <-chan struct{}) error {
	d.mu.Lock()
	d.stats.Flushes++
	until, took := d.first+len(d.pending), d.flush
	d.mu.Unlock()
	if took > 0 {
		timer := time.NewTimer(took)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-giveUp:
			return ErrGivenUp
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for ; d.first < until; d.first++ {
		d.durable.write(d.pending[0].data, d.pending[0].off)
		d.pending = d.pending[1:]
	}
	return nil
}

// SetFlush sets how long a Flush takes; by default no time.
func (d *Disk) SetFlush(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flush = took
}

// Pending returns the number of writes that may be lost at this moment.
func (d *Disk) Pending() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending)
}

// SetBad makes writes to some blocks of 4096 bytes fail from now on, and to all
// others succeed. Reads find what stood there before.
func (d *Disk) SetBad(blocks []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad = map[int64]bool{}
	for _, n := range blocks {
		for s := range int64(blockSize / SectorSize) {
			d.bad[n*(blockSize/SectorSize)+s] = true
		}
	}
}

// Policy says what a power cut leaves of the writes since the last flush.
type Policy int

// The policies. All but None and All are left to chance.
const (
	All     Policy = iota // everything, as if only the machine had died and not the disk
	None                  // nothing
	Prefix                // the first ones; the last of them is torn at a sector
	Late                  // the last ones, before the others got their turn
	Sectors               // each sector by itself
	policies
)

func (p Policy) String() string {
	return [...]string{"all", "none", "first", "last", "any"}[p]
}

// Policies returns all policies.
func Policies() (list []Policy) {
	for p := range policies {
		list = append(list, p)
	}
	return list
}

// Loss tells what a cut found in the volatile cache, and what it took of it.
type Loss struct {
	Pending, Sectors, Lost int // writes; sectors of them; sectors that were lost
}

// Cut returns the disk as it is found after a power cut now. The disk itself
// goes on. The same disk, policy and state of r give the same cut.
func (d *Disk) Cut(p Policy, r *rand.Rand) (*Disk, Loss) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept, loss := maps.Clone(d.durable), Loss{Pending: len(d.pending)}
	survives := p.survivors(r, len(d.pending))
	for i, w := range d.pending {
		for at := 0; at < len(w.data); at += SectorSize {
			loss.Sectors++
			if !w.force && !survives(i, at/SectorSize, len(w.data)/SectorSize) {
				loss.Lost++
				continue
			}
			kept.write(w.data[at:at+SectorSize], w.off+int64(at))
		}
	}
	return &Disk{size: d.size, seen: kept, durable: maps.Clone(kept)}, loss
}

// survivors returns a function that tells whether a sector of write i, which
// has so many, survives. It is called for all of them, in order.
func (p Policy) survivors(r *rand.Rand, writes int) func(i, sector, sectors int) bool {
	edge, torn, share := r.IntN(writes+1), r.Float64(), []float64{0.1, 0.5, 0.9}[r.IntN(3)]
	switch p {
	case All:
		return func(int, int, int) bool { return true }
	case None:
		return func(int, int, int) bool { return false }
	case Prefix:
		return func(i, sector, sectors int) bool {
			return i < edge || i == edge && float64(sector) < torn*float64(sectors)
		}
	case Late:
		return func(i, sector, sectors int) bool {
			return i > edge || i == edge && float64(sector) >= torn*float64(sectors)
		}
	}
	return func(int, int, int) bool { return r.Float64() < share }
}

// WriteImage writes the content to a new file, which is to be sparse.
func (d *Disk) WriteImage(w io.WriterAt) error {
	d.mu.Lock()
	seen := maps.Clone(d.seen)
	d.mu.Unlock()
	for n, b := range seen {
		if _, err := w.WriteAt(b[:], n*blockSize); err != nil {
			return err
		}
	}
	return nil
}
