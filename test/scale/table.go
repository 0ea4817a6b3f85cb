package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// samples are measured durations.
type samples []time.Duration

// quantile returns the smallest duration that a share q of the samples does not
// exceed; 0 without samples.
func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// String is the median and the 99th percentile. Fewer than 100 samples have
// none, so that their worst stands there, in brackets.
func (s samples) String() string {
	switch {
	case len(s) == 0:
		return "-"
	case len(s) < 100:
		return fmt.Sprintf("%s [%s]", short(s.quantile(0.5)), short(s.quantile(1)))
	}
	return short(s.quantile(0.5)) + " / " + short(s.quantile(0.99))
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	unit, name := time.Second, "s"
	switch {
	case d < time.Millisecond:
		unit, name = time.Microsecond, "us"
	case d < time.Second:
		unit, name = time.Millisecond, "ms"
	}
	v := float64(d) / float64(unit)
	digits := 2
	if v >= 100 {
		digits = 0
	} else if v >= 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, name)
}

// size writes a number of bytes.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// thousands writes a number with separators.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// table is a Markdown table.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table below a line of text, or nothing if it is empty.
func (t *table) print(w io.Writer, above string) error {
	if len(t.rows) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString(above + "\n\n")
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "---"
	}
	for _, row := range append([][]string{t.head, rule}, t.rows...) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), "| --- ", "|---")+"\n")
	return err
}
