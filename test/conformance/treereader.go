package conformance

import (
	"context"
	"fmt"
	"sync"
)

// treeReader reads the tiles of one tree head, each once. It is safe for
// concurrent use.
type treeReader struct {
	r    *run
	ctx  context.Context // of the phase that reads the tree
	size int64

	mu     sync.Mutex
	hashes map[tile]*tileCall
}

type tileCall struct {
	once   sync.Once
	hashes [][32]byte
	err    error
}

func newTreeReader(ctx context.Context, r *run, size int64) *treeReader {
	return &treeReader{r: r, ctx: ctx, size: size, hashes: make(map[tile]*tileCall)}
}

// hash is a hashSource.
func (t *treeReader) hash(l int, i int64) ([32]byte, error) {
	tile := tileAt(t.size, l, i)
	t.mu.Lock()
	call := t.hashes[tile]
	if call == nil {
		call = new(tileCall)
		t.hashes[tile] = call
	}
	t.mu.Unlock()
	call.once.Do(func() { call.hashes, call.err = t.readHashes(tile) })
	if call.err != nil {
		return [32]byte{}, call.err
	}
	return call.hashes[i%tileWidth], nil
}

// fetch returns the decoded bytes of a tile. If a partial one is gone, it takes
// the full one.
func (t *treeReader) fetch(tile tile) (b []byte, width int, err error) {
	a := t.r.mon.accepting(t.ctx, tile.path(), "gzip")
	name, width := tile.path(), tile.width
	if a.status == 404 && width < tileWidth {
		name, width = tile.full(), tileWidth
		a = t.r.mon.accepting(t.ctx, name, "gzip")
	}
	if a.status != 200 {
		return nil, 0, fmt.Errorf("%s: %v", name, a)
	}
	b, err = a.decoded()
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return b, width, err
}

func (t *treeReader) readHashes(tile tile) ([][32]byte, error) {
	b, width, err := t.fetch(tile)
	if err != nil {
		t.r.rec.fail("S18 S23", "%v", err)
		return nil, err
	}
	list, err := readHashTile(b, width)
	ids := "S23"
	if width == tileWidth {
		ids = "S21"
	}
	if !t.r.rec.noError(err, ids, "%s", tile.path()) {
		return nil, fmt.Errorf("%s: %w", tile.path(), err)
	}
	return list, nil
}

// entries reads a data tile.
func (t *treeReader) entries(tile tile) ([]*tileLeaf, error) {
	b, width, err := t.fetch(tile)
	if err != nil {
		t.r.rec.fail("S26 S30", "%v", err)
		return nil, err
	}
	list, err := readDataTile(b, width)
	t.r.rec.noError(err, "S31 A03", "%s", tile.path())
	return list[:min(len(list), tile.width)], err
}
