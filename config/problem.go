package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is something wrong or unusual at one place of a file.
type Problem struct {
	File    string
	Line    int    // from 1; 0 if it concerns the whole file
	Key     string // like logs[0].interval; "" if it concerns no key
	Message string // what is wrong, and what to do
}

// String returns the problem as one line: file:line: key: message.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are all errors of a file, in the order of its lines. It is the
// error that [Parse] and [Load] return.
type Problems []Problem

// Error returns the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}
