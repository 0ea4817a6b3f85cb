package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/tlog"
)

// walk visits the data tiles, several at a time. Tiles are handed out in
// order and a fault stops only those behind it, so that the fault returned is
// always the first one.
func (v *verification) walk(ctx context.Context) error {
	total, tile := v.plan()
	workers := v.o.Workers
	if workers <= 0 {
		workers = 4
	}
	var (
		mu     sync.Mutex
		next   int64
		failed = total // the first position that failed
		err    error
		done   int64
	)
	take := func() (i int64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= failed || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	finish := func(i int64, e error) {
		mu.Lock()
		defer mu.Unlock()
		if e != nil {
			if i < failed {
				failed, err = i, e
			}
			return
		}
		done++
		if v.o.Progress != nil {
			v.o.Progress(Progress{Tiles: done, TotalTiles: total, Entries: v.visited(), Bytes: v.client.bytes.Load()})
		}
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i, ok := take()
				if !ok {
					return
				}
				finish(i, v.checkTile(ctx, tile(i)))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// plan returns the number of data tiles to visit, and the index of each.
func (v *verification) plan() (total int64, tile func(int64) int64) {
	if !v.o.PromisesOnly {
		return (v.head.Tree.N + tlog.TileWidth - 1) / tlog.TileWidth, func(i int64) int64 { return i }
	}
	var tiles []int64
	for _, p := range v.promises {
		if n := p.Index / tlog.TileWidth; len(tiles) == 0 || tiles[len(tiles)-1] != n {
			tiles = append(tiles, n)
		}
	}
	return int64(len(tiles)), func(i int64) int64 { return tiles[i] }
}

func (v *verification) visited() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.report.Entries
}

// tally is what one tile adds to the report.
type tally struct{ entries, precerts, signatures, names int64 }

func (v *verification) add(t tally) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Entries += t.entries
	v.report.Precerts += t.precerts
	v.report.Signatures += t.signatures
	v.report.NamesTiles += t.names
	v.report.DataTiles++
}

// checkTile verifies data tile n against the verified hash tile, every entry
// in it, its names tile, and the promises that it must keep.
func (v *verification) checkTile(ctx context.Context, n int64) error {
	hashes, hashName, err := v.tree.hashes(ctx, 0, n)
	if err != nil {
		return err
	}
	t := v.leafTile(tlog.DataLevel, n)
	data, name, err := v.client.tile(ctx, t, maxDataTile)
	if err != nil {
		return err
	}
	leaves, err := v.leaves(t, name, data, hashes, hashName)
	if err != nil {
		return err
	}
	sum := tally{entries: int64(len(leaves))}
	certs := make([]*cert.Certificate, len(leaves))
	for i, leaf := range leaves {
		var signatures int64
		if certs[i], signatures, err = v.checkEntry(ctx, name, leaf); err != nil {
			return err
		}
		sum.signatures += signatures
		if leaf.Entry.Type() == tlog.PrecertEntry {
			sum.precerts++
		}
	}
	if v.names {
		if err := v.checkNames(ctx, n, leaves, certs); err != nil {
			return err
		}
		sum.names = 1
	}
	if err := v.checkPromises(n, name, leaves); err != nil {
		return err
	}
	v.add(sum)
	return nil
}

// leaves parses a data tile and verifies it against the hashes of its leaves.
func (v *verification) leaves(t tlog.Tile, name string, data []byte, hashes []tlog.Hash, hashName string) ([]tlog.Leaf, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // as a timestamp: the year 72,000
		return nil, fault(name, "is gzip-compressed but served without Content-Encoding: gzip")
	}
	leaves := make([]tlog.Leaf, 0, t.W)
	for i := range t.W {
		want := t.N*tlog.TileWidth + int64(i)
		if len(data) == 0 {
			return nil, fault(name, "ends early").values(fmt.Sprintf("%d entries", i), t.W)
		}
		leaf, rest, err := tlog.ReadTileLeaf(data)
		if err != nil {
			return nil, entryFault(name, want, "%v", err)
		}
		if leaf.Index != want {
			return nil, entryFault(name, want, "wrong leaf_index").values(leaf.Index, want)
		}
		if got := leaf.Hash(); got != hashes[i] {
			return nil, entryFault(name, want, "leaf does not have the hash in %s", hashName).values(got, hashes[i])
		}
		if leaf.Timestamp > v.head.Timestamp {
			return nil, entryFault(name, want, "timestamp is after the checkpoint's").values(stamp(leaf.Timestamp), "at most "+stamp(v.head.Timestamp))
		}
		leaves, data = append(leaves, leaf), rest
	}
	if len(data) > 0 && name == t.Path() {
		return nil, fault(name, "goes on after %d entries, with %d bytes", t.W, len(data))
	}
	return leaves, nil
}

