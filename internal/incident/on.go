//go:build incident

package incident

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Enabled tells whether this binary can switch remedies off.
const Enabled = true

const (
	// offVariable names the remedies to switch off, separated by commas.
	offVariable = "DAYBOOK_INCIDENT_OFF"

	// readVariable is how much longer each page takes that the dedup cache reads
	// from its file, as time.ParseDuration takes it: it makes of a fast disk, or
	// of a machine whose memory holds the whole file, one that has to read from a
	// slow one.
	readVariable = "DAYBOOK_INCIDENT_READ"

	// walVariable is how long the first put takes that finds the WAL of the dedup
	// cache smaller than before, and so has to make it anew.
	walVariable = "DAYBOOK_INCIDENT_WAL"
)

var (
	off      = remedies(os.Getenv(offVariable))
	readTime = duration(readVariable)
	walTime  = duration(walVariable)
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(2)
}

func remedies(s string) map[Remedy]bool {
	all := []Remedy{PoolCheck, Turnstile, Patience, EarlyRefusal, Restart, Backoff, Fairness}
	set := map[Remedy]bool{}
	for name := range strings.SplitSeq(s, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(all, Remedy(name)) {
			fail("%s: there is no remedy %q; there are %v", offVariable, name, all)
		}
		set[Remedy(name)] = true
	}
	return set
}

func duration(variable string) time.Duration {
	s := os.Getenv(variable)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		fail("%s: %q is no duration", variable, s)
	}
	return d
}

// Off reports whether a remedy is switched off.
func Off(r Remedy) bool { return off[r] }

// pageSize is that of the dedup cache, in bytes.
const pageSize = 4096

// SlowReads makes what is read from files between its call and that of done take
// longer, by readVariable a page. The caller reads from the thread that it runs
// on, and from nothing but the dedup cache.
func SlowReads() (done func()) {
	if readTime == 0 {
		return func() {}
	}
	runtime.LockOSThread()
	before := readSoFar()
	return func() {
		pages := (readSoFar() - before) / pageSize
		runtime.UnlockOSThread()
		time.Sleep(time.Duration(pages) * readTime)
	}
}

// readSoFar returns how many bytes this thread has read from files, whether they
// came from a disk or from memory. Asking adds less than a page.
func readSoFar() int64 {
	b, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		fail("%s: the kernel does not tell what a thread reads: %v", readVariable, err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	n, err := strconv.ParseInt(string(bytes.TrimPrefix(line, []byte("rchar: "))), 10, 64)
	if err != nil {
		fail("%s: /proc/thread-self/io begins with %q", readVariable, line)
	}
	return n
}

var walSize atomic.Int64

// WALMade is called before each put with the name of the WAL file.
func WALMade(path string) {
	if walTime == 0 {
		return
	}
	size := int64(0)
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	if size < walSize.Swap(size) {
		time.Sleep(walTime)
	}
}
