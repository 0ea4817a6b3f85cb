package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/internal/server/prefix"
)

// Host is what warnings need to know of the machine.
type Host struct {
	Now    time.Time
	Memory int64 // bytes of RAM; 0 if not known
	Stat   func(path string) (fs.FileInfo, error)
}

// ThisHost returns the machine that the program runs on.
func ThisHost() Host { return Host{Now: time.Now(), Memory: memory(), Stat: os.Stat} }

// Capacity is the number of new entries a second that a log can take,
// pool_size / interval; +Inf if the pool has no limit.
func (l *Log) Capacity() float64 {
	if l.PoolSize == 0 {
		return math.Inf(1)
	}
	return float64(l.PoolSize) / time.Duration(l.Interval).Seconds()
}

// Warnings returns what is possible but unusual, or not there yet, in a
// configuration that [Load] returned. It looks at files and changes nothing.
func (c *Config) Warnings(h Host) []Problem {
	w := &warner{c: c, host: h}
	w.top()
	for i := range c.Logs {
		key := fmt.Sprintf("logs[%d].", i)
		w.pace(&c.Logs[i], key)
		w.window(c.Logs[i].Window, key+"window")
		w.prefix(c.Logs[i].SubmissionPrefix, key+"submission_prefix")
		if c.Logs[i].MonitoringPrefix != c.Logs[i].SubmissionPrefix {
			w.prefix(c.Logs[i].MonitoringPrefix, key+"monitoring_prefix")
		}
		w.files(&c.Logs[i], key)
	}
	w.problems.sort()
	return w.problems
}

type warner struct {
	c        *Config
	host     Host
	problems Problems
}

func (w *warner) add(key, format string, args ...any) {
	p := Problem{w.c.file, line(w.c.lines, key), key, fmt.Sprintf(format, args...)}
	if !slices.Contains(w.problems, p) { // logs may share a lock
		w.problems = append(w.problems, p)
	}
}

func (w *warner) top() {
	if host, _, err := net.SplitHostPort(w.c.Admin.Listen); err == nil && !prefix.Loopback(host) {
		w.add("admin.listen", "%s can be reached from other machines: it has no access control and offers profiles of the process", w.c.Admin.Listen)
	}
	for i, n := range w.c.TrustedProxies {
		if n.Bits() == 0 {
			w.add(fmt.Sprintf("trusted_proxies[%d]", i), "%v believes every client about its own address: name the proxies only", n)
		}
	}
	var pages Size
	for i := range w.c.Logs {
		for range connections {
			pages += min(w.c.Logs[i].Cache.PageCache, math.MaxInt64-pages)
		}
	}
	if w.host.Memory > 0 && int64(pages) > w.host.Memory {
		w.add("logs", "the page caches of all connections may take %v together, the machine has %.1f GiB of memory: lower cache.page_cache", pages, float64(w.host.Memory)/(1<<30))
	}
}

// The bounds of what is usual. Below 10/s one CA is refused; above 10,000/s the
// signatures alone take more than a machine of today has.
const (
	usualCapacityLeast = 10
	usualCapacityMost  = 10_000
	usualIntervalLeast = 50 * time.Millisecond
	usualIntervalMost  = time.Second // submitters give up after about 2 s
	usualPageCache     = 64 << 20

	connections = 2 // of each cache, with a page cache each
)

