package tlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The vectors below were written by hand from the structures of RFC 6962
// sections 3.2 and 3.4 and of static-ct-api (TileLeaf, leaf_index extension).
func TestLeafBytes(t *testing.T) {
	x509, err := NewX509Entry([]byte("cert"), []Fingerprint{{0xaa}, {0xbb}}, []byte(`{"DNS":["a.example"]}`))
	if err != nil {
		t.Fatal(err)
	}
	precert, err := NewPrecertEntry([]byte("tbs"), [32]byte{0xcc}, []byte("precert"), []Fingerprint{{0xdd}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("00", 31)
	for _, c := range []struct {
		name                string
		leaf                Leaf
		timestamped, behind string
		names               string
	}{
		{"x509", Leaf{x509, Position{Index: 0x0102030405, Timestamp: 0x18bcfe56800}},
			"0000018bcfe56800 0000 000004 63657274 0008 00 0005 0102030405",
			"0040 aa" + zeros + "bb" + zeros,
			`{"Timestamp":1700000000000,"DNS":["a.example"]}` + "\n"},
		{"precert", Leaf{precert, Position{Index: 7, Timestamp: 1}},
			"0000000000000001 0001 cc" + zeros + "000003 746273 0008 00 0005 0000000007",
			"000007 70726563657274 0020 dd" + zeros,
			`{"Timestamp":1}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			timestamped := fromHex(t, c.timestamped)
			if got, want := c.leaf.MerkleTreeLeaf(), append([]byte{0, 0}, timestamped...); !bytes.Equal(got, want) {
				t.Errorf("MerkleTreeLeaf %x, want %x", got, want)
			}
			if got, want := c.leaf.SCTInput(), append([]byte{0, 0}, timestamped...); !bytes.Equal(got, want) {
				t.Errorf("SCTInput %x, want %x", got, want)
			}
			if got, want := c.leaf.Hash(), Hash(sha256.Sum256(append([]byte{0, 0, 0}, timestamped...))); got != want {
				t.Errorf("Hash %v, want %v", got, want)
			}
			tile := append(timestamped, fromHex(t, c.behind)...)
			if got := c.leaf.AppendTileLeaf(nil); !bytes.Equal(got, tile) {
				t.Errorf("TileLeaf %x, want %x", got, tile)
			}
			if got := c.leaf.Entry.Size(); got != len(tile) {
				t.Errorf("Size %d, want %d", got, len(tile))
			}
			if got := string(c.leaf.AppendNamesLine(nil)); got != c.names {
				t.Errorf("names line %q, want %q", got, c.names)
			}
			parsed, rest, err := ReadTileLeaf(append(bytes.Clone(tile), 1, 2))
			if err != nil || !bytes.Equal(rest, []byte{1, 2}) {
				t.Fatalf("ReadTileLeaf: %v, rest %x", err, rest)
			}
			if parsed.Position != c.leaf.Position || parsed.Entry.Key() != c.leaf.Entry.Key() || !bytes.Equal(parsed.AppendTileLeaf(nil), tile) {
				t.Error("a parsed leaf does not re-encode to its bytes")
			}
		})
	}
}

// TestKey pins what the key covers: entry_type (two bytes) and signed_entry,
// and nothing else. An operator's cache depends on it.
func TestKey(t *testing.T) {
	x509, _ := NewX509Entry([]byte("same"), []Fingerprint{{1}}, nil)
	if got, want := x509.Key(), Key(sha256.Sum256([]byte("\x00\x00\x00\x00\x04same"))); got != want {
		t.Errorf("x509 key %x, want %x", got, want)
	}
	pre := func(tbs string, ikh byte, precert string, chain byte) Key {
		e, err := NewPrecertEntry([]byte(tbs), [32]byte{ikh}, []byte(precert), []Fingerprint{{chain}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e.Key()
	}
	base := pre("same", 1, "p", 1)
	signed := append([]byte{0, 1, 1}, make([]byte, 31)...)
	if want := Key(sha256.Sum256(append(signed, "\x00\x00\x04same"...))); base != want {
		t.Errorf("precert key %x, want %x", base, want)
	}
	if pre("same", 1, "another precertificate", 2) != base {
		t.Error("the key depends on the precertificate or the chain")
	}
	if pre("same", 2, "p", 1) == base || pre("other", 1, "p", 1) == base || x509.Key() == base {
		t.Error("different entries have one key")
	}
}

func TestEntryBounds(t *testing.T) {
	big := make([]byte, 1<<24)
	for name, err := range map[string]error{
		"empty certificate":    second(NewX509Entry(nil, nil, nil)),
		"large certificate":    second(NewX509Entry(big, nil, nil)),
		"long chain":           second(NewX509Entry([]byte("c"), make([]Fingerprint, 2048), nil)),
		"empty precertificate": second(NewPrecertEntry([]byte("t"), [32]byte{}, nil, nil, nil)),
		"large precertificate": second(NewPrecertEntry([]byte("t"), [32]byte{}, big, nil, nil)),
	} {
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := NewX509Entry(big[1:], make([]Fingerprint, 2047), nil); err != nil {
		t.Errorf("the largest entry: %v", err)
	}
}

func second(_ *Entry, err error) error { return err }

// TestParseExtensions covers static-ct-api's SCT extension rules (S5..S7).
func TestParseExtensions(t *testing.T) {
	for in, want := range map[string]int64{
		"0000050000000000":                  0,
		"000005ffffffffff":                  1<<40 - 1,
		"0700020102 0000050000000003":       3, // unknown before
		"0000050000000003 0700020102":       3, // unknown after
		"070000 0000050000000003":           3, // unknown, empty
		"":                                  -1,
		"0000":                              -1,
		"000004 00000000":                   -1, // wrong length
		"000006 000000000000":               -1,
		"0000050000000001 0000050000000001": -1, // twice
		"070001":                            -1, // truncated
		"0000050000000003 07":               -1,
	} {
		got, err := ParseExtensions(fromHex(t, in))
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("ParseExtensions(%s) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestTilePaths(t *testing.T) {
	for _, c := range []struct {
		tile Tile
		path string
	}{
		{Tile{0, 0, 256}, "tile/0/000"},
		{Tile{0, 0, 1}, "tile/0/000.p/1"},
		{Tile{1, 5, 255}, "tile/1/005.p/255"},
		{Tile{2, 999, 256}, "tile/2/999"},
		{Tile{0, 1000, 256}, "tile/0/x001/000"},
		{Tile{DataLevel, 1234067, 8}, "tile/data/x001/x234/067.p/8"},
		{Tile{NamesLevel, 1234067, 256}, "tile/names/x001/x234/067"},
		{Tile{5, 0, 1}, "tile/5/000.p/1"},
		{Tile{0, 1<<40 - 1, 256}, "tile/0/x001/x099/x511/x627/775"},
	} {
		if got := c.tile.Path(); got != c.path {
			t.Errorf("%+v.Path() = %q, want %q", c.tile, got, c.path)
		}
		if got, err := ParseTilePath(c.path); err != nil || got != c.tile {
			t.Errorf("ParseTilePath(%q) = %+v, %v", c.path, got, err)
		}
	}
	// Conformance S19: no leading zeroes, no other forms.
	for _, path := range []string{"", "tile", "tile/", "tile/0", "tile/0/", "tile/0/0", "tile/0/00", "tile/0/0000", "tile/00/000",
		"tile/01/000", "tile/6/000", "tile/63/000", "tile/-1/000", "tile/0/x000/001", "tile/0/x001", "tile/0/001/001", "tile/0/x001/x001",
		"tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/", "tile/0/000.p", "tile/0/000.p/1/", "tile/0/000.p/1.p/1",
		"tile/0/+00", "tile/0/ 00", "tile/0/000/", "/tile/0/000", "tile//000", "tile/entries/000", "tile/data", "tile/Data/000",
		"tile/0/../000", "tile/0/x001/x099/x511/x627/776", "tile/0/x999/x999/x999/x999/x999/x999/999", "checkpoint", "tile/0/xxx/000", "tile/0/x1/000"} {
		if got, err := ParseTilePath(path); err == nil {
			t.Errorf("ParseTilePath(%q) = %+v", path, got)
		}
	}
}

func FuzzParseTilePath(f *testing.F) {
	for _, s := range []string{"tile/0/000", "tile/data/x001/x234/067.p/8", "tile/names/000.p/1", "tile/5/000.p/255", "tile/0/x000/001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		tile, err := ParseTilePath(path)
		if err == nil && tile.Path() != path {
			t.Errorf("%q parses to a tile with path %q", path, tile.Path())
		}
		if err == nil && (strings.Contains(path, "..") || strings.HasPrefix(path, "/")) {
			t.Errorf("%q is not a safe relative path", path)
		}
	})
}

// FuzzReadTileLeaf: what parses re-encodes to the same bytes.
func FuzzReadTileLeaf(f *testing.F) {
	for i := range int64(4) {
		f.Add(testLeaf(f, i).AppendTileLeaf(nil))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, rest, err := ReadTileLeaf(b)
		if err != nil {
			return
		}
		if got := append(l.AppendTileLeaf(nil), rest...); !bytes.Equal(got, b) {
			t.Errorf("re-encoding gives %x for %x", got, b)
		}
	})
}

func FuzzParseExtensions(f *testing.F) {
	f.Add(AppendExtensions(nil, 1))
	f.Add([]byte{7, 0, 0, 0, 0, 5, 0, 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if i, err := ParseExtensions(b); err == nil && (i < 0 || i > maxLeafIndex) {
			t.Errorf("index %d is out of range", i)
		}
	})
}
