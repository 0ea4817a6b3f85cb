package difftest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// casesDir returns the folder of certificate cases, or skips the test.
// DAYBOOK_CASES names it; by default it lies in shared/cases beside the checkout.
func casesDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("DAYBOOK_CASES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "cases")
	}
	if _, err := os.Stat(filepath.Join(dir, "open")); err != nil {
		t.Skipf("SKIPPED, NOTHING WAS COMPARED: no certificate cases at %s; set DAYBOOK_CASES to their folder", dir)
	}
	return dir
}

// group is certificates that may certify each other.
type group struct {
	name string
	ders [][]byte
}

// groups returns every certificate of the cases: each chain with its roots,
// the odd ones, the root files, and the precertificates of two logs' tiles
// with their issuers.
func groups(t testing.TB) []group {
	t.Helper()
	dir := casesDir(t)
	var out []group
	for _, pattern := range []string{"open/chains/o*.pem", "open/synthetic/s*.pem"} {
		for _, file := range glob(t, dir, pattern) {
			out = append(out, group{filepath.Base(file), readPEM(t, file)})
		}
	}
	for _, pattern := range []string{"open/chains/roots*.pem", "open/synthetic/roots.pem", "open/roots/*.pem", "open/odd/odd.pem"} {
		for _, file := range glob(t, dir, pattern) {
			for _, der := range readPEM(t, file) {
				out = append(out, group{filepath.Base(file), [][]byte{der}})
			}
		}
	}
	for _, tiles := range []struct{ tiles, issuers string }{
		{"open/tiles/navigli2025h2/tile/data/*", "open/tiles/navigli2025h2/issuers/*.pem"},
		{"sunlight-log/data/tile/data/00[01]", "sunlight-log/intermediate1.pem"},
	} {
		issuers := map[[32]byte][]byte{}
		for _, file := range glob(t, dir, tiles.issuers) {
			for _, der := range readPEM(t, file) {
				issuers[sha256.Sum256(der)] = der
			}
		}
		for _, file := range glob(t, dir, tiles.tiles) {
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				continue
			}
			for _, e := range readTile(t, file) {
				if issuer, ok := issuers[e.issuer]; ok {
					out = append(out, group{filepath.Base(file), [][]byte{e.der, issuer}})
				}
			}
		}
	}
	return out
}

func glob(t testing.TB, dir, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s (%v)", pattern, err)
	}
	return files
}

func readPEM(t testing.TB, path string) [][]byte {
	t.Helper()
	rest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ders [][]byte
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return ders
		}
		if block.Type == "CERTIFICATE" {
			ders = append(ders, block.Bytes)
		}
	}
}

type tileEntry struct {
	der    []byte   // as submitted
	issuer [32]byte // first fingerprint of the chain
}

func readTile(t testing.TB, path string) []tileEntry {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err == nil {
			b, err = io.ReadAll(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	take := func(n int) []byte {
		part := b[:n]
		b = b[n:]
		return part
	}
	prefixed := func(size int) []byte {
		var n [4]byte
		copy(n[4-size:], take(size))
		return take(int(binary.BigEndian.Uint32(n[:])))
	}
	var entries []tileEntry
	for len(b) > 0 {
		take(8)
		precert := binary.BigEndian.Uint16(take(2)) == 1
		if precert {
			take(32)
		}
		der := prefixed(3)
		prefixed(2)
		if precert {
			der = prefixed(3)
		}
		e := tileEntry{der: der}
		copy(e.issuer[:], prefixed(2))
		entries = append(entries, e)
	}
	return entries
}

// tlv returns a DER element.
func tlv(tag byte, parts ...[]byte) []byte {
	content := slices.Concat(parts...)
	head := []byte{tag}
	switch n := len(content); {
	case n < 1<<7:
		head = append(head, byte(n))
	case n < 1<<8:
		head = append(head, 0x81, byte(n))
	case n < 1<<16:
		head = append(head, 0x82, byte(n>>8), byte(n))
	default:
		head = append(head, 0x83, byte(n>>16), byte(n>>8), byte(n))
	}
	return append(head, content...)
}

// header returns the length of the header of the element at the start of b and
// that of its content, both at most what is there. ok is false if there is no
// element.
func header(b []byte) (head, size int, ok bool) {
	if len(b) < 2 {
		return len(b), 0, false
	}
	head, size = 2, int(b[1])
	if octets := size - 0x80; octets > 0 {
		if octets > 4 || len(b) < head+octets {
			return len(b), 0, false
		}
		size = 0
		for _, octet := range b[2 : 2+octets] {
			size = size<<8 | int(octet)
		}
		head += octets
	}
	return head, min(size, len(b)-head), size <= len(b)-head
}

// content returns the content of the element that b is.
func content(b []byte) []byte {
	head, _, _ := header(b)
	return b[head:]
}

// split returns the elements in the content of the element that b is. What
// follows the last one without being one is returned as if it were.
func split(b []byte) (parts [][]byte) {
	for b = content(b); len(b) > 0; {
		head, size, ok := header(b)
		if !ok {
			return append(parts, b)
		}
		parts = append(parts, b[:head+size])
		b = b[head+size:]
	}
	return parts
}
