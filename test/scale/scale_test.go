package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

// small are options with which all parts are done in seconds.
func small(t *testing.T, out io.Writer, arguments ...string) *options {
	t.Helper()
	o, err := parse(append([]string{"-dir", filepath.Join(t.TempDir(), "scale"), "-rows", "5e3", "-sizes", "1e3,7e4", "-rounds", "3",
		"-time", "1ms", "-connections", "20", "-filter", "1.5"}, arguments...))
	if err != nil {
		t.Fatal(err)
	}
	o.out, o.log = out, t.Output()
	return o
}

// TestRun measures everything once, at a small size.
func TestRun(t *testing.T) {
	daybook := filepath.Join(t.TempDir(), "daybook")
	if out, err := exec.Command("go", "build", "-o", daybook, "../../cmd/daybook").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	var out bytes.Buffer
	profile := filepath.Join(t.TempDir(), "profile")
	o := small(t, &out, "-daybook", daybook, "-parts", "cache,rounds,connections,profile", "-profile", profile, "-clients", "20", "-load", "1s")
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	figure := `[0-9.]+ (us|ms|s)( / [0-9.]+ (us|ms|s)| \[[0-9.]+ (us|ms|s)\])`
	for _, want := range []string{
		`\| 5,000 \| [0-9.]+ KiB \| 2.0 MiB \| nothing \| none \| ` + figure + ` \| ` + figure + ` \| ` + figure + ` \| ` + figure + ` \| ` + figure + ` \| [0-9].[0-9]+ frames; [0-9.]+ / [0-9.]+ kB \|`,
		`\| 5,000 \| [0-9.]+ KiB \| 2.0 MiB \| nothing \| 7.3 KiB \| `,
		`\| 5,000 \| [0-9.]+ KiB \| 1024 MiB \| inner pages \| none \| `,
		`\| 5,000 \| [0-9.]+ KiB \| 1024 MiB \| all that fits \| none \| `,
		`\| tree of \| 1,000 \| 70,000 \|`,
		`\| round \| ` + figure + ` \| ` + figure + ` \|`,
		`\| stage \| [0-9.]+ (us|ms|s) \| [0-9.]+ (us|ms|s) \|`,
		`\| 20 \| [0-9.]+ MiB \| -?[0-9.]+ \| -?[0-9.]+ \| ` + figure + ` \|`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("output lacks %s:\n%s", want, &out)
		}
	}
	if b, err := os.ReadFile(profile); err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		t.Errorf("the profile is not compressed: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(o.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"cache-1000.db", "cache-5000.db", "cache-70000.db"}; !slices.Equal(left, want) {
		t.Errorf("left behind: %v, want %v", left, want)
	}
}

// TestDatabaseIsKept: a second run measures the very file of the first.
func TestDatabaseIsKept(t *testing.T) {
	var out bytes.Buffer
	o := small(t, &out, "-parts", "cache")
	var kept []byte
	for range 2 {
		if err := run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(o.dir, "cache-5000.db"))
		if err != nil {
			t.Fatal(err)
		}
		if kept != nil && !bytes.Equal(b, kept) {
			t.Error("the file has changed")
		}
		kept = b
	}
	if n := strings.Count(out.String(), "| 5,000 |"); n != 16 {
		t.Errorf("%d lines of 5,000 rows, want 8 of each run:\n%s", n, &out)
	}
}

// TestTree: a tree that is only an edge opens at any size, and an ordinary round
// goes on from there.
func TestTree(t *testing.T) {
	entries, err := makeEntries(tlog.TileWidth)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := newSigner()
	if err != nil {
		t.Fatal(err)
	}
	config := func() sequencer.Config {
		return sequencer.Config{Interval: time.Second, Signer: signer, Store: memory.NewStore(), Lock: memory.NewLock(), Cache: memory.NewCache()}
	}
	for _, n := range []int64{1, 255, 257, 65537, 1e7, 256*256*256 + 3, 1<<39 + 1<<20 + 77} {
		c := config()
		if err := makeTree(t.Context(), c, n, entries); err != nil {
			t.Errorf("%d: %v", n, err)
			continue
		}
		l, err := sequencer.Open(t.Context(), c)
		if err != nil {
			t.Errorf("%d: %v", n, err)
			continue
		}
		if got := l.Status().Tree.N; got != n {
			t.Errorf("tree of %d entries, want %d", got, n)
		}
	}
	for _, n := range []int64{0, 256, 1 << 20} {
		if err := makeTree(t.Context(), config(), n, entries); err == nil {
			t.Errorf("a tree of %d entries, whose last tile is full, was made", n)
		}
	}
}

