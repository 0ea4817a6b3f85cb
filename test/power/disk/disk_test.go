package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const size = 1 << 20

func sectors(n int, fill byte) []byte { return bytes.Repeat([]byte{fill}, n*SectorSize) }

func mustWrite(t *testing.T, d *Disk, fill byte, n int, sector int64, force bool) {
	t.Helper()
	if err := d.Write(sectors(n, fill), sector*SectorSize, force); err != nil {
		t.Fatal(err)
	}
}

// fills returns what stands in the first n sectors, one byte for each. No
// sector may be torn.
func fills(t *testing.T, d *Disk, n int) string {
	t.Helper()
	b := make([]byte, n*SectorSize)
	if _, err := d.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	var s []byte
	for sector := range slices.Chunk(b, SectorSize) {
		if !bytes.Equal(sector, sectors(1, sector[0])) {
			t.Fatal("a sector is torn")
		}
		s = append(s, sector[0])
	}
	return string(s)
}

func cut(d *Disk, p Policy, seed uint64) (*Disk, Loss) {
	return d.Cut(p, rand.New(rand.NewPCG(seed, 0)))
}

// TestCut: what was flushed or forced is there after every cut, and of the rest
// what the policy says.
func TestCut(t *testing.T) {
	d := New(size)
	mustWrite(t, d, 'a', 8, 0, false)
	if err := d.Flush(nil); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, d, 'b', 2, 0, false) // replaces what is durable
	mustWrite(t, d, 'c', 1, 1, true)  // and this what is not
	mustWrite(t, d, 'd', 3, 5, false)
	if got := fills(t, d, 8); got != "bcaaaddd" {
		t.Fatalf("before the cut it reads %q", got)
	}
	seen := map[Policy]map[string]bool{}
	for _, p := range Policies() {
		seen[p] = map[string]bool{}
		for seed := range uint64(300) {
			after, loss := cut(d, p, seed)
			got := fills(t, after, 8)
			if again, _ := cut(d, p, seed); fills(t, again, 8) != got {
				t.Fatalf("policy %v, seed %d: two cuts differ", p, seed)
			}
			lost := 0
			for i, c := range []byte("b.aaaddd") {
				old := byte('a')
				switch {
				case i == 1 && got[i] == 'c': // the write below it is not to be seen
				case i == 1 || got[i] != c && got[i] != old:
					t.Fatalf("policy %v, seed %d: %q", p, seed, got)
				case got[i] == old && c != old:
					lost++
				}
			}
			if loss.Pending != 3 || loss.Sectors != 6 || loss.Lost < lost || loss.Lost > lost+1 {
				t.Errorf("policy %v, seed %d: %q, loss %+v", p, seed, got, loss)
			}
			seen[p][got] = true
		}
	}
	for p, want := range map[Policy]int{All: 1, None: 1, Prefix: 4, Late: 4, Sectors: 16} {
		if len(seen[p]) != want {
			t.Errorf("policy %v has %d outcomes, want %d: %v", p, len(seen[p]), want, seen[p])
		}
	}
	if !seen[All]["bcaaaddd"] || !seen[None]["acaaaaaa"] || !seen[Prefix]["bcaaaaaa"] || !seen[Prefix]["bcaaadda"] || !seen[Late]["acaaaadd"] {
		t.Errorf("outcomes: %v", seen)
	}
}

// TestFlush: a flush covers what was written before it began, and nothing
// before it is over.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(size)
		d.SetFlush(time.Second)
		mustWrite(t, d, 'a', 1, 0, false)
		done := make(chan error)
		go func() { done <- d.Flush(nil) }()
		synctest.Wait()
		mustWrite(t, d, 'b', 1, 1, false)
		if after, _ := cut(d, None, 0); fills(t, after, 2) != "\x00\x00" {
			t.Error("durable before the flush was over")
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if after, _ := cut(d, None, 0); fills(t, after, 2) != "a\x00" {
			t.Errorf("after the flush: %q", fills(t, after, 2))
		}
		gone := make(chan struct{})
		close(gone)
		if err := d.Flush(gone); !errors.Is(err, ErrGivenUp) || d.Pending() != 1 {
			t.Errorf("a flush that was given up: %v, %d writes pending", err, d.Pending())
		}
	})
}

// TestCopies: a cut goes its own way.
func TestCopies(t *testing.T) {
	d := New(size)
	mustWrite(t, d, 'a', 8, 0, false)
	after, _ := cut(d, All, 0)
	mustWrite(t, d, 'b', 4, 0, false)
	mustWrite(t, after, 'c', 4, 4, false)
	if fills(t, d, 8) != "bbbbaaaa" || fills(t, after, 8) != "aaaacccc" {
		t.Errorf("%q and %q", fills(t, d, 8), fills(t, after, 8))
	}
	if again, _ := cut(after, None, 0); fills(t, again, 8) != "aaaaaaaa" {
		t.Errorf("what survived a cut is not durable: %q", fills(t, again, 8))
	}
}

