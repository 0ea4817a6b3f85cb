package power

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/test/power/disk"
	"github.com/daybook-ct/daybook/test/witness"
	"github.com/daybook-ct/daybook/tlog"
)

const diskSize = 320 << 20

// configuration is that of the log, in the machine and on this one. Files are
// named relative to it.
const configuration = `listen: ["LISTEN"]
admin: {listen: "127.0.0.1:0"}
logging: {format: json}
lock: {path: lock.db}
on_halt: stay
logs:
  - name: power
    submission_prefix: https://ct.example.com/power/
    monitoring_prefix: https://ct.example.com/power/
    key: seed.bin
    storage: {directory: data, min_free: 0B, warn_free: 0B, min_free_inodes: 0, scrub_rate: 0}
    cache: {path: cache.db, page_cache: 16MiB}
    roots: {files: [roots.pem]}
    interval: 100ms
    pool_size: 300
`

func configure(t testing.TB, dir, listen string) {
	t.Helper()
	b := []byte(strings.ReplaceAll(configuration, "LISTEN", listen))
	if err := os.WriteFile(filepath.Join(dir, "daybook.yaml"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// create makes a log, and a disk with ext4 that holds it.
func create(t testing.TB) (*disk.Disk, witness.Log) {
	t.Helper()
	dir := t.TempDir()
	configure(t, dir, "127.0.0.1:0")
	if err := os.WriteFile(filepath.Join(dir, "roots.pem"), chains.CA.RootPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run1(t, normal.Path(t), "init", "-c", filepath.Join(dir, "daybook.yaml"))
	l, err := witness.ReadLog(origin, logPath, out)
	if err != nil {
		t.Fatal(err)
	}
	configure(t, dir, "0.0.0.0:8000")
	image := filepath.Join(t.TempDir(), "image")
	run1(t, "mkfs.ext4", "-q", "-b", "4096", "-d", dir, image, fmt.Sprintf("%dK", diskSize>>10))
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	d, err := disk.Load(f, diskSize)
	if err != nil {
		t.Fatal(err)
	}
	return d, l
}

// run1 runs a command that must succeed, and returns its output.
func run1(t testing.TB, command string, args ...string) string {
	t.Helper()
	out, err := exec.Command(command, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", command, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// extract takes the files from a disk, once the file system's own journal has
// been replayed, to a new directory, which the caller removes. A file system
// that needs more than that would be a fault of the disk or the kernel, not of
// the log.
func extract(t testing.TB, d *disk.Disk) (dir, files string) {
	t.Helper()
	dir, err := os.MkdirTemp(work, "cut-")
	if err != nil {
		t.Fatal(err)
	}
	image := imageOf(t, d, dir)
	files = filepath.Join(dir, "log")
	mend(t, image)
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	run1(t, "debugfs", "-R", "rdump / "+files, image)
	if err := os.Remove(image); err != nil {
		t.Fatal(err)
	}
	configure(t, files, "127.0.0.1:0")
	return dir, files
}

// mend replays the journal of the ext4 in an image.
func mend(t testing.TB, image string) {
	t.Helper()
	if out, err := exec.Command("e2fsck", "-p", image).CombinedOutput(); err != nil {
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 { // 1 stands for mended
			t.Fatalf("e2fsck: %v\n%s", err, out)
		}
	}
	run1(t, "e2fsck", "-fn", image)
}

func imageOf(t testing.TB, d *disk.Disk, dir string) string {
	t.Helper()
	image := filepath.Join(dir, "image")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(d.Size()), d.WriteImage(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	return image
}

// leftovers are the files that a cut may leave, and nobody may be served.
func leftovers(t testing.TB, dir string) (temps, bundles []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".tmp-") {
			temps = append(temps, e.Name())
		}
	}
	staged, err := os.ReadDir(filepath.Join(dir, "data/staging"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range staged {
		bundles = append(bundles, "staging/"+e.Name())
	}
	return temps, bundles
}

// kept counts the promises whose leaves are found in the data tiles, without
// regard to anything else: what could be saved of a log that does not start.
func kept(t testing.TB, dir string, promises []monitor.Promise) (n int) {
	t.Helper()
	leaves := map[tlog.Position]tlog.Key{}
	root := filepath.Join(dir, "data/tile/data")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == root {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b, err := tlog.Decompress(raw, 64<<20)
		for err == nil && len(b) > 0 {
			var leaf tlog.Leaf
			if leaf, b, err = tlog.ReadTileLeaf(b); err == nil {
				leaves[leaf.Position] = leaf.Entry.Key()
			}
		}
		return nil // a damaged tile has no more leaves
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range promises {
		if leaves[p.Position] == p.Key {
			n++
		}
	}
	return n
}

// cacheState is what a cut has left of the dedup cache.
type cacheState struct {
	damaged error // what SQLite says
	wrong   int   // rows with a position that was not promised
}

// inspectCache looks at a copy of the cache, as opening it changes it.
func inspectCache(t testing.TB, dir string, promises []monitor.Promise) (s cacheState) {
	t.Helper()
	temp := filepath.Join(dir, "copy")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, "cache.db"+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, os.WriteFile(filepath.Join(temp, "cache.db"+suffix), b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := readCache(filepath.Join(temp, "cache.db"))
	s.damaged = err
	promised := map[tlog.Key][]tlog.Position{} // several, if the cache has lost a row before
	for _, p := range promises {
		promised[p.Key] = append(promised[p.Key], p.Position)
	}
	for key, positions := range promised {
		if row, ok := rows[key]; ok && !slices.Contains(positions, row) {
			s.wrong++
		}
	}
	return s
}

// readCache returns the rows that can be read.
func readCache(path string) (rows map[tlog.Key]tlog.Position, err error) {
	rows = map[tlog.Key]tlog.Position{}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	readErr := sqlitex.ExecuteTransient(c, "SELECT key, timestamp, leaf_index FROM cache256", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		var k tlog.Key
		row.ColumnBytes(0, k[:])
		rows[k] = tlog.Position{Timestamp: row.ColumnInt64(1), Index: row.ColumnInt64(2)}
		return nil
	}})
	var found bytes.Buffer
	err = sqlitex.ExecuteTransient(c, "PRAGMA integrity_check(1)", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		found.WriteString(row.ColumnText(0))
		return nil
	}})
	if err := errors.Join(readErr, err); err != nil {
		return rows, err
	}
	if found.String() != "ok" {
		return rows, errors.New(found.String())
	}
	return rows, nil
}
