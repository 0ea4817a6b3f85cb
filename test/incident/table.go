package incident

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// percentile returns the smallest value that so many percent do not exceed. It
// sorts d.
func percentile(d []time.Duration, percent int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[(len(d)*percent+99)/100-1]
}

var columns = []string{"", "accepted/s", "fresh accepted", "accepted p50 / p99", "refused p99", "no answer", "checkpoint age p99",
	"longest lock wait: sequencer / submitter", "longest get", "round p99", "skipped ticks", "WAL peak", "server CPU a submission"}

// Head returns the first two lines of a table.
func Head() string {
	return markdownRow(columns) + "|" + strings.Repeat("---|", len(columns)) + "\n"
}

// Row returns the line of a table.
func (f *Figures) Row() string {
	r := &f.Result
	return markdownRow([]string{f.Name, fmt.Sprintf("%.0f", r.Rate()), f.fresh(), span(r.Latency.Count, r.Latency.P50) + " / " + span(r.Latency.Count, r.Latency.P99),
		span(r.RefusedLatency.Count, r.RefusedLatency.P99), fmt.Sprint(r.Failed + r.Unsent), span(r.CheckpointAge.Count, r.CheckpointAge.P99),
		Span(f.LockWait) + " / " + Span(f.SubWait), Span(f.Hold), Span(f.RoundP99), fmt.Sprintf("%d of %d", f.Skipped, f.Skipped+f.Rounds), fmt.Sprintf("%.1f MiB", float64(f.WALPeak)/(1<<20)), f.cpu()})
}

func markdownRow(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// cpu is the CPU time of the log for each submission that was answered, one way or
// the other. It hardly depends on what else the machine does.
func (f *Figures) cpu() string {
	if s := f.Result.Server; s != nil && f.Result.Answered > 0 {
		return fmt.Sprintf("%.2f ms", s.CPU.Seconds()*1e3/float64(f.Result.Answered))
	}
	return "-"
}

// fresh is the share of fresh submissions that were accepted, of those that were
// answered.
func (f *Figures) fresh() string {
	c := f.Result.Classes["fresh"]
	if n := c.Accepted.Count + c.Refused.Count; n > 0 {
		return fmt.Sprintf("%.1f%%", 100*float64(c.Accepted.Count)/float64(n))
	}
	return "-"
}

// Broken returns what a log did that none may do, whatever is switched off.
// That nothing was accepted is a collapse, and no broken promise.
func (f *Figures) Broken() error {
	if f.Err == nil || f.Result.Accepted == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", f.Name, f.Err)
}

func span(n int64, d time.Duration) string {
	if n == 0 {
		return "-"
	}
	return Span(d)
}

// Span writes a short time for people.
func Span(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
}

// WriteTable writes a table with its title.
func WriteTable(w io.Writer, title string, lines []*Figures) error {
	var b strings.Builder
	b.WriteString("\n" + title + "\n\n" + Head())
	for _, f := range lines {
		b.WriteString(f.Row())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