func TestBad(t *testing.T) {
	d := New(size)
	mustWrite(t, d, 'a', 24, 0, false)
	d.SetBad([]int64{1})
	if err := d.Write(sectors(2, 'b'), 7*SectorSize, false); !errors.Is(err, ErrBadSector) {
		t.Errorf("write to a bad sector: %v", err)
	}
	mustWrite(t, d, 'b', 8, 0, false)
	mustWrite(t, d, 'b', 8, 16, false)
	if got := fills(t, d, 24); got != "bbbbbbbbaaaaaaaabbbbbbbb" || d.Stats().Failed != 1 {
		t.Errorf("%q, %+v", got, d.Stats())
	}
	d.SetBad(nil)
	mustWrite(t, d, 'c', 8, 8, false)
	for _, c := range []struct {
		length int
		off    int64
	}{{SectorSize, size}, {2 * SectorSize, size - SectorSize}, {1, 0}, {SectorSize, 1}, {SectorSize, -SectorSize}} {
		if err := d.Write(make([]byte, c.length), c.off, false); err == nil {
			t.Errorf("wrote %d bytes at %d", c.length, c.off)
		}
		if _, err := d.ReadAt(make([]byte, c.length), c.off); err == nil {
			t.Errorf("read %d bytes at %d", c.length, c.off)
		}
	}
}

func TestImage(t *testing.T) {
	image := bytes.Repeat([]byte("daybook."), size/8)
	clear(image[8192:16384])
	d, err := Load(bytes.NewReader(image), size)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.seen) != size/blockSize-2 {
		t.Errorf("%d blocks are kept", len(d.seen))
	}
	got := make(memory, size)
	if err := d.WriteImage(got); err != nil || !bytes.Equal(got, image) {
		t.Errorf("the image differs, %v", err)
	}
	if _, err := Load(bytes.NewReader(image[:size-1]), size); err == nil {
		t.Error("loaded an image that is too short")
	}
}

type memory []byte

func (m memory) WriteAt(b []byte, off int64) (int, error) { return copy(m[off:], b), nil }

// TestServe speaks the protocol.
func TestServe(t *testing.T) {
	d := New(size)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, d)
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	be := binary.BigEndian
	expect := func(want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("answered %x, %v, want %x", got, err, want)
		}
	}
	send := func(b []byte) {
		t.Helper()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	expect([]byte("NBDMAGICIHAVEOPT\x00\x03"))
	send([]byte("\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x08\x00\x00\x00\x00")) // structured replies
	expect([]byte("\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x08\x80\x00\x00\x01\x00\x00\x00\x00"))
	send([]byte("IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00")) // go, with the export ""
	expect([]byte("\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x0d"))
	expect([]byte("\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00\x00"))
	request := func(flags, command uint16, handle, off uint64, length uint32, data []byte) {
		t.Helper()
		b := be.AppendUint16(be.AppendUint16([]byte("\x25\x60\x95\x13"), flags), command)
		send(append(be.AppendUint32(be.AppendUint64(be.AppendUint64(b, handle), off), length), data...))
	}
	answered := func(code uint32, handle uint64, data []byte) {
		t.Helper()
		expect(append(be.AppendUint64(be.AppendUint32([]byte("\x67\x44\x66\x98"), code), handle), data...))
	}
	request(0, cmdWrite, 1, 0, 1024, sectors(2, 'a'))
	answered(0, 1, nil)
	request(0, cmdFlush, 2, 0, 0, nil)
	answered(0, 2, nil)
	request(flagForce, cmdWrite, 3, 1024, 512, sectors(1, 'b'))
	answered(0, 3, nil)
	request(0, cmdWrite, 4, 0, 512, sectors(1, 'c'))
	answered(0, 4, nil)
	request(0, cmdRead, 5, 0, 2048, nil)
	answered(0, 5, append(append(sectors(1, 'c'), sectors(1, 'a')...), append(sectors(1, 'b'), sectors(1, 0)...)...))
	request(0, cmdRead, 6, size, 512, nil)
	answered(22, 6, nil)
	request(0, 6, 7, 0, 512, nil) // zeroing, which was not offered
	answered(22, 7, nil)
	d.SetBad([]int64{1})
	request(0, cmdWrite, 8, 4096, 512, sectors(1, 'd'))
	answered(5, 8, nil)
	if after, loss := cut(d, None, 0); fills(t, after, 4) != "aab\x00" || loss.Pending != 2 {
		t.Errorf("after a cut %q, %+v", fills(t, after, 4), loss)
	}
	// A client that is killed in the middle of a write has written nothing.
	request(0, cmdWrite, 9, 0, 1024, sectors(1, 'e'))
	if err := errors.Join(c.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if got := fills(t, d, 4); got != "cab\x00" {
		t.Errorf("at the end %q", got)
	}
}
