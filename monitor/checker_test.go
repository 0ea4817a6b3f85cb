package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// Get makes a test log a Source.
func (l *testLog) Get(_ context.Context, name string, limit int64) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotFound
	case err != nil:
		return nil, err
	case storage.KindOf(name).Gzip():
		return Decompress(name, b, limit)
	}
	return b, nil
}

// bareLog makes a log of size leaves that hold no certificates, and the head of
// its tree.
func bareLog(t testing.TB, size int64) (*testLog, checkpoint.TreeHead) {
	t.Helper()
	l := &testLog{dir: t.TempDir()}
	e, err := tlog.NewX509Entry([]byte("no certificate"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaves := make([]tlog.Leaf, size)
	for i := range leaves {
		leaves[i] = tlog.Leaf{Entry: e, Position: tlog.Position{Index: int64(i), Timestamp: startTime}}
	}
	edge, growth, err := tlog.NewEdge().Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range growth.Objects {
		if storage.KindOf(o.Name) != storage.NamesTile {
			l.write(t, o.Name, o.Data)
		}
	}
	return l, checkpoint.TreeHead{Tree: edge.Tree(), Timestamp: startTime}
}

// faultsOf checks all tiles and returns every fault, sorted, and the number of
// leaves that were verified.
func faultsOf(t testing.TB, src Source, head checkpoint.TreeHead) (faults []string, leaves int) {
	t.Helper()
	found := func(f *Fault) error {
		s := fmt.Sprintf("%s %d: %s", f.Object, f.Entry, f.What)
		if !slices.Contains(faults, s) {
			faults = append(faults, s)
		}
		return nil
	}
	c, err := NewChecker(t.Context(), src, head, CheckerOptions{LeavesOnly: true, Thorough: true}, found)
	if err != nil {
		t.Fatal(err)
	}
	for n := range c.Tiles() {
		r, err := c.Tile(t.Context(), n, found)
		if err != nil {
			t.Fatal(err)
		}
		leaves += len(r.Leaves)
	}
	slices.Sort(faults)
	return faults, leaves
}

// TestThorough damages the hash tiles of a tree in which level 1 has a full tile,
// also several that vouch for each other: each is named, its hashes are made up
// for by the level below, and nothing else is blamed.
func TestThorough(t *testing.T) {
	const size = 256*256 + 300
	l, head := bareLog(t, size)
	if faults, leaves := faultsOf(t, l, head); len(faults) > 0 || leaves != size {
		t.Fatalf("%d leaves, faults %v", leaves, faults)
	}
	for _, c := range []struct {
		name   string
		do     []func(*testing.T, *testLog)
		want   []string
		leaves int
	}{
		{"level 0", []func(*testing.T, *testLog){flip("tile/0/020", 64)}, []string{
			"tile/0/020 5122: does not hash to hash 20 of tile/1/000: its hash 2 is wrong"}, size},
		{"level 1", []func(*testing.T, *testLog){flip("tile/1/000", 32*9)}, []string{
			"tile/1/000 -1: does not hash to hash 0 of tile/2/000.p/1: its hash 9 is wrong"}, size},
		{"swapped", []func(*testing.T, *testLog){swap("tile/0/003", "tile/0/004")}, []string{
			"tile/0/003 -1: does not hash to hash 3 of tile/1/000: 256 of its hashes are wrong",
			"tile/0/004 -1: does not hash to hash 4 of tile/1/000: 256 of its hashes are wrong"}, size},
		{"level 1 is gone", []func(*testing.T, *testLog){remove("tile/1/000")}, []string{
			"tile/1/000 -1: not served (404)"}, size},
		{"level 1 and below", []func(*testing.T, *testLog){flip("tile/1/000", 32*9), flip("tile/0/020", 64)}, []string{
			"tile/0/020 5122: does not hash to hash 20 of tile/1/000: its hash 2 is wrong",
			"tile/1/000 -1: does not hash to hash 0 of tile/2/000.p/1: its hash 9 is wrong"}, size},
		{"level 1 and what it is wrong about", []func(*testing.T, *testLog){flip("tile/1/000", 32*9), flip("tile/0/009", 64)}, []string{
			"tile/0/009 2306: does not hash to hash 9 of tile/1/000: its hash 2 is wrong",
			"tile/1/000 -1: does not hash to hash 0 of tile/2/000.p/1: its hash 9 is wrong"}, size},
		{"the edge and what it is wrong about", []func(*testing.T, *testLog){flip("tile/1/001.p/1", 9), flip("tile/0/256", 64)}, []string{
			"tile/0/256 65538: does not hash to hash 0 of tile/1/001.p/1: its hash 2 is wrong",
			"tile/1/001.p/1 -1: hash 0 is not that of what it stands for"}, size},
		{"level 2", []func(*testing.T, *testLog){flip("tile/2/000.p/1", 3)}, []string{
			"tile/2/000.p/1 -1: hash 0 is not that of what it stands for"}, size},
		{"levels 1 and 2 on the edge", []func(*testing.T, *testLog){flip("tile/2/000.p/1", 3), flip("tile/1/001.p/1", 3)}, []string{
			"tile/1/001.p/1 -1: hash 0 is not that of what it stands for",
			"tile/2/000.p/1 -1: hash 0 is not that of what it stands for"}, size},
		{"the edge is gone", []func(*testing.T, *testLog){remove("tile/2/000.p/1"), remove("tile/1/001.p/1"), remove("tile/0/257.p/44")}, []string{
			"tile/0/257.p/44 -1: not served (404), nor is the full tile",
			"tile/1/001.p/1 -1: not served (404), nor is the full tile",
			"tile/2/000.p/1 -1: not served (404), nor is the full tile"}, size},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := map[string][]byte{}
			for _, s := range c.want {
				name, _, _ := strings.Cut(s, " ")
				kept[name] = l.read(t, name)
			}
			for _, do := range c.do {
				do(t, l)
			}
			if faults, leaves := faultsOf(t, l, head); !slices.Equal(faults, c.want) || leaves != c.leaves {
				t.Errorf("%d leaves verified, want %d; faults:\n%s", leaves, c.leaves, strings.Join(faults, "\n"))
			}
			for name, b := range kept {
				l.write(t, name, b)
			}
		})
	}
}

