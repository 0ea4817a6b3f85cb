package crash

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// templates are logs that many tests take a copy of: one of two full tiles and
// a part, stopped in order, and the same log killed after the commit of a
// further round, so with a staging bundle that recovery has to apply.
var templates struct {
	once            sync.Once
	stopped, killed *subject
	// What they have published.
	size, killedSize int64
}

func fork(t testing.TB, killed bool) *subject {
	t.Helper()
	templates.once.Do(func() {
		dir := filepath.Join(binaries, "stopped")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s := subjectOf(t, newLog(t, dir, layout{}))
		p := s.serve(t, how{})
		s.fill(t, p, 560)
		s.sound(t, p)
		p.stop(t)
		k := s.fork(t, filepath.Join(binaries, "killed"))
		k.killAt(t, "new.commit:after:3")
		templates.stopped, templates.killed = s, k
		templates.size, templates.killedSize = s.inFile(t).Tree.N, k.inFile(t).Tree.N
		if templates.size <= 512 || templates.killedSize >= 768 {
			t.Fatalf("the templates have %d and %d entries", templates.size, templates.killedSize)
		}
	})
	switch {
	case templates.killed == nil:
		t.Fatal("there are no templates: see the test that came first")
	case killed:
		return templates.killed.fork(t, "")
	}
	return templates.stopped.fork(t, "")
}

// flip flips a bit of a file; a negative one counts from the end.
func (l *logDir) flip(t testing.TB, name string, bit int) {
	t.Helper()
	b := l.read(t, name)
	if bit < 0 {
		bit += 8 * len(b)
	}
	b[bit/8] ^= 1 << (bit % 8)
	l.write(t, name, b)
}

// swap exchanges the content of two files.
func (l *logDir) swap(t testing.TB, one, other string) {
	t.Helper()
	a, b := l.read(t, one), l.read(t, other)
	l.write(t, one, b)
	l.write(t, other, a)
}

