package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"zombiezen.com/go/sqlite"
)

// TestSynchronous is the decision table of synchronous=OFF.
func TestSynchronous(t *testing.T) {
	for _, tt := range []struct {
		name string
		fs   FSType
		err  error
		want int
	}{
		{"ZFS on Linux", FSType{Magic: 0x2fc12fc1}, nil, syncOff},
		{"ZFS on FreeBSD", FSType{Name: "zfs"}, nil, syncOff},
		{"ext4", FSType{Magic: 0xef53}, nil, syncNormal},
		{"XFS", FSType{Magic: 0x58465342}, nil, syncNormal},
		{"Btrfs", FSType{Magic: 0x9123683e}, nil, syncNormal},
		{"tmpfs", FSType{Magic: 0x01021994}, nil, syncNormal},
		{"overlayfs, perhaps over ZFS", FSType{Magic: 0x794c7630}, nil, syncNormal},
		{"UFS", FSType{Name: "ufs"}, nil, syncNormal},
		{"APFS", FSType{Name: "apfs"}, nil, syncNormal},
		{"name that begins alike", FSType{Name: "zfsx"}, nil, syncNormal},
		{"unknown", FSType{}, nil, syncNormal},
		{"statfs failed", FSType{}, errOther, syncNormal},
		{"statfs failed, but left something", FSType{Magic: 0x2fc12fc1}, errOther, syncNormal},
	} {
		if got := synchronous(tt.fs, tt.err); got != tt.want {
			t.Errorf("%s: synchronous = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestStatfsOfThisSystem(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "freebsd" && runtime.GOOS != "darwin" {
		t.Skip("SKIPPED: the type of a filesystem is not known on this system")
	}
	got, err := statfs(t.TempDir())
	if err != nil || got == (FSType{}) {
		t.Errorf("statfs = %v, %v", got, err)
	}
	if got, err := statfs(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("statfs of an absent directory = %v, %v", got, err)
	}
}

func TestFSTypeString(t *testing.T) {
	for want, fs := range map[string]FSType{
		"ext4": {Magic: 0xef53}, "zfs": {Magic: zfsMagic}, "ufs": {Name: "ufs"}, "0x12345": {Magic: 0x12345}, "unknown": {},
	} {
		if got := fs.String(); got != want {
			t.Errorf("%#v is %q, want %q", fs, got, want)
		}
	}
}

// inForce reads settings of a connection without the code under test.
func inForce(t *testing.T, c *sqlite.Conn) map[string]string {
	t.Helper()
	m := make(map[string]string)
	for _, name := range []string{"page_size", "journal_mode", "wal_autocheckpoint", "journal_size_limit",
		"synchronous", "cache_size", "mmap_size", "busy_timeout"} {
		rows, err := query(c, "PRAGMA "+name)
		if err != nil || len(rows) != 1 {
			t.Fatal(name, rows, err)
		}
		m[name] = rows[0][0]
	}
	return m
}

// TestSettings: what is in force on both connections, what the log line says and
// what the metrics say are the same.
func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name      string
		o         Options
		cacheSize string
		sync      string
		level     string
		fs        string
	}{
		{"defaults", Options{Statfs: ext4}, "-1048576", "1", "INFO", "ext4"},
		{"ZFS", Options{Statfs: func(string) (FSType, error) { return FSType{Magic: zfsMagic}, nil }}, "-1048576", "0", "INFO", "zfs"},
		{"statfs fails", Options{Statfs: func(string) (FSType, error) { return FSType{}, errOther }}, "-1048576", "1", "WARN", "unknown"},
		{"small page cache", Options{Statfs: ext4, PageCache: 2 << 20}, "-2048", "1", "INFO", "ext4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var line bytes.Buffer
			metrics := prometheus.NewPedanticRegistry()
			tt.o.Logger = slog.New(slog.NewJSONHandler(&line, nil))
			tt.o.Metrics = metrics
			db := openTest(t, filepath.Join(t.TempDir(), "cache.db"), tt.o)
			want := map[string]string{"page_size": "4096", "journal_mode": "wal", "wal_autocheckpoint": "0", "journal_size_limit": "-1",
				"synchronous": tt.sync, "cache_size": tt.cacheSize, "mmap_size": "0", "busy_timeout": "0"}
			for i, c := range []*conn{&db.main, &db.aside} {
				got := inForce(t, c.c)
				for name := range want {
					if got[name] != want[name] {
						t.Errorf("connection %d: %s is %s, want %s", i, name, got[name], want[name])
					}
				}
			}

			var logged map[string]any
			if err := json.Unmarshal(line.Bytes(), &logged); err != nil { // fails for a second line
				t.Fatalf("log %q: %v", line.String(), err)
			}
			sync := map[string]string{"0": "off", "1": "normal"}[tt.sync]
			for name, v := range map[string]any{"level": tt.level, "page_size": "4096", "journal_mode": "wal", "wal_autocheckpoint": "0",
				"synchronous": sync, "cache_size": tt.cacheSize, "filesystem": tt.fs, "created": true, "path": db.path} {
				if logged[name] != v {
					t.Errorf("log line says %s=%v, want %v", name, logged[name], v)
				}
			}

			exported := gathered(t, metrics)
			if exported["daybook_cache_info filesystem="+tt.fs+" journal_mode=wal"] != 1 {
				t.Errorf("no daybook_cache_info for %s", tt.fs)
			}
			for name, v := range want {
				if name == "journal_mode" || name == "busy_timeout" {
					continue
				}
				if got, ok := exported["daybook_cache_pragma pragma="+name]; !ok || strconv.FormatFloat(got, 'f', -1, 64) != v {
					t.Errorf("daybook_cache_pragma of %s is %v, want %s", name, got, v)
				}
			}
		})
	}
}