// TestMend: whatever is damaged of the stored and the derived hashes, as long as
// one of the two is right for each place, the right list comes out, and the
// stored ones that are wrong are named.
func TestMend(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		right := make([]tlog.Hash, 1<<rnd.IntN(9))
		for i := range right {
			right[i] = tlog.Hash{byte(i), byte(rnd.Uint32())}
		}
		root := perfectRoot(right)
		stored, derived := certain(right, len(right)), certain(right, len(right))
		var wrong []int
		for i := range min(len(right), rnd.IntN(maxDoubts+1)) {
			at := i * len(right) / maxDoubts
			if stored[at].hash != right[at] || derived[at].hash != right[at] || !stored[at].known || !derived[at].known {
				continue
			}
			switch rnd.IntN(4) {
			case 0:
				stored[at].hash[5] ^= 1
				wrong = append(wrong, at)
			case 1:
				derived[at].hash[5] ^= 1
			case 2:
				stored[at] = candidate{}
			case 3:
				derived[at] = candidate{}
			}
		}
		list, got, ok := mend(stored, derived, func(int) candidate { return candidate{} }, func(list []tlog.Hash) bool { return perfectRoot(list) == root })
		if !ok || !slices.Equal(list, right) || !slices.Equal(got, wrong) {
			t.Fatalf("seed %d: found %v, wrong %v, want %v", seed, ok, got, wrong)
		}
		// Where both are wrong, nothing is made up.
		stored[0].hash[9] ^= 1
		derived[0] = candidate{tlog.Hash{7}, true}
		if _, _, ok := mend(stored, derived, func(int) candidate { return candidate{} }, func(list []tlog.Hash) bool { return perfectRoot(list) == root }); ok {
			t.Fatalf("seed %d: mended what is lost", seed)
		}
	}
}

// TestUnknown: where nothing vouches for a hash, or the tree has no root at an
// earlier size because it is damaged there, nothing is said about either.
func TestUnknown(t *testing.T) {
	l, head := bareLog(t, 600)
	was := tlog.Tree{N: 300, Hash: l.treeAt(t, 300).Hash}
	for _, name := range []string{"tile/1/000.p/2", "tile/0/000", "tile/data/000"} {
		l.remove(t, name)
	}
	faults, leaves := faultsOf(t, l, head)
	if want := []string{"tile/0/000 -1: not served (404)", "tile/1/000.p/2 -1: not served (404), nor is the full tile", "tile/data/000 -1: not served (404)"}; !slices.Equal(faults, want) || leaves != 0 {
		t.Errorf("%d leaves, faults %v", leaves, faults)
	}
	found := 0
	count := func(*Fault) error { found++; return nil }
	c, err := NewChecker(t.Context(), l, head, CheckerOptions{Thorough: true}, count)
	if err != nil {
		t.Fatal(err)
	}
	found = 0
	if err := c.Consistent(t.Context(), checkpoint.TreeHead{Tree: was}, count); err != nil || found != 0 {
		t.Errorf("%d faults, error %v", found, err)
	}
}

// TestStopsAtOnce: a Found that returns an error ends the check with it.
func TestStopsAtOnce(t *testing.T) {
	l, head := bareLog(t, 600)
	flip("tile/1/000.p/2", 3)(t, l)
	enough := errors.New("enough")
	told := 0
	_, err := NewChecker(t.Context(), l, head, CheckerOptions{Thorough: true}, func(*Fault) error { told++; return enough })
	if !errors.Is(err, enough) || told != 1 {
		t.Errorf("told %d times, error %v", told, err)
	}
}
