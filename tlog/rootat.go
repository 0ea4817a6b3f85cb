package tlog

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// RootAt returns the root hash that the tree had when it was of the given size.
// read returns hash tiles as served; they are verified against the tree, and
// O(log size) of them are read. It returns ErrMismatch, wrapped, for tiles
// that do not belong to the tree.
func RootAt(ctx context.Context, tree Tree, size int64, read func(context.Context, Tile) ([]byte, error)) (Hash, error) {
	switch {
	case size < 0 || size > tree.N:
		return Hash{}, fmt.Errorf("a tree of %d leaves never had %d", tree.N, size)
	case size == 0:
		return EmptyRoot, nil
	case size == tree.N:
		return tree.Hash, nil
	}
	r := &tileReader{ctx: ctx, read: read}
	root, err := tlog.TreeHash(size, tlog.TileHashReader(tree, r))
	switch {
	case r.err != nil:
		return Hash{}, r.err
	case err != nil:
		return Hash{}, fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return root, nil
}

// tileReader adapts a function to what x/mod asks for. It lives for one call, so
// that it may hold a context.
type tileReader struct {
	ctx  context.Context
	read func(context.Context, Tile) ([]byte, error)
	err  error // of read
}

func (r *tileReader) Height() int                     { return TileHeight }
func (r *tileReader) SaveTiles([]tlog.Tile, [][]byte) {}
func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		own := Tile{L: t.L, N: t.N, W: t.W}
		if data[i], r.err = r.read(r.ctx, own); r.err != nil {
			r.err = fmt.Errorf("reading %s: %w", own.Path(), r.err)
			return nil, r.err
		}
	}
	return data, nil
}
