package program

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// Output keeps what a process says, by lines; a carriage return at the end of
// one, as of a console, is not a part of it. It is safe for concurrent use.
type Output struct {
	patience time.Duration

	mu      sync.Mutex
	rest    []byte
	lines   []string
	ended   bool
	changed chan struct{} // closed when something is added
}

// NewOutput returns an output that is waited on for so long at most.
func NewOutput(patience time.Duration) *Output { return &Output{patience: patience} }

// Write adds to the output.
func (o *Output) Write(b []byte) (int, error) {
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

func (o *Output) wake() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// end tells those who wait that nothing more comes.
func (o *Output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wake()
}

// Wait returns the first line with this text. It fails if the process ends
// without, or when patience is at its end.
func (o *Output) Wait(text string) (line string, ok bool) { return o.WaitNth(text, 1) }

// WaitNth waits for the nth line with this text.
func (o *Output) WaitNth(text string, nth int) (line string, ok bool) {
	timeout := time.After(o.patience)
	for {
		o.mu.Lock()
		line, ok := o.find(text, nth)
		if ok || o.ended {
			o.mu.Unlock()
			return line, ok
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

// find returns the nth line with this text. o.mu is held.
func (o *Output) find(text string, nth int) (line string, ok bool) {
	for _, line := range o.lines {
		if strings.Contains(line, text) {
			if nth--; nth == 0 {
				return line, true
			}
		}
	}
	return "", false
}

// Seen returns the first line with this text, if it is there already.
func (o *Output) Seen(text string) (line string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.find(text, 1)
}

// Text returns all of it, also the last line if it has no end yet.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n") + "\n" + string(o.rest)
}