func (w *warner) pace(l *Log, key string) {
	switch capacity := l.Capacity(); {
	case l.PoolSize == 0:
		w.add(key+"pool_size", "0 means no limit: in a flood rounds take longer and longer instead of refusing")
	case capacity < usualCapacityLeast || capacity > usualCapacityMost:
		w.add(key+"pool_size", "%d entries every %v are a capacity of %.4g/s, which is unusual", l.PoolSize, l.Interval, capacity)
	}
	switch interval := time.Duration(l.Interval); {
	case interval < usualIntervalLeast:
		w.add(key+"interval", "%v is short: every round costs several durable writes, and one that takes longer skips the next", l.Interval)
	case interval > usualIntervalMost:
		w.add(key+"interval", "%v is long: submitters give up after about 2s", l.Interval)
	}
	for i, n := range l.DuplicateExempt {
		switch exempt := fmt.Sprintf("%sduplicate_exempt[%d]", key, i); {
		case l.DuplicateRate == 0:
			w.add(exempt, "has no effect: duplicate_rate is 0, so nobody is limited")
		case n.Bits() == 0:
			w.add(exempt, "%v exempts everybody: name the networks that you know", n)
		}
	}
	if l.Storage.MinFree == 0 {
		w.add(key+"storage.min_free", "0B means no floor: on a full disk rounds fail, and the log may halt")
	}
	if l.Cache.PageCache < usualPageCache {
		w.add(key+"cache.page_cache", "%v is small: when the cache file grows, lookups wait for the disk", l.Cache.PageCache)
	}
}

func (w *warner) window(win *Window, key string) {
	switch {
	case win == nil:
		w.add(key, "is missing: certificates with any NotAfter are taken; public logs have a window")
	case win.Limit.After(win.Start.AddDate(1, 0, 1)):
		w.add(key, "is longer than a year: it makes a large log that lives long")
	case !win.Limit.After(w.host.Now):
		w.add(key, "has passed: only expired certificates are taken")
	}
}

// documentation are the domains that nobody can own (RFC 2606, RFC 6761).
var documentation = []string{"example", "example.com", "example.net", "example.org", "invalid", "test"}

func (w *warner) prefix(p Prefix, key string) {
	host := p.Hostname()
	if p.Scheme == "http" || p.Loopback() {
		w.add(key, "%v is of this machine alone: fit for development only", p)
	}
	for _, domain := range documentation {
		if host == domain || strings.HasSuffix(host, "."+domain) {
			w.add(key, "the domain %s is reserved for examples and tests: write your own host before the log is public", domain)
		}
	}
	if p.Host != strings.ToLower(p.Host) {
		w.add(key, "the host has upper-case letters, which stay in the origin: write it in lower case if the log is not created yet")
	}
}

const noRoots = "a new log does not start without it, unless other sources have roots"

func (w *warner) files(l *Log, key string) {
	lock := key + "lock.path"
	if w.c.lines[lock] == 0 {
		lock = "lock.path"
	}
	for _, f := range []struct{ key, path string }{{key + "cache.path", l.Cache.Path}, {key + "rounds.path", l.Rounds.Path}, {lock, l.Lock.Path}} {
		if w.c.lines[f.key] > 0 && inside(f.path, l.Storage.Directory) {
			w.add(f.key, "is inside storage.directory, which is there to be published: put it elsewhere")
		}
	}
	if info := w.stat(key+"key", l.Key, "`daybook init` makes it"); info != nil && info.Mode().Perm()&0o077 != 0 {
		w.add(key+"key", "%s may be read by other users (mode %#o): chmod 600 it", l.Key, info.Mode().Perm())
	}
	w.stat(key+"storage.directory", l.Storage.Directory, "`daybook init` makes it")
	w.stat(key+"cache.path", l.Cache.Path, "`daybook init` makes it")
	w.stat(lock, l.Lock.Path, "`daybook init` makes it")
	for i, f := range l.Roots.Files {
		w.stat(fmt.Sprintf("%sroots.files[%d]", key, i), f, noRoots)
	}
	for i, r := range l.Roots.CCADB {
		if !r.Remote() {
			w.stat(fmt.Sprintf("%sroots.ccadb[%d]", key, i), string(r), noRoots)
		}
	}
}

// stat warns when a file is not there; then it returns nil.
func (w *warner) stat(key, path, then string) fs.FileInfo {
	info, err := w.host.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.add(key, "%s does not exist: %s", path, then)
		return nil
	case err != nil:
		w.add(key, "cannot be looked at: %v", err)
		return nil
	}
	return info
}