// TestApplyReadsBack: a setting that SQLite does not take is an error.
func TestApplyReadsBack(t *testing.T) {
	db := newTest(t)
	for _, p := range []pragma{{"journal_mode", "nonsense"}, {"synchronous", "7"}, {"no_such_pragma", "1"}} {
		if got, err := apply(db.aside.c, []pragma{p}); err == nil {
			t.Errorf("%v: in force is %v", p, got)
		}
	}
}

// TestOtherPageSize: an existing cache keeps its page size and is used, with a
// hint how to change it.
func TestOtherPageSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	mustExec(t, outsider(t, path), "PRAGMA page_size = 8192", schema)
	var line bytes.Buffer
	db := openTest(t, path, Options{Logger: slog.New(slog.NewTextHandler(&line, nil))})
	if got := inForce(t, db.main.c)["page_size"]; got != "8192" {
		t.Errorf("page size %s", got)
	}
	for _, want := range []string{"level=WARN", "page_size=8192", "VACUUM", "created=false"} {
		if !strings.Contains(line.String(), want) {
			t.Errorf("log line without %s: %s", want, line.String())
		}
	}
	mustPut(t, db, numbered(1))
	wantHit(t, db, numbered(1))
}

// TestOpenRefuses: what is not a dedup cache is refused with ErrFormat and advice, and
// left as it is.
func TestOpenRefuses(t *testing.T) {
	const otherRows = `CREATE TABLE cache256 (key BLOB PRIMARY KEY, timestamp INTEGER NOT NULL, leaf_index INTEGER NOT NULL) STRICT`
	for _, tt := range []struct {
		name, want string
		sql        []string
		content    string
	}{
		{name: "text", content: strings.Repeat("not a database\n", 100), want: "not a database"},
		{name: "short text", content: "hello", want: "not a database"},
		{name: "zeroed", content: strings.Repeat("\x00", 8192), want: "not a database"},
		{name: "other program", sql: []string{"CREATE TABLE moz_places (id INTEGER)"}, want: `"moz_places"`},
		{name: "lock database", sql: []string{"CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT"}, want: `"checkpoints"`},
		{name: "other columns", sql: []string{"CREATE TABLE cache256 (key BLOB PRIMARY KEY, leaf_index INTEGER NOT NULL) WITHOUT ROWID, STRICT"}, want: "has columns"},
		{name: "columns in another order", sql: []string{"CREATE TABLE cache256 (key BLOB PRIMARY KEY, leaf_index INTEGER NOT NULL, timestamp INTEGER NOT NULL) WITHOUT ROWID, STRICT"}, want: "has columns"},
		{name: "null allowed", sql: []string{"CREATE TABLE cache256 (key BLOB PRIMARY KEY, timestamp INTEGER, leaf_index INTEGER NOT NULL) WITHOUT ROWID, STRICT"}, want: "has columns"},
		{name: "no key", sql: []string{"CREATE TABLE cache256 (key BLOB NOT NULL, timestamp INTEGER NOT NULL, leaf_index INTEGER NOT NULL) STRICT"}, want: "has columns"},
		{name: "with rowid", sql: []string{otherRows}, want: "WITHOUT ROWID"},
		{name: "not strict", sql: []string{strings.Replace(schema, ", STRICT", "", 1)}, want: "STRICT"},
		{name: "a view", sql: []string{"CREATE TABLE t (key, timestamp, leaf_index)", "CREATE VIEW cache256 AS SELECT * FROM t"}, want: `"t"`},
	} {
		path := filepath.Join(t.TempDir(), "cache.db")
		if tt.sql != nil {
			c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, c, tt.sql...)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, Options{Create: true})
		if err == nil || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: Open = %v, %v, want ErrFormat with %q and advice", tt.name, db, err, tt.want)
		}
		sameFile(t, path, before)
	}
}

