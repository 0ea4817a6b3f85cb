package tlog

import (
	"bytes"
	"testing"
)

// TestAppendOrder: an object comes after those it vouches for, so that a round
// that is applied in this order never shows a hash whose entry is not there.
func TestAppendOrder(t *testing.T) {
	edge, _ := grownTo(t, 250)
	var leaves []Leaf
	for i := range int64(600) {
		leaves = append(leaves, testLeaf(t, 250+i))
	}
	_, growth, err := edge.Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[Tile]int)
	for i, o := range growth.Objects {
		tile, err := ParseTilePath(o.Name)
		if err != nil {
			t.Fatal(err)
		}
		at[tile] = i
	}
	checked := 0
	for tile, i := range at {
		below := []Tile{{L: DataLevel, N: tile.N, W: tile.W}, {L: NamesLevel, N: tile.N, W: tile.W}}
		if tile.L < 0 {
			continue
		}
		if tile.L > 0 {
			below = nil
			for n := range tile.W {
				below = append(below, Tile{L: tile.L - 1, N: tile.N*TileWidth + int64(n), W: TileWidth})
			}
		}
		for _, b := range below {
			j, ok := at[b]
			if !ok && tile.L == 0 {
				t.Errorf("%s is written without %s", tile.Path(), b.Path())
			}
			if ok && j > i {
				t.Errorf("%s comes before %s", tile.Path(), b.Path())
			}
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("only %d pairs of objects were looked at", checked)
	}
}

// TestAppendKeepsItsEdge: a round that is refused leaves nothing in the edge that
// the next one grows from.
func TestAppendKeepsItsEdge(t *testing.T) {
	for _, size := range []int64{3, 100, 255, 256, 300} {
		edge, _ := grownTo(t, size)
		fresh, _ := grownTo(t, size)
		var refused, leaves []Leaf
		for i := range int64(300) {
			other := testLeaf(t, size+i)
			other.Timestamp++
			refused, leaves = append(refused, other), append(leaves, testLeaf(t, size+i))
		}
		first, _, err := edge.Append(refused[:2])
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := edge.Append(refused); err != nil {
			t.Fatal(err)
		}
		_, got, err := edge.Append(leaves)
		if err != nil {
			t.Fatal(err)
		}
		_, want, err := fresh.Append(leaves)
		if err != nil {
			t.Fatal(err)
		}
		if got.Tree != want.Tree {
			t.Errorf("%d leaves: the root depends on leaves that were refused", size)
		}
		for i, o := range want.Objects {
			if got.Objects[i].Name != o.Name || !bytes.Equal(got.Objects[i].Data, o.Data) {
				t.Errorf("%d leaves: %s depends on leaves that were refused", size, o.Name)
			}
		}
		// And what grew from it before stays as it was.
		if again, _, err := fresh.Append(refused[:2]); err != nil || again.root() != first.root() {
			t.Errorf("%d leaves: an edge is changed by later appends to the one it grew from (%v)", size, err)
		}
	}
}
