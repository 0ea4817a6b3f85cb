package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// progress shows how far a long command is, on standard error: a bar on a
// terminal, a line now and then elsewhere, and nothing for what is quick. It
// is safe for concurrent use.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	mu     sync.Mutex
	start  time.Time
	phase  string
	since  time.Time // of the phase
	last   time.Time // when something was shown
	length int       // of the bar on the terminal
}

const (
	progressAfter = 2 * time.Second        // quick commands show nothing
	progressBar   = 100 * time.Millisecond // between bars
	progressLine  = 5 * time.Second        // between lines
)

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, terminal: isTerminal(w), now: time.Now}
	p.start = p.now()
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show reports that done of total are done in a phase. Total is 0 if it is not
// known. more is shown behind.
func (p *progress) show(phase string, done, total int64, more string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if phase != p.phase {
		p.phase, p.since = phase, now
	}
	wait := progressLine
	if p.terminal {
		wait = progressBar
	}
	if now.Sub(p.start) < progressAfter || now.Sub(p.last) < wait {
		return
	}
	p.last = now
	text := p.text(done, total, more, now.Sub(p.since))
	if !p.terminal {
		p.write(text + "\n")
		return
	}
	pad := max(p.length-len(text), 0)
	p.length = len(text)
	p.write("\r" + text + strings.Repeat(" ", pad))
}

func (p *progress) text(done, total int64, more string, took time.Duration) string {
	s := fmt.Sprintf("%-9s ", p.phase)
	if total > 0 {
		const width = 30
		full := int(min(done, total) * width / total)
		if p.terminal {
			s += "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "] "
		}
		s += fmt.Sprintf("%3d%% ", min(done, total)*100/total) + thousands(done) + " of " + thousands(total)
		if done > 0 && done < total {
			left := time.Duration(float64(took) * float64(total-done) / float64(done)).Round(time.Second)
			if left > 0 {
				s += fmt.Sprintf(", %v left", left)
			}
		}
	} else {
		s += thousands(done)
	}
	if more != "" {
		s += ", " + more
	}
	return s
}

// end removes the bar.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.length > 0 {
		p.write("\r" + strings.Repeat(" ", p.length) + "\r")
		p.length = 0
	}
}

// write shows text. If it cannot be shown, the command goes on without.
func (p *progress) write(s string) { _, _ = io.WriteString(p.w, s) }

// thousands writes a number with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// bytesize writes a number of bytes for people.
func bytesize(n int64) string {
	switch {
	case n >= 10<<30:
		return thousands(n>>30) + " GiB"
	case n >= 10<<20:
		return thousands(n>>20) + " MiB"
	case n >= 10<<10:
		return thousands(n>>10) + " KiB"
	}
	return thousands(n) + " bytes"
}

// milliseconds writes a short time for people.
func milliseconds(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
}
