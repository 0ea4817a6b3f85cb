package fsck

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// flipsPerFile bounds the time of TestEveryFile.
const flipsPerFile = 6

// TestEveryFile flips random bits in every file of a log, one at a time. Each
// is found in the file that it is in, and nowhere else, unless what the file says
// is the same as before.
func TestEveryFile(t *testing.T) {
	l := makeLog(t, t.TempDir())
	rnd := rand.New(rand.NewPCG(1, 2))
	files := slices.Sorted(maps.Keys(snapshot(t, l.place)))
	found, same := 0, 0
	for _, path := range files {
		name, err := filepath.Rel(l.dir(), path)
		if err != nil {
			t.Fatal(err)
		}
		object := name
		switch {
		case path == l.lock():
			object = LockObject
		case path == l.cache():
			object = CacheObject
		case name == "log.v3.json" || name == "_roots.pem": // most of what they say is in no other place
			continue
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before := l.says(t, name, path)
		for range flipsPerFile {
			at, bit := rnd.IntN(len(whole)), byte(1)<<rnd.IntN(8)
			b := slices.Clone(whole)
			b[at] ^= bit
			writeFile(t, path, b)
			r, err := Run(t.Context(), l.options())
			switch {
			case err != nil:
				t.Errorf("%s, byte %d, bit %#x: %v", object, at, bit, err)
			case r.Count > 0:
				found++
				for _, f := range r.Findings {
					// Where nothing tells which of the two was changed, it is the first.
					either := object == LockObject && f.Object == "checkpoint" && strings.Contains(f.What, "one of the two was changed")
					if f.Object != object && !either {
						t.Errorf("%s, byte %d, bit %#x: %v", object, at, bit, f)
					}
				}
			default:
				same++
				if after := l.says(t, name, path); after != before {
					t.Errorf("%s, byte %d, bit %#x: not found, although it says something else", object, at, bit)
				}
			}
		}
		writeFile(t, path, whole)
	}
	t.Logf("%d flips found, %d that change nothing", found, same)
	if found < 60 {
		t.Errorf("%d flips found", found)
	}
}

// says returns what a file says to those who read it; an earlier partial tile
// says nothing that is checked.
func (l *testLog) says(t *testing.T, name, path string) string {
	t.Helper()
	switch {
	case path == l.lock():
		return query(path, "SELECT hex(logID), hex(body) FROM checkpoints ORDER BY 1")
	case path == l.cache():
		return query(path, "SELECT hex(key), timestamp, leaf_index FROM cache256 ORDER BY 1")
	case name == "checkpoint":
		head, err := l.signer.Verifier().Verify(l.read(t, name))
		if err != nil {
			head = checkpoint.TreeHead{}
		}
		return fmt.Sprint(head)
	case storage.KindOf(name).Gzip() && l.isEarlier(name):
		return ""
	case storage.KindOf(name).Gzip():
		b, err := tlog.Decompress(l.read(t, name), 1<<26)
		return fmt.Sprint(string(b), err)
	case storage.KindOf(name) == storage.HashTile && l.isEarlier(name):
		return ""
	}
	return string(l.read(t, name))
}

func (l *testLog) isEarlier(name string) bool {
	tile, err := tlog.ParseTilePath(name)
	return err == nil && placeOf(tile, testSize) == placeEarlier
}

// query returns all rows of a query, or the error.
func query(path, sql string) string {
	c, err := sqlite.OpenConn("file:"+path+"?immutable=1", sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	err = sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		for i := range s.ColumnCount() {
			b.WriteString(s.ColumnText(i) + " ")
		}
		b.WriteString("\n")
		return nil
	}})
	return fmt.Sprint(b.String(), err, c.Close())
}
