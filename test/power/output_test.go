package power

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// output keeps what a process says, by lines.
type output struct {
	mu      sync.Mutex
	rest    []byte
	lines   []string
	ended   bool
	changed chan struct{} // closed when something is added
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, b...)
	for {
		line, rest, ok := bytes.Cut(o.rest, []byte("\n"))
		if !ok {
			break
		}
		o.lines, o.rest = append(o.lines, strings.TrimSuffix(string(line), "\r")), rest
	}
	o.wake()
	return len(b), nil
}

func (o *output) wake() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wake()
}

// wait returns the first line with this text. It fails if the process ends
// without, or when patience is at its end.
func (o *output) wait(text string) (line string, ok bool) { return o.waitNth(text, 1) }

// waitNth waits for the nth line with this text.
func (o *output) waitNth(text string, nth int) (line string, ok bool) {
	timeout := time.After(patience)
	for {
		o.mu.Lock()
		found := 0
		for _, line := range o.lines {
			if strings.Contains(line, text) {
				if found++; found == nth {
					o.mu.Unlock()
					return line, true
				}
			}
		}
		if o.ended {
			o.mu.Unlock()
			return "", false
		}
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		changed := o.changed
		o.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			return "", false
		}
	}
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n") + "\n" + string(o.rest)
}