// TestOpenAbsent: nothing is made unless asked for.
func TestOpenAbsent(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent.db"): "was not asked for",
		empty:                           "was not asked for",
		filepath.Join(dir, "no", "such", "folder.db"): "no such file or directory",
	} {
		if db, err := Open(path, Options{}); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open = %v, %v, want %v with %q", db, err, fs.ErrNotExist, want)
		}
	}
	sameFile(t, empty, nil)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files left: %v, %v", entries, err)
	}
	// A file of no bytes is what a cut-short creation leaves.
	db := openTest(t, empty, Options{})
	mustPut(t, db, numbered(1))
	wantHit(t, db, numbered(1))
}

func TestOpenOddPaths(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling.db")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", dir, filepath.Join(dir, "dangling.db"), filepath.Join(dir, "no", "such", "folder.db")} {
		if db, err := Open(path, Options{Create: true}); err == nil {
			t.Errorf("Open(%q) succeeded", path)
			_ = db.Close()
		}
	}
	// Relative ones, too, are files, whatever SQLite makes of such names.
	t.Chdir(dir)
	for _, name := range []string{":memory:", "file:a?mode=memory", "with space%20.db"} {
		if err := openTest(t, name, Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		if fileSize(t, filepath.Join(dir, name)) == 0 {
			t.Errorf("%q: nothing on disk", name)
		}
	}
}

// TestSymlink: the filesystem that counts is the one the database is on.
func TestSymlink(t *testing.T) {
	real, links := t.TempDir(), t.TempDir()
	if err := openTest(t, filepath.Join(real, "cache.db"), Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(links, "link.db")
	if err := os.Symlink(filepath.Join(real, "cache.db"), link); err != nil {
		t.Fatal(err)
	}
	asked := ""
	db := openTest(t, link, Options{Statfs: func(dir string) (FSType, error) {
		asked = dir
		return FSType{}, nil
	}})
	want, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	if asked != want || filepath.Dir(db.path) != want {
		t.Errorf("statfs of %q, want %q", asked, want)
	}
}

func TestOptionsRange(t *testing.T) {
	for _, o := range []Options{{PageCache: -1}, {PageCache: 1}, {PageCache: 1 << 62}, {BusyTimeout: -1}, {ReaderTimeout: -1}, {ReaderTimeout: 1}} {
		o.Create = true
		if db, err := Open(filepath.Join(t.TempDir(), "cache.db"), o); err == nil {
			t.Errorf("%+v was accepted", o)
			_ = db.Close()
		}
	}
}

// TestMetrics: each outcome moves its own counter and no other; errors are not misses.
func TestMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	path := filepath.Join(t.TempDir(), "cache.db")
	db := openTest(t, path, Options{Metrics: r})
	mustPut(t, db, batch(0, 3)...)
	wantHit(t, db, numbered(0))
	wantHit(t, db, numbered(1))
	wantMiss(t, db, numbered(9).Key)
	w := mustCheckpoint(t, db)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := db.Get(cancelled, numbered(0).Key); err == nil {
		t.Error("cancelled Get succeeded")
	}
	mustExec(t, db.main.c, "DROP TABLE cache256")
	_ = wantError(t, db, numbered(0).Key)
	if err := db.Put(t.Context(), batch(0, 3)); err == nil {
		t.Error("Put without a table succeeded")
	}
	if _, err := Open(path, Options{Metrics: r}); err == nil {
		t.Error("two caches share one registry")
	}
	for name, want := range map[string]float64{
		`daybook_cache_gets_total result=hit`:               2,
		`daybook_cache_gets_total result=miss`:              1,
		`daybook_cache_errors_total op=get`:                 1,
		`daybook_cache_errors_total op=put`:                 1,
		`daybook_cache_errors_total op=wal_checkpoint`:      0,
		`daybook_cache_operation_seconds op=get`:            5,
		`daybook_cache_operation_seconds op=put`:            2,
		`daybook_cache_operation_seconds op=wal_checkpoint`: 1,
		`daybook_cache_records_total`:                       3,
		`daybook_cache_wal_busy_total`:                      0,
		`daybook_cache_wal_frames`:                          float64(w.Frames),
		`daybook_cache_wal_checkpointed_frames`:             float64(w.Checkpointed),
		`daybook_cache_wal_bytes`:                           float64(fileSize(t, path+"-wal")),
		`daybook_cache_size_bytes`:                          float64(fileSize(t, path)),
	} {
		if got, ok := gathered(t, r)[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if left := gathered(t, r); len(left) != 0 {
		t.Errorf("left after Close: %v", left)
	}
}

// gathered returns the registry's values, for histograms the count.
func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]float64)
	for _, f := range families {
		for _, v := range f.GetMetric() {
			name := f.GetName()
			for _, l := range v.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			m[name] = v.GetCounter().GetValue() + v.GetGauge().GetValue() + float64(v.GetHistogram().GetSampleCount())
		}
	}
	return m
}