// checkPromises compares the promised entries of tile n with those there.
func (v *verification) checkPromises(n int64, name string, leaves []tlog.Leaf) error {
	first, _ := slices.BinarySearchFunc(v.promises, n*tlog.TileWidth, func(p Promise, i int64) int { return int(p.Index - i) })
	for _, p := range v.promises[first:] {
		i := p.Index - n*tlog.TileWidth
		if i >= int64(len(leaves)) {
			break
		}
		leaf := leaves[i]
		if got := leaf.Entry.Key(); got != p.Key {
			return entryFault(name, p.Index, "is not the promised entry").values(fmt.Sprintf("key %x", got), fmt.Sprintf("%x", p.Key))
		}
		if leaf.Timestamp != p.Timestamp {
			return entryFault(name, p.Index, "does not have the promised timestamp").values(leaf.Timestamp, p.Timestamp)
		}
	}
	return nil
}

// checkNames compares names tile n with the names in the certificates.
func (v *verification) checkNames(ctx context.Context, n int64, leaves []tlog.Leaf, certs []*cert.Certificate) error {
	t := v.leafTile(tlog.NamesLevel, n)
	b, name, err := v.client.tile(ctx, t, maxNamesTile)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return fault(name, "is gzip-compressed but served without Content-Encoding: gzip")
	}
	for i, leaf := range leaves {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return fault(name, "ends early").values(fmt.Sprintf("%d lines", i), len(leaves))
		}
		if f := compareNames(name, leaf, certs[i], line); f != nil {
			return f
		}
		b = rest
	}
	if len(b) > 0 && name == t.Path() {
		return fault(name, "goes on after %d lines, with %d bytes", len(leaves), len(b))
	}
	return nil
}

// compareNames compares one line. Other logs may write the same content in
// another way, so lines that differ are compared by what they say.
func compareNames(name string, leaf tlog.Leaf, c *cert.Certificate, line []byte) error {
	want := fmt.Appendf(nil, `{"Timestamp":%d`, leaf.Timestamp)
	if names := c.NamesJSON(); len(names) > len("{}") {
		want = append(append(want, ','), names[1:]...)
	} else {
		want = append(want, '}')
	}
	if bytes.Equal(line, want) {
		return nil
	}
	got, err := readNames(line)
	if err != nil {
		return entryFault(name, leaf.Index, "line is not a JSON object of the right form: %v", err)
	}
	if got.Timestamp != leaf.Timestamp {
		return entryFault(name, leaf.Index, "timestamp is not the entry's").values(got.Timestamp, leaf.Timestamp)
	}
	if w, err := readNames(want); err != nil || !reflect.DeepEqual(got, w) {
		return entryFault(name, leaf.Index, "line is not what the certificate says").values(clip(line), clip(want))
	}
	return nil
}

// namesLine is a line of a names tile. Members that are empty may be left out.
type namesLine struct {
	Timestamp int64
	Subject   map[string]any
	DNS, IP   []string
}

func readNames(line []byte) (namesLine, error) {
	var n namesLine
	err := json.Unmarshal(line, &n)
	if len(n.DNS) == 0 {
		n.DNS = nil
	}
	if len(n.IP) == 0 {
		n.IP = nil
	}
	if len(n.Subject) == 0 {
		n.Subject = nil
	}
	return n, err
}

// clip shortens what may be long and comes from others, for an error message.
func clip(b []byte) string {
	const most = 300
	if len(b) > most {
		return fmt.Sprintf("%.*q... (%d bytes)", most, b, len(b))
	}
	return fmt.Sprintf("%q", b)
}
