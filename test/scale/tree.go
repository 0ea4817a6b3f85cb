package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// makeTree writes a log of so many entries of which only the right edge exists,
// and creates its register in the lock. A log opens and appends by that alone:
// of the entries before the last tile, random hashes stand for whole tiles.
// The size must not be a multiple of the width of a tile.
func makeTree(ctx context.Context, c sequencer.Config, n int64, entries []sequencer.Submission) error {
	width := int(n % tlog.TileWidth)
	if width == 0 || width > len(entries) {
		return fmt.Errorf("a tree of %d entries has %d in its last tile: there have to be some, and at most %d", n, width, len(entries))
	}
	now := time.Now().Add(-time.Minute).UnixMilli()
	var data, names []byte
	var hashes []tlog.Hash
	for i := range width {
		leaf := tlog.Leaf{Entry: entries[i].Entry, Position: tlog.Position{Index: n - int64(width-i), Timestamp: now}}
		data, names = leaf.AppendTileLeaf(data), leaf.AppendNamesLine(names)
		hashes = append(hashes, leaf.Hash())
	}
	at := func(level int) string { return tlog.Tile{L: level, N: n / tlog.TileWidth, W: width}.Path() }
	objects := []storage.Object{
		{Name: at(tlog.DataLevel), Data: tlog.Compress(data)},
		{Name: at(tlog.NamesLevel), Data: tlog.Compress(names)},
	}
	for i, issuer := range entries[0].Issuers {
		objects = append(objects, storage.Object{Name: fmt.Sprintf("issuer/%x", entries[0].Entry.Chain()[i]), Data: issuer})
	}
	var subtrees []tlog.Hash // from the right, that is, from the smallest
	for _, t := range tlog.HashTiles(n) {
		if t.L > 0 {
			hashes = randomHashes(n, t)
		}
		object := storage.Object{Name: t.Path()}
		for i := range hashes {
			object.Data = append(object.Data, hashes[i][:]...)
		}
		objects = append(objects, object)
		subtrees = append(subtrees, subtreesOf(hashes)...)
	}
	root := subtrees[0]
	for _, left := range subtrees[1:] {
		root = tlog.NodeHash(left, root)
	}
	head, err := c.Signer.SignTreeHead(tlog.Tree{N: n, Hash: root}, now)
	if err != nil {
		return err
	}
	if err := c.Lock.Create(ctx, c.Signer.LogID(), head); err != nil {
		return err
	}
	return c.Store.Put(ctx, append(objects, storage.Object{Name: "checkpoint", Data: head})...)
}

// randomHashes returns the hashes of a tile above the lowest level.
func randomHashes(n int64, t tlog.Tile) []tlog.Hash {
	hashes := make([]tlog.Hash, t.W)
	for i := range hashes {
		for j := 0; j < len(hashes[i]); j += 8 {
			binary.BigEndian.PutUint64(hashes[i][j:], mix(uint64(n)+uint64(t.L)<<56+uint64(i*8+j)<<40))
		}
	}
	return hashes
}

// subtreesOf returns the roots of the perfect subtrees over the hashes of a
// partial tile, the rightmost first.
func subtreesOf(hashes []tlog.Hash) []tlog.Hash {
	var roots []tlog.Hash
	for n := 1; n <= len(hashes); n *= 2 {
		if len(hashes)&n == 0 {
			continue
		}
		row := append([]tlog.Hash(nil), hashes[len(hashes)-n:]...)
		for len(row) > 1 {
			for i := range len(row) / 2 {
				row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
			}
			row = row[:len(row)/2]
		}
		roots, hashes = append(roots, row[0]), hashes[:len(hashes)-n]
	}
	return roots
}

// newSigner returns the signer of a log of nobody.
func newSigner() (*checkpoint.Signer, error) {
	keys, err := checkpoint.KeysFromSeed(make([]byte, checkpoint.SeedSize))
	if err != nil {
		return nil, err
	}
	return checkpoint.NewSigner("scale.invalid/log", keys)
}
