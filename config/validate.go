package config

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mmd is the maximum merge delay of a Static CT log (Chrome CT log policy). A
// log cannot keep it with rounds that come more seldom.
const mmd = time.Minute

// leastRootsInterval spares those who serve root lists for free.
const leastRootsInterval = time.Minute

// leastRoundsSize is the least size of the files of round records.
const leastRoundsSize Size = 1 << 20

// validate finds what is wrong between values that are right one by one. It
// does not look at keys that could not be read.
func (d *decoder) validate(c *Config) {
	d.validateListeners(c)
	if c.ShutdownTimeout <= 0 {
		d.fail("shutdown_timeout", "must be more than 0")
	}
	if time.Duration(c.RootsInterval) < leastRootsInterval {
		d.fail("roots_interval", "%v is too short: write at least %v; the lists change every few weeks", c.RootsInterval, Duration(leastRootsInterval))
	}
	for i := range c.Logs {
		d.validateLog(&c.Logs[i], fmt.Sprintf("logs[%d]", i))
	}
	d.validateNames(c)
	d.validateFiles(c)
	d.validatePrefixes(c)
}

// fail notes a problem of a key, unless one was noted before about it or about
// something around it.
func (d *decoder) fail(key, format string, args ...any) {
	for k := key; k != ""; k = parent(k) {
		if d.bad[k] {
			return
		}
	}
	d.bad[key] = true
	d.problems = append(d.problems, Problem{d.file, line(d.lines, key), key, fmt.Sprintf(format, args...)})
}

// where names another key of the file, with its line.
func (d *decoder) where(key string) string {
	return fmt.Sprintf("%s (line %d)", key, line(d.lines, key))
}

func (d *decoder) validateListeners(c *Config) {
	type listener struct{ key, address string }
	var all []listener
	for i, address := range c.Listen {
		all = append(all, listener{fmt.Sprintf("listen[%d]", i), address})
	}
	all = append(all, listener{"admin.listen", c.Admin.Listen})
	for i, l := range all {
		host, port, err := net.SplitHostPort(l.address)
		if err != nil {
			d.fail(l.key, "%q is no address: write host:port, like 127.0.0.1:8080 or :8080", l.address)
			continue
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil {
			d.fail(l.key, "%q is no port: write a number up to 65535", port)
		} else if n == 0 {
			continue // any free port: never the same twice
		}
		if strings.ContainsAny(host, " /") {
			d.fail(l.key, "%q is no host", host)
		}
		for _, other := range all[:i] {
			if other.address == l.address {
				d.fail(l.key, "is the same address as %s: choose another", d.where(other.key))
			}
		}
	}
}

var logName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (d *decoder) validateLog(l *Log, key string) {
	if l.Name != "" && !logName.MatchString(l.Name) {
		d.fail(key+".name", "%q is not possible: use lower-case letters, digits, - and _, at most 64", l.Name)
	}
	if l.Lock == nil && !d.bad["lock"] && !d.bad["lock.path"] {
		d.fail(key+".lock", "is missing, and there is none at the top of the file: write for example `lock: {path: lock.db}` in one of the places")
	}
	switch interval := time.Duration(l.Interval); {
	case interval <= 0:
		d.fail(key+".interval", "must be more than 0, like 200ms")
	case interval > mmd/2:
		d.fail(key+".interval", "%v is too long: an entry must be in the tree within %v, and a round takes time, too", l.Interval, Duration(mmd))
	}
	if l.PoolSize < 0 {
		d.fail(key+".pool_size", "%d is negative: write a number of entries, like 150, or 0 for no limit", l.PoolSize)
	}
	if l.DuplicateRate < 0 {
		d.fail(key+".duplicate_rate", "%d is negative: write a number per second, like 50, or 0 for no limit", l.DuplicateRate)
	}
	d.validateExempt(l.DuplicateExempt, key+".duplicate_exempt")
	if l.Cache.PageCache <= 0 {
		d.fail(key+".cache.page_cache", "must be more than 0, like 1GiB")
	}
	if r := l.Roots; len(r.Files)+len(r.CCADB) == 0 && !r.MergeDelayMonitor && !d.bad[key+".roots.files"] && !d.bad[key+".roots.ccadb"] {
		d.fail(key+".roots", "names no roots: write for example `roots: {files: [roots.pem]}`")
	}
	d.validateStorage(&l.Storage, key+".storage.")
	if z := l.Rounds.MaxSize; z > 0 && z < leastRoundsSize {
		d.fail(key+".rounds.max_size", "%v is too small: write at least %v, or 0B for no files", z, leastRoundsSize)
	}
	if w := l.Window; w != nil && !w.Start.IsZero() && !w.Limit.IsZero() && !w.Start.Before(w.Limit.Time) {
		d.fail(key+".window", "the limit %v is not after the start %v: no certificate would be taken", w.Limit, w.Start)
	}
}

// mostExempt bounds what a duplicate costs, and how many series of metrics
// there are.
const mostExempt = 100

func (d *decoder) validateExempt(networks []Network, key string) {
	if len(networks) > mostExempt {
		d.fail(key, "has %d networks: write at most %d, or 0 for duplicate_rate, which exempts everybody", len(networks), mostExempt)
	}
	for i, n := range networks {
		key := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case n.Addr().Is4In6():
			d.fail(key, "%v is an IPv4 address within IPv6: write it as IPv4, like 192.0.2.0/24", n)
		case n.Addr().Is6() && n.Bits() > 64:
			whole, _ := n.Addr().Prefix(64) // 64 is possible for any IPv6 address
			d.fail(key, "%v is a part of an IPv6 /64, which counts as one submitter: write %v", n, whole)
		case slices.Contains(networks[:i], n):
			d.fail(key, "%v is here twice: remove one", n)
		}
	}
}

