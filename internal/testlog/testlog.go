// Package testlog keeps what a program says, for tests that look into it.
package testlog

import (
	"bytes"
	"strings"
	"sync"
)

// Lines is a log that a test reads while others write to it. The zero value is
// empty.
type Lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the log.
func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// String returns all of it.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reset forgets what was written.
func (l *Lines) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// Count returns the number of lines that have all the parts.
func (l *Lines) Count(parts ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			n++
		}
	}
	return n
}

// Has tells whether some line has all the parts.
func (l *Lines) Has(parts ...string) bool { return l.Count(parts...) > 0 }
