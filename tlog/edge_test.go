package tlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// testLeaf makes a small leaf that differs by index.
func testLeaf(t testing.TB, index int64) Leaf {
	t.Helper()
	var e *Entry
	var err error
	names := fmt.Appendf(nil, `{"DNS":["%d.example"]}`, index)
	if index%3 == 0 {
		e, err = NewPrecertEntry(fmt.Appendf(nil, "tbs %d", index), [32]byte{1}, fmt.Appendf(nil, "precert %d", index), []Fingerprint{{2}, {3}}, names)
	} else {
		e, err = NewX509Entry(fmt.Appendf(nil, "certificate %d", index), []Fingerprint{{2}}, names)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Leaf{e, Position{Index: index, Timestamp: 1700000000000 + index}}
}

// reference is an independent tree over the same leaves, by x/mod.
type reference struct {
	hashes []Hash
	data   [][]byte
}

func (r *reference) add(t testing.TB, l Leaf) {
	n := int64(len(r.data))
	r.data = append(r.data, l.AppendTileLeaf(nil))
	hashes, err := tlog.StoredHashes(n, l.MerkleTreeLeaf(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.hashes = append(r.hashes, hashes...)
}

func (r *reference) ReadHashes(indexes []int64) ([]Hash, error) {
	out := make([]Hash, len(indexes))
	for i, x := range indexes {
		out[i] = r.hashes[x]
	}
	return out, nil
}

func (r *reference) tile(t testing.TB, tile Tile) []byte {
	if tile.L == DataLevel {
		return bytes.Join(r.data[tile.N*TileWidth:tile.N*TileWidth+int64(tile.W)], nil)
	}
	b, err := tlog.ReadTileData(tlog.Tile{H: TileHeight, L: tile.L, N: tile.N, W: tile.W}, r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *reference) root(t testing.TB) Hash {
	h, err := tlog.TreeHash(int64(len(r.data)), r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// stored collects the objects of growths, uncompressed.
type stored map[string][]byte

// checkBases verifies what growths say about the objects that theirs extend,
// which are kept, as stored, in raw.
func checkBases(t testing.TB, raw stored, g *Growth) (based int) {
	t.Helper()
	for _, o := range g.Objects {
		if o.Base != "" {
			based++
			base, ok := raw[o.Base]
			if !ok || o.Prefix > len(base) || !bytes.Equal(base[:o.Prefix], o.Data[:o.Prefix]) {
				t.Fatalf("%s does not start with %d bytes of %s", o.Name, o.Prefix, o.Base)
			}
		}
		raw[o.Name] = o.Data
	}
	return based
}

func (s stored) apply(t testing.TB, g *Growth) {
	t.Helper()
	for _, o := range g.Objects {
		tile, err := ParseTilePath(o.Name)
		if err != nil {
			t.Fatal(err)
		}
		b := o.Data
		if tile.L < 0 {
			if b, err = Decompress(b, 1<<24); err != nil {
				t.Fatal(err)
			}
		}
		if old, ok := s[o.Name]; ok && !bytes.Equal(old, b) {
			t.Fatalf("S7: %s changed", o.Name)
		}
		s[o.Name] = b
	}
}

func (s stored) read(t Tile) ([]byte, error) {
	if b, ok := s[t.Path()]; ok {
		return bytes.Clone(b), nil
	}
	return nil, fmt.Errorf("no %s", t.Path())
}

// wantTiles are the paths that a tree of this size must have.
func wantTiles(size int64) []Tile {
	var tiles []Tile
	for _, l := range []int{DataLevel, NamesLevel, 0} {
		for n := range size / TileWidth {
			tiles = append(tiles, Tile{L: l, N: n, W: TileWidth})
		}
		if w := int(size % TileWidth); w > 0 {
			tiles = append(tiles, Tile{L: l, N: size / TileWidth, W: w})
		}
	}
	for l, n := 1, size>>TileHeight; n > 0; l, n = l+1, n>>TileHeight {
		for i := range n / TileWidth {
			tiles = append(tiles, Tile{L: l, N: i, W: TileWidth})
		}
		if w := int(n % TileWidth); w > 0 {
			tiles = append(tiles, Tile{L: l, N: n / TileWidth, W: w})
		}
	}
	return tiles
}

// TestAppendMatchesReference grows a tree past two levels in batches of odd
// sizes, and compares roots and every tile with x/mod's tree. Boundaries at
// 255, 256, 257, 65,535, 65,536 and 65,537 are hit on purpose.
func TestAppendMatchesReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	sizes := map[int64]bool{0: true, 1: true, 255: true, 256: true, 257: true, 512: true, 65535: true, 65536: true, 65537: true, 66000: true}
	edge, ref, objects, raw := NewEdge(), &reference{}, stored{}, stored{}
	based := 0
	for size := int64(0); size < 66000; {
		next := min(66000, size+rnd.Int64N(700))
		for s := range sizes {
			if size < s && s < next {
				next = s
			}
		}
		var leaves []Leaf
		for ; size < next; size++ {
			l := testLeaf(t, size)
			ref.add(t, l)
			leaves = append(leaves, l)
		}
		before := edge.Tree()
		grown, growth, err := edge.Append(leaves)
		if err != nil {
			t.Fatal(err)
		}
		if edge.Tree() != before {
			t.Fatal("Append changed its edge")
		}
		if want := (Tree{N: size, Hash: ref.root(t)}); growth.Tree != want || grown.Tree() != want {
			t.Fatalf("size %d: tree head %v, want %v", size, growth.Tree, want)
		}
		objects.apply(t, growth)
		based += checkBases(t, raw, growth)
		edge = grown
		if !sizes[size] {
			continue
		}
		for _, tile := range wantTiles(size) {
			got, err := objects.read(tile)
			if err != nil {
				t.Fatalf("size %d: %v", size, err)
			}
			if tile.L == NamesLevel {
				if n := bytes.Count(got, []byte("\n")); n != tile.W {
					t.Fatalf("%s has %d lines", tile.Path(), n)
				}
			} else if want := ref.tile(t, tile); !bytes.Equal(got, want) {
				t.Fatalf("size %d: %s differs from the reference", size, tile.Path())
			}
		}
		loaded, err := LoadEdge(edge.Tree(), objects.read, nil)
		if err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		assertSameGrowth(t, edge, loaded, size)
	}
	if based < 100 {
		t.Errorf("only %d objects extend an earlier one", based)
	}
}

// assertSameGrowth checks that two edges are equal where it counts: they grow
// by the same content.
func assertSameGrowth(t *testing.T, a, b *Edge, size int64) {
	t.Helper()
	var leaves []Leaf
	for i := range int64(300) {
		leaves = append(leaves, testLeaf(t, size+i))
	}
	_, ga, err := a.Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	_, gb, err := b.Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	if ga.Tree != gb.Tree || len(ga.Objects) != len(gb.Objects) {
		t.Fatalf("size %d: a loaded edge grows to %v, the original to %v", size, gb.Tree, ga.Tree)
	}
	for i := range ga.Objects {
		a, b := ga.Objects[i], gb.Objects[i]
		if strings.HasPrefix(a.Name, "tile/data/") || strings.HasPrefix(a.Name, "tile/names/") {
			if a.Data, err = Decompress(a.Data, 1<<24); err != nil {
				t.Fatal(err)
			}
			if b.Data, err = Decompress(b.Data, 1<<24); err != nil {
				t.Fatal(err)
			}
		}
		if a.Name != b.Name || !bytes.Equal(a.Data, b.Data) {
			t.Fatalf("size %d: a loaded edge writes another %s", size, ga.Objects[i].Name)
		}
	}
}

func grownTo(t *testing.T, size int64) (*Edge, stored) {
	t.Helper()
	var leaves []Leaf
	for i := range size {
		leaves = append(leaves, testLeaf(t, i))
	}
	edge, growth, err := NewEdge().Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	objects := stored{}
	objects.apply(t, growth)
	return edge, objects
}

// TestLoadEdgeRefuses damages, one by one, each tile that loading reads.
func TestLoadEdgeRefuses(t *testing.T) {
	for _, size := range []int64{1, 5, 256, 257, 700, 65536, 65536 + 256, 65536 + 7} {
		edge, objects := grownTo(t, size)
		var read []Tile
		if _, err := LoadEdge(edge.Tree(), func(tile Tile) ([]byte, error) {
			read = append(read, tile)
			return objects.read(tile)
		}, nil); err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		if len(read) > 6+3 {
			t.Errorf("size %d: loading reads %d tiles, more than one a level", size, len(read))
		}
		for _, tile := range read {
			for _, damage := range []func([]byte) []byte{
				// The first bytes are signed; the chain at the end of a leaf is not.
				func(b []byte) []byte { b[0] ^= 1; return b },
				func(b []byte) []byte { return b[:len(b)-1] },
				func(b []byte) []byte { return append(b, b...) },
				func(b []byte) []byte { return nil },
				func(b []byte) []byte {
					if tile.L != NamesLevel {
						return nil
					}
					return bytes.Replace(b, []byte(`"Timestamp":`), []byte(`"Timestamp":1`), 1)
				},
			} {
				damaged := maps.Clone(objects)
				b, _ := objects.read(tile)
				damaged[tile.Path()] = damage(b)
				if _, err := LoadEdge(edge.Tree(), damaged.read, nil); !errors.Is(err, ErrMismatch) {
					t.Errorf("size %d: damage to %s gives %v", size, tile.Path(), err)
				}
			}
			missing := maps.Clone(objects)
			delete(missing, tile.Path())
			if _, err := LoadEdge(edge.Tree(), missing.read, nil); err == nil || errors.Is(err, ErrMismatch) {
				t.Errorf("size %d: missing %s gives %v", size, tile.Path(), err)
			}
		}
	}
}

// TestLoadEdgeWithoutNames takes over a log that has no names tiles: the open
// tile's lines are made from its entries.
func TestLoadEdgeWithoutNames(t *testing.T) {
	edge, objects := grownTo(t, 300)
	loaded, err := LoadEdge(edge.Tree(), func(tile Tile) ([]byte, error) {
		if tile.L == NamesLevel {
			return nil, ErrNoTile
		}
		return objects.read(tile)
	}, func(e *Entry) []byte {
		_, number, _ := strings.Cut(string(e.Certificate()), " ")
		return fmt.Appendf(nil, `{"DNS":["%s.example"]}`, number)
	})
	if err != nil {
		t.Fatal(err)
	}
	assertSameGrowth(t, edge, loaded, 300)
}

// TestAppendRefusesGaps covers indexes that do not continue the tree.
func TestAppendRefusesGaps(t *testing.T) {
	edge, _ := grownTo(t, 10)
	for _, index := range []int64{0, 9, 11} {
		if _, _, err := edge.Append([]Leaf{testLeaf(t, index)}); err == nil {
			t.Errorf("a leaf with index %d was appended to 10 leaves", index)
		}
	}
}

// TestAppendIsDeterministic: same input, same bytes.
func TestAppendIsDeterministic(t *testing.T) {
	edge, _ := grownTo(t, 255)
	leaves := []Leaf{testLeaf(t, 255), testLeaf(t, 256), testLeaf(t, 257)}
	_, a, err := edge.Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	_, b, _ := edge.Append(leaves)
	for i := range a.Objects {
		if a.Objects[i].Name != b.Objects[i].Name || !bytes.Equal(a.Objects[i].Data, b.Objects[i].Data) {
			t.Errorf("%s differs", a.Objects[i].Name)
		}
	}
}

// TestAppendBranches: edges that continue one edge, as after a round that failed,
// do not disturb it or each other, wherever their tiles share memory.
func TestAppendBranches(t *testing.T) {
	for _, start := range []int64{0, 1, 100, 250, 255, 256, 300} {
		edge, _ := grownTo(t, start)
		var branches []*branch
		for i := range 3 {
			branches = append(branches, &branch{edge: edge, store: stored{}, other: int64(i) << 32})
		}
		for _, n := range []int64{1, 3, 20, 5, 230, 300, 2} {
			for _, b := range branches {
				b.grow(t, n)
			}
			// One that is dropped, as its round failed.
			(&branch{edge: branches[0].edge, store: stored{}, other: 9 << 32}).grow(t, n)
		}
		for i, b := range branches {
			alone := &branch{edge: edge, store: stored{}, other: b.other}
			alone.grow(t, b.edge.Tree().N-start)
			if alone.edge.Tree() != b.edge.Tree() {
				t.Errorf("from %d: branch %d ends in another tree than its leaves alone make", start, i)
			}
			for name, want := range alone.store {
				if !bytes.Equal(b.store[name], want) {
					t.Errorf("from %d: branch %d has another %s", start, i, name)
				}
			}
		}
	}
}

// branch is an edge that grows by leaves of its own.
type branch struct {
	edge  *Edge
	store stored
	other int64 // tells its leaves from those of other branches
}

func (b *branch) grow(t *testing.T, n int64) {
	t.Helper()
	var leaves []Leaf
	for i := b.edge.Tree().N; int64(len(leaves)) < n; i++ {
		l := testLeaf(t, i+b.other)
		l.Index = i
		leaves = append(leaves, l)
	}
	edge, growth, err := b.edge.Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	b.edge = edge
	b.store.apply(t, growth)
}

// TestAppendNothing: an empty round writes no objects.
func TestAppendNothing(t *testing.T) {
	edge, _ := grownTo(t, 10)
	same, growth, err := edge.Append(nil)
	if err != nil || len(growth.Objects) != 0 || growth.Tree != edge.Tree() || same.Tree() != edge.Tree() {
		t.Errorf("Append(nil) = %v, %v", growth, err)
	}
}

func TestDecompressBounds(t *testing.T) {
	big := Compress(make([]byte, 1<<20))
	if _, err := Decompress(big, 1<<20); err != nil {
		t.Error(err)
	}
	if _, err := Decompress(big, 1<<20-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("content over the limit: %v", err)
	}
	if _, err := Decompress(big[:len(big)-3], 1<<20); err == nil {
		t.Error("truncated gzip was read")
	}
	if _, err := Decompress([]byte("plain"), 10); err == nil {
		t.Error("plain bytes were decompressed")
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 150, 750} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var base []Leaf
			cert := make([]byte, 1200)
			_, _ = rand.NewChaCha8([32]byte{}).Read(cert)
			for i := range n + 128 {
				e, err := NewPrecertEntry(append(fmt.Appendf(nil, "%d", i), cert...), [32]byte{}, cert, []Fingerprint{{1}, {2}}, []byte(`{"DNS":["a.example","b.example"]}`))
				if err != nil {
					b.Fatal(err)
				}
				base = append(base, Leaf{e, Position{Index: int64(i), Timestamp: 1}})
			}
			edge, _, err := NewEdge().Append(base[:128])
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := edge.Append(base[128:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestRootAt compares with the roots that the tree had, and refuses tiles of
// another tree.
func TestRootAt(t *testing.T) {
	edge, objects, ref := NewEdge(), stored{}, &reference{}
	roots := map[int64]Hash{0: EmptyRoot}
	for _, size := range []int64{1, 5, 255, 256, 257, 700} {
		var leaves []Leaf
		for i := edge.Tree().N; i < size; i++ {
			leaves = append(leaves, testLeaf(t, i))
			ref.add(t, leaves[len(leaves)-1])
		}
		grown, growth, err := edge.Append(leaves)
		if err != nil {
			t.Fatal(err)
		}
		objects.apply(t, growth)
		edge, roots[size] = grown, ref.root(t)
	}
	read := func(_ context.Context, tile Tile) ([]byte, error) { return objects.read(tile) }
	for size, want := range roots {
		if got, err := RootAt(t.Context(), edge.Tree(), size, read); err != nil || got != want {
			t.Errorf("size %d: %v, %v; want %v", size, got, err, want)
		}
	}
	for _, size := range []int64{-1, 701} {
		if _, err := RootAt(t.Context(), edge.Tree(), size, read); err == nil {
			t.Errorf("a tree of 700 leaves once had %d", size)
		}
	}
	objects["tile/0/000"][0] ^= 1
	if _, err := RootAt(t.Context(), edge.Tree(), 5, read); !errors.Is(err, ErrMismatch) {
		t.Errorf("a changed tile: %v", err)
	}
	delete(objects, "tile/0/000")
	if _, err := RootAt(t.Context(), edge.Tree(), 5, read); err == nil || errors.Is(err, ErrMismatch) {
		t.Errorf("a missing tile: %v", err)
	}
}