// mostScrubRate is more than a disk can read.
const mostScrubRate = 100_000

func (d *decoder) validateStorage(s *Storage, key string) {
	if s.WarnFree < s.MinFree {
		d.fail(key+"warn_free", "%v is less than min_free, which is %v: write more, so that the warning comes before entries are refused", s.WarnFree, s.MinFree)
	}
	if s.MinFreeInodes < 0 {
		d.fail(key+"min_free_inodes", "%d is negative: write a number of files, like 10000, or 0 for no floor", s.MinFreeInodes)
	}
	if s.ScrubRate < 0 || s.ScrubRate > mostScrubRate {
		d.fail(key+"scrub_rate", "%d is not possible: write a number of tiles a second, like 1, or 0 for none", s.ScrubRate)
	}
}

func (d *decoder) validateNames(c *Config) {
	seen := make(map[string]string)
	for i, l := range c.Logs {
		key := fmt.Sprintf("logs[%d].name", i)
		if first, ok := seen[l.Name]; ok && l.Name != "" {
			d.fail(key, "%q is also the name of %s: choose another", l.Name, d.where(first))
		} else {
			seen[l.Name] = key
		}
	}
}

// use is one file or directory that the configuration names.
type use struct {
	key, path string
	kind      string // key, storage, lock, cache, rounds
	log       int
}

// files returns the private files of all logs. Locks that are inherited count
// once, under the key that names them.
func (c *Config) files() []use {
	var uses []use
	if c.Lock != nil {
		uses = append(uses, use{"lock.path", c.Lock.Path, "lock", -1})
	}
	for i, l := range c.Logs {
		key := fmt.Sprintf("logs[%d].", i)
		uses = append(uses,
			use{key + "key", l.Key, "key", i},
			use{key + "storage.directory", l.Storage.Directory, "storage", i},
			use{key + "cache.path", l.Cache.Path, "cache", i},
			use{key + "rounds.path", l.Rounds.Path, "rounds", i})
		if l.Lock != nil && (c.Lock == nil || l.Lock.Path != c.Lock.Path) {
			uses = append(uses, use{key + "lock.path", l.Lock.Path, "lock", i})
		}
	}
	return uses
}

// validateFiles refuses two uses of one file. Only a lock database may be
// shared between logs.
func (d *decoder) validateFiles(c *Config) {
	// A file that follows from the cache's has no faults of its own.
	uses := slices.DeleteFunc(c.files(), func(u use) bool { return u.kind == "rounds" && d.lines[u.key] == 0 })
	for i, u := range uses {
		for j, other := range uses {
			switch {
			case i == j || u.path == "" || other.path == "":
			case i > j && u.path == other.path && (u.kind != "lock" || other.kind != "lock"):
				d.fail(u.key, "is the same file as %s: each needs its own", d.where(other.key))
			case other.kind != "storage" || !inside(u.path, other.path):
			case u.kind == "storage":
				d.fail(u.key, "is inside %s: put the directories side by side", d.where(other.key))
			case u.kind == "key":
				d.fail(u.key, "the private key is inside %s, which is there to be published: move it out", d.where(other.key))
			}
		}
	}
}

// inside reports whether a path is below a directory.
func inside(path, directory string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(directory, string(filepath.Separator))+string(filepath.Separator))
}

// place is one prefix of one log.
type place struct {
	key    string
	prefix Prefix
	log    int
	names  []string // what the interface puts right below its prefix
}

func (d *decoder) validatePrefixes(c *Config) {
	var places []place
	for i, l := range c.Logs {
		key := fmt.Sprintf("logs[%d].", i)
		for _, p := range []place{
			{key + "submission_prefix", l.SubmissionPrefix, i, []string{"ct"}},
			{key + "monitoring_prefix", l.MonitoringPrefix, i, []string{"checkpoint", "tile", "issuer", "log.v3.json", "_roots.pem"}},
		} {
			if p.prefix != (Prefix{}) && (p.key == key+"submission_prefix" || d.lines[p.key] > 0) {
				places = append(places, p)
			}
		}
	}
	for i, p := range places {
		for _, other := range places[:i] {
			switch {
			case p.log != other.log && p.prefix.Same(other.prefix.Prefix):
				d.fail(p.key, "is the same as %s: two logs cannot share a prefix", d.where(other.key))
			case p.log != other.log && strings.EqualFold(p.prefix.Origin(), other.prefix.Origin()):
				d.fail(p.key, "differs from %s only in its scheme or in case: two logs cannot share an origin", d.where(other.key))
			default:
				d.validateNested(p, other)
				d.validateNested(other, p)
			}
		}
	}
}

// validateNested refuses a prefix in the middle of the URLs of another one.
func (d *decoder) validateNested(inner, outer place) {
	if inner.prefix.HostPort() != outer.prefix.HostPort() {
		return
	}
	rest, ok := strings.CutPrefix(inner.prefix.Path, outer.prefix.Path)
	if !ok || rest == "" {
		return
	}
	first, _, _ := strings.Cut(rest, "/")
	for _, name := range outer.names {
		if first == name {
			d.fail(inner.key, "is inside %s, which has its own %s there: choose another path", d.where(outer.key), name)
		}
	}
}