// TestKeys: keys ascend and do not repeat, whatever the number of rows.
func TestKeys(t *testing.T) {
	for _, rows := range []int64{1, 2, 1000, 1e8} {
		last := tlog.Key{}
		for i := range min(rows, 10_000) {
			k := rowKey(i, rows)
			if i > 0 && bytes.Compare(last[:], k[:]) >= 0 {
				t.Fatalf("key %d of %d does not come after the one before", i, rows)
			}
			last = k
		}
	}
	first := rowKey(0, 100)
	if first[31] == 0 && first[30] == 0 {
		t.Error("the end of a key is zero")
	}
}

// TestFilter: what was added is never absent, and most of the rest is.
func TestFilter(t *testing.T) {
	const n = 50_000
	f := &filter{words: make([]uint64, n*12/64/blockWords*blockWords)} // 12 bits a key
	for i := range int64(n) {
		k := rowKey(i, n)
		f.add(&k)
	}
	for i := range int64(n) {
		if k := rowKey(i, n); !f.has(&k) {
			t.Fatalf("key %d was added and is said to be absent", i)
		}
	}
	wrong := 0
	for i := range uint64(n) {
		if k := freshKey(i); f.has(&k) {
			wrong++
		}
	}
	if share := float64(wrong) / n; share > 0.01 || share < 0.001 {
		t.Errorf("%.2f%% of other keys pass, want about 0.5%%", 100*share)
	}
}

func TestSamples(t *testing.T) {
	var s samples
	if got := s.String(); got != "-" {
		t.Errorf("no samples: %q", got)
	}
	for i := range 99 {
		s = append(s, time.Duration(99-i)*time.Microsecond)
	}
	if got := s.String(); got != "50.0 us [99.0 us]" {
		t.Errorf("99 samples: %q", got)
	}
	s = append(s, 2*time.Second)
	if got := s.String(); got != "50.0 us / 99.0 us" {
		t.Errorf("100 samples: %q", got)
	}
	for _, c := range []struct {
		d    time.Duration
		want string
	}{{0, "0.00 us"}, {1234, "1.23 us"}, {12345 * time.Microsecond, "12.3 ms"}, {123456 * time.Microsecond, "123 ms"}, {90 * time.Second, "90.0 s"}} {
		if got := short(c.d); got != c.want {
			t.Errorf("short(%d) = %q, want %q", c.d, got, c.want)
		}
	}
	if got := thousands(1234567) + " " + thousands(12) + " " + thousands(123456); got != "1,234,567 12 123,456" {
		t.Error(got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := table{head: []string{"a", "b"}}
	tab.add("1", "2")
	if err := tab.print(&out, "Text."); err != nil {
		t.Fatal(err)
	}
	if want := "Text.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ arguments, want string }{
		{"-rows 1.5", "no whole number"},
		{"-rows x", "no whole number"},
		{"-rows 1e11", "no whole number"},
		{"-sizes 0", "no whole number"},
		{"-rounds 0", "must be positive"},
		{"-filter -1", "must be positive"},
		{"-load 1ms", "must be positive"},
		{"more", `argument "more"`},
	} {
		if _, err := parse(strings.Fields(c.arguments)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.arguments, err, c.want)
		}
	}
	if err := run(t.Context(), small(t, io.Discard, "-parts", "cache,colour")); err == nil || !strings.Contains(err.Error(), `no part "colour"`) {
		t.Errorf("an unknown part: %v", err)
	}
}
