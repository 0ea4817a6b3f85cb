package tlog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/tlog"
)

// TestRealTiles reads tiles of a public log (Sunlight's navigli2025h2, Let's
// Encrypt staging precertificates; see README.md of the test data): entries
// parse, encode to the same bytes again, and have the hashes of level 0.
func TestRealTiles(t *testing.T) {
	dir := cases.Dir(t, "open", "tiles", "navigli2025h2")
	read := func(tile tlog.Tile) []byte {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(tile.Path())))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		n int64
		w int
	}{{0, tlog.TileWidth}, {3, 10}} {
		hashTile, dataTile := tlog.Tile{L: 0, N: c.n, W: c.w}, tlog.Tile{L: tlog.DataLevel, N: c.n, W: c.w}
		hashes, err := tlog.ParseHashTile(hashTile, read(hashTile))
		if err != nil {
			t.Fatal(err)
		}
		data := read(dataTile)
		leaves, err := tlog.CheckDataTile(dataTile, data, hashes)
		if err != nil {
			t.Fatal(err)
		}
		var again []byte
		for i, leaf := range leaves {
			again = leaf.AppendTileLeaf(again)
			if leaf.Hash() != hashes[i] || leaf.Index != c.n*tlog.TileWidth+int64(i) || leaf.Entry.Type() != tlog.PrecertEntry || len(leaf.Entry.Chain()) == 0 {
				t.Errorf("%s, entry %d: index %d, type %v, chain of %d", dataTile.Path(), i, leaf.Index, leaf.Entry.Type(), len(leaf.Entry.Chain()))
			}
		}
		if len(leaves) != c.w || !bytes.Equal(again, data) {
			t.Errorf("%s: %d entries encode to %d bytes that differ from the %d read", dataTile.Path(), len(leaves), len(again), len(data))
		}
		data[60] ^= 1 // in the first TBSCertificate
		if _, err := tlog.CheckDataTile(dataTile, data, hashes); err == nil {
			t.Errorf("%s: a flipped bit was not noticed", dataTile.Path())
		}
	}
}
