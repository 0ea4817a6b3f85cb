package rounds

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// barWidth is the length of the longest bar of a histogram, in characters.
const barWidth = 50

// WriteText writes the report for people, in lines of up to some 130
// characters.
func (rep *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	rep.head(&b)
	rep.slow(&b)
	rep.markers(&b)
	rep.steps(&b)
	rep.bars(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (rep *Report) head(b *strings.Builder) {
	pool := "no limit"
	if rep.PoolSize > 0 {
		pool = strconv.Itoa(rep.PoolSize)
	}
	fmt.Fprintf(b, "log %s, %s to %s UTC\n", rep.Log, rep.From.UTC().Format(time.DateTime), rep.To.UTC().Format(time.DateTime))
	fmt.Fprintf(b, "%s rounds, %s entries; interval %v, pool size %s\n", thousands(int64(rep.Rounds)), thousands(rep.Entries), rep.Interval, pool)
	t := table{left: 1}
	t.row("", "admitted", "joined", "duplicate", "evicted", "refused: full", "limited", "busy", "other")
	for _, c := range []struct {
		name string
		n    Counts
	}{{"high", rep.High}, {"low", rep.Low}} {
		t.row(c.name, thousands(c.n.Admitted), thousands(c.n.Joined), thousands(c.n.Duplicate), thousands(c.n.Evicted),
			thousands(c.n.Full), thousands(c.n.Limited), thousands(c.n.Busy), thousands(c.n.Other))
	}
	t.write(b)
	fmt.Fprintf(b, "ticks skipped: %s\ncapacity: %v\n", thousands(rep.Skipped), rep.Capacity)
	if rep.Refused+rep.Halted > 0 {
		fmt.Fprintf(b, "failed: %d rounds were refused, %d halted the log\n", rep.Refused, rep.Halted)
		for _, cause := range rep.Failures {
			fmt.Fprintf(b, "  %s\n", cause)
		}
	}
}

func (rep *Report) slow(b *strings.Builder) {
	if rep.SlowMeans == "" {
		return // no round went well
	}
	fmt.Fprintf(b, "\nslow rounds: %s of %s (%s)\n", thousands(int64(rep.Slow)), thousands(int64(rep.Rounds-rep.Refused-rep.Halted)), rep.SlowMeans)
	if rep.Slow == 0 {
		return
	}
	causes := table{left: 1}
	causes.row("cause", "rounds", "worst")
	for _, c := range rep.Causes {
		causes.row(string(c.Cause), thousands(int64(c.Rounds)), c.Worst.short())
	}
	causes.write(b)
	fmt.Fprintf(b, "\nslowest\n")
	t := table{left: 1}
	t.row("began (UTC)", "late", "took", "entries", "skipped", "WAL frames", "WAL bytes", "dominant", "more than usual", "  cause")
	for _, s := range rep.Slowest {
		r := &s.Record
		t.row(r.Time.UTC().Format("01-02 15:04:05.000"), r.Late.short(), r.Took.short(), thousands(int64(r.Entries)), thousands(int64(r.Skipped)),
			thousands(int64(r.WAL.Frames)), thousands(r.WAL.Bytes), s.Part, "+"+s.Excess.short(), "  "+string(s.Cause))
	}
	t.write(b)
}

func (rep *Report) markers(b *strings.Builder) {
	if rep.Slow == 0 || len(rep.Coincidences) == 0 {
		return
	}
	fmt.Fprintf(b, "\nwhat goes with slow rounds, and what does not\n")
	slow, others := rep.Slow, rep.Rounds-rep.Refused-rep.Halted-rep.Slow
	t := table{left: 1}
	t.row("marker", "slow", "", "others", "", "  ")
	var unseen []string
	for _, c := range rep.Coincidences {
		if c.Verdict == Unseen {
			unseen = append(unseen, c.Marker)
			continue
		}
		t.row(c.Marker, thousands(int64(c.Slow)), share(c.Slow, slow), thousands(int64(c.Others)), share(c.Others, others), "  "+c.Verdict)
	}
	t.write(b)
	if len(unseen) > 0 {
		fmt.Fprintf(b, "  never seen: %s\n", strings.Join(unseen, ", "))
	}
}

func share(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}

func (rep *Report) steps(b *strings.Builder) {
	if len(rep.Parts) == 0 {
		return
	}
	fmt.Fprintf(b, "\nsteps of rounds with entries\n")
	t := table{left: 1}
	t.row("step", "p50", "p99", "max")
	for _, p := range rep.Parts {
		t.row(p.Part, p.P50.short(), p.P99.short(), p.Max.short())
	}
	t.write(b)
}

func (rep *Report) bars(b *strings.Builder) {
	if len(rep.Histogram) == 0 {
		return
	}
	fmt.Fprintf(b, "\nrounds by the time from tick to end (# slow, = others)\n")
	most := 0
	for _, h := range rep.Histogram {
		most = max(most, h.Rounds)
	}
	t := table{left: 0}
	for _, h := range rep.Histogram {
		t.row("up to", h.To.short(), thousands(int64(h.Rounds)), "  "+bar(h, most))
	}
	t.write(b)
}

// bar draws a bucket. What is there is seen, however little it is.
func bar(h Bucket, most int) string {
	width := func(n int) int {
		if n == 0 {
			return 0
		}
		return max(1, n*barWidth/most)
	}
	return strings.Repeat("=", width(h.Rounds-h.Slow)) + strings.Repeat("#", width(h.Slow))
}

// table writes cells in columns, the first left of them left-aligned, and texts
// that begin with two blanks, too; the rest is right-aligned.
type table struct {
	left int
	rows [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(b *strings.Builder) {
	var width []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		line := " "
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			switch {
			case i < t.left || strings.HasPrefix(cell, "  "):
				line += " " + cell + pad
			default:
				line += " " + pad + cell
			}
			if i < len(row)-1 {
				line += " "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// short writes a duration in milliseconds or seconds.
func (d Duration) short() string {
	switch t := time.Duration(d); {
	case t >= time.Second:
		return strconv.FormatFloat(t.Seconds(), 'f', 2, 64) + " s"
	case t >= 100*time.Millisecond:
		return strconv.FormatInt(t.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	case t >= 10*time.Millisecond:
		return strconv.FormatFloat(t.Seconds()*1e3, 'f', 1, 64) + " ms"
	default:
		return strconv.FormatFloat(t.Seconds()*1e3, 'f', 2, 64) + " ms"
	}
}

// thousands writes a number with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