// only returns the one file that matches a pattern.
func (l *logDir) only(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(l.at(pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %d files, %v", pattern, len(found), err)
	}
	name, err := filepath.Rel(l.dir, found[0])
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// bundles returns the staging bundles, oldest first.
func (l *logDir) bundles(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(l.at("data/staging/*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("there are no bundles: %v", err)
	}
	var names []string
	size := func(name string) (n int64) {
		if _, err := fmt.Sscanf(filepath.Base(name), "%d-", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, path := range found {
		name, err := filepath.Rel(l.dir, path)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(size(a), size(b)) })
	return names
}

// newest returns the bundle that leads to the tree in the lock.
func (l *logDir) newest(t testing.TB) string {
	t.Helper()
	b := l.bundles(t)
	return b[len(b)-1]
}

// alone removes all bundles but the newest, so that nothing else has what it
// continues.
func (s *subject) alone(t testing.TB) {
	t.Helper()
	b := s.bundles(t)
	s.remove(t, b[:len(b)-1]...)
}

// several makes sure that the tile which the newest bundle continues has a bundle,
// too, which it does if the rounds of the template were less than a second apart.
func (s *subject) several(t testing.TB) {
	t.Helper()
	if len(s.bundles(t)) < 2 {
		t.Skip("SKIPPED: this machine was too slow to leave more than one bundle")
	}
}

// The objects of the template. Tile 2 is on its right edge.
func edge(level string) string { return tilePath(level, 2, templates.size-512) }
func full(level string) string { return tilePath(level, 0, 256) }

// base is the tile on the right edge of the tree published by the killed
// template, which its bundle continues.
func base(level string) string {
	return tilePath(level, 2, templates.killedSize-512)
}

// spoiled is a log that something was done to while it did not run.
type spoiled struct {
	name   string
	killed bool // rather than stopped
	spoil  func(t *testing.T, s *subject)

	refused string // what the start says, if the log refuses to start

	says    string // else: a line of the start
	monitor string // what a monitor finds, "" for nothing
	mended  bool   // and no more once the log has grown
}

func (c spoiled) run(t *testing.T) {
	s := fork(t, c.killed)
	c.spoil(t, s)
	if c.refused != "" {
		if message := s.refuses(t, how{}); !strings.Contains(message, c.refused) {
			t.Fatalf("refused with\n%s\nwant\n%s", message, c.refused)
		} else {
			t.Log(message)
		}
		return
	}
	p := s.serve(t, how{})
	if c.says != "" {
		t.Log(p.says(t, c.says))
	}
	c.check(t, s, p)
	if object, _, _ := strings.Cut(c.monitor, ":"); object != "" && !c.mended {
		// The log finds it by itself, too.
		object, _, _ = strings.Cut(object, ",")
		t.Log(p.says(t, `"object":"`+object+`"`))
	}
	s.fill(t, p, 40)
	if c.mended {
		c.monitor = ""
	}
	c.check(t, s, p)
	p.stop(t)
}

func (c spoiled) check(t *testing.T, s *subject, p *process) {
	t.Helper()
	if c.monitor == "" {
		s.sound(t, p)
		return
	}
	if _, err := s.verify(t.Context(), p); err == nil || !strings.Contains(err.Error(), c.monitor) {
		t.Fatalf("a monitor says\n%v\nwant\n%s", err, c.monitor)
	} else {
		t.Log(err)
	}
}

func TestFlippedBit(t *testing.T) {
	t.Parallel()
	flip := func(name func() string, bit int) func(*testing.T, *subject) {
		return func(t *testing.T, s *subject) { s.flip(t, name(), bit) }
	}
	is := func(name string) func() string { return func() string { return name } }
	of := func(place func(string) string, level string) func() string {
		return func() string { return place(level) }
	}
	for _, c := range []spoiled{
		{name: "hash tile on the right edge", spoil: flip(of(edge, "0"), 100), refused: "verifying the right edge"},
		{name: "hash tile of level 1", spoil: flip(is(tilePath("1", 0, 2)), 100), refused: "verifying the right edge"},
		{name: "full hash tile", spoil: flip(of(full, "0"), 100), monitor: "tile/0/000: "},
		{name: "data tile on the right edge", spoil: flip(of(edge, "data"), 5000), refused: "verifying the right edge"},
		{name: "full data tile", spoil: flip(of(full, "data"), 5000), monitor: "tile/data/000: "},
		{name: "names tile on the right edge", spoil: flip(of(edge, "names"), 5000), refused: "verifying the right edge"},
		{name: "full names tile", spoil: flip(of(full, "names"), 5000), monitor: "tile/names/000: "},
		{name: "checkpoint, root", spoil: flip(is("data/checkpoint"), 8*30), refused: "the published checkpoint is not this log's"},
		{name: "log.v3.json", spoil: flip(is("data/log.v3.json"), 100)},
		{name: "_roots.pem", spoil: flip(is("data/_roots.pem"), 1000)},
		{name: "seed", spoil: flip(is("seed.bin"), 0), refused: "is it the right key"},
		{name: "bundle", killed: true, spoil: func(t *testing.T, s *subject) { s.flip(t, s.newest(t), 2000) }, refused: "checksum"},
		{name: "base of the bundle", killed: true, spoil: func(t *testing.T, s *subject) {
			s.alone(t)
			s.flip(t, base("data"), 5000)
		}, refused: "applying the staging bundle"},
		{name: "tile that has a bundle", killed: true, spoil: func(t *testing.T, s *subject) {
			s.several(t)
			s.flip(t, base("data"), 5000)
		}, refused: "immutable object exists with different content"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestDeletedObject(t *testing.T) {
	t.Parallel()
	gone := func(name func() string) func(*testing.T, *subject) {
		return func(t *testing.T, s *subject) { s.remove(t, name()) }
	}
	is := func(name string) func() string { return func() string { return name } }
	of := func(place func(string) string, level string) func() string {
		return func() string { return place(level) }
	}
	for _, c := range []spoiled{
		{name: "hash tile on the right edge", spoil: gone(of(edge, "0")), refused: "verifying the right edge"},
		{name: "full hash tile", spoil: gone(of(full, "0")), monitor: "tile/0/000: "},
		{name: "data tile on the right edge", spoil: gone(of(edge, "data")), refused: "verifying the right edge"},
		{name: "full data tile", spoil: gone(of(full, "data")), monitor: "tile/data/000: "},
		{name: "names tile on the right edge", spoil: gone(of(edge, "names")), monitor: "tile/names/002.p/", mended: true},
		{name: "full names tile", spoil: gone(of(full, "names")), monitor: "tile/names/000: "},
		{name: "checkpoint", spoil: gone(is("data/checkpoint")), refused: "is this the right storage"},
		{name: "log.v3.json", spoil: gone(is("data/log.v3.json"))},
		{name: "_roots.pem", spoil: gone(is("data/_roots.pem"))},
		{name: "bundle", killed: true, spoil: gone(is("data/staging")), refused: "is gone: was the storage restored from a backup?"},
		{name: "base of the bundle", killed: true, spoil: func(t *testing.T, s *subject) {
			s.alone(t)
			s.remove(t, base("data"))
		}, refused: "is gone"},
		{name: "tile that has a bundle", killed: true, spoil: func(t *testing.T, s *subject) {
			s.several(t)
			s.remove(t, base("data")) // it is written again
		}},
		{name: "storage directory", spoil: gone(is("data")), refused: "mount it"},
		{name: "all of the storage", spoil: func(t *testing.T, s *subject) {
			s.remove(t, "data")
			if err := os.Mkdir(s.at("data"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, refused: "is this the right storage"},
		{name: "lock", spoil: gone(is("lock.db")), refused: "the lock database does not exist"},
		{name: "seed", spoil: gone(is("seed.bin")), refused: "reading the log's key"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestSwappedObjects(t *testing.T) {
	t.Parallel()
	for _, c := range []spoiled{
		{name: "full hash tiles", spoil: func(t *testing.T, s *subject) { s.swap(t, full("0"), tilePath("0", 1, 256)) }, monitor: "tile/0/000: "},
		{name: "full data tiles", spoil: func(t *testing.T, s *subject) { s.swap(t, full("data"), tilePath("data", 1, 256)) }, monitor: "tile/data/000, entry 0: "},
		{name: "hash tiles, full and on the edge", spoil: func(t *testing.T, s *subject) { s.swap(t, full("0"), edge("0")) }, refused: "verifying"},
		{name: "data tiles, full and on the edge", spoil: func(t *testing.T, s *subject) { s.swap(t, full("data"), edge("data")) }, refused: "verifying"},
		{name: "names tiles, full and on the edge", spoil: func(t *testing.T, s *subject) { s.swap(t, full("names"), edge("names")) }, refused: "verifying"},
	} {
		t.Run(c.name, c.run)
	}
}

// TestDeletedIssuer: an issuer is written again with the first entry that needs
// it after a start.
func TestDeletedIssuer(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	issuer := s.only(t, fmt.Sprintf("data/issuer/%x", sha256.Sum256(chains.CA.Issuers()[0])))
	s.remove(t, issuer)
	p := s.serve(t, how{})
	if _, err := s.verify(t.Context(), p); err == nil || !strings.Contains(err.Error(), "issuer/") {
		t.Errorf("a monitor says %v", err)
	}
	s.fill(t, p, 1)
	s.sound(t, p)
}

// TestDamagedIssuer: an issuer with other bytes is written again with the first
// entry that needs it, and with the round that recovery finishes.
func TestDamagedIssuer(t *testing.T) {
	t.Parallel()
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		s := fork(t, false)
		issuer := s.only(t, fmt.Sprintf("data/issuer/%x", sha256.Sum256(chains.CA.Issuers()[0])))
		good := s.read(t, issuer)
		s.flip(t, issuer, 1000)
		p := s.serve(t, how{})
		s.fill(t, p, 20)
		t.Log(p.says(t, "an issuer is damaged and is written again"))
		if !bytes.Equal(s.read(t, issuer), good) {
			t.Error("the issuer is not what it was")
		}
		if n := p.metric(t, "daybook_issuers_mended_total"); n != 1 {
			t.Errorf("%v issuers were mended", n)
		}
		s.sound(t, p)
	})
	t.Run("found by recovery", func(t *testing.T) {
		t.Parallel()
		s := fork(t, false)
		s.killAt(t, "new.commit:after:1")
		issuer := s.only(t, fmt.Sprintf("data/issuer/%x", sha256.Sum256(chains.CA.Issuers()[0])))
		good := s.read(t, issuer)
		s.flip(t, issuer, 1000)
		p := s.serve(t, how{})
		t.Log(p.says(t, "an issuer is damaged and is written again"))
		if !bytes.Equal(s.read(t, issuer), good) {
			t.Error("the issuer is not what it was")
		}
		s.Resubmit(t.Context(), p.Addr, 50)
		s.sound(t, p)
	})
}
