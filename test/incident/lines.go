package incident

import (
	"slices"
	"time"

	"github.com/daybook-ct/daybook/internal/incident"
)

// Line is a log and its troubles. Each step of it makes a line of a table, unless
// it is hidden.
type Line struct {
	Name string
	Off  []incident.Remedy // what the log has to do without

	PageCache string        // of each connection, as in the configuration
	Pool      int           // entries of a round of 200 ms
	Read      time.Duration // what each page takes more that the dedup cache reads
	Small     bool          // a new dedup cache, not the big one

	Steps []Step // one after the other, on one process
}

// Step is a load.
type Step struct {
	Name     string
	Rate     float64       // submissions a second
	Clients  int           // connections
	Old      float64       // share of submissions of low priority
	Duration time.Duration // of sending; 0 is the runner's
	Reader   bool          // another process has a read transaction open on the cache
	Hidden   bool          // not in the table
}

// Table is some lines that belong together.
type Table struct {
	Title string
	Lines []Line
}

const (
	interval = 200 * time.Millisecond

	fits      = 150 // entries of a round: 750 a second, which a small machine sequences with ease
	oversized = 750 // 3,750 a second, which it does not

	allPages = "1GiB" // all interior pages, and more
	fewPages = "2MiB" // SQLite's default

	flooders = 2000 // connections
)

// everything is all remedies that a variable switches off.
var everything = []incident.Remedy{incident.PoolCheck, incident.Turnstile, incident.Patience, incident.EarlyRefusal, incident.Restart, incident.Backoff, incident.Fairness}

// RunUp comes before a flood: a log that has just started has an empty page cache,
// and floods come later.
var RunUp = Step{Name: "before the flood", Rate: 400, Clients: 200, Duration: 6 * time.Second, Hidden: true}

// Story returns the tables of docs/incident.md. read is what a page of the dedup
// cache takes that SQLite has to read.
func Story(read time.Duration) []Table {
	return []Table{inOrder(read), remedies(read), flood(read)}
}

// inOrder is the story as it came: few submissions, a cross-poster, somebody who
// reads the cache, and more cross-posters; once without the remedies and once with
// them.
func inOrder(read time.Duration) Table {
	steps := []Step{
		{Name: "20/s", Rate: 20, Clients: 50},
		{Name: "400/s: a cross-poster has come", Rate: 400, Old: 0.95, Clients: 400},
		{Name: "400/s, and a reader on the WAL", Rate: 400, Old: 0.95, Clients: 400, Reader: true},
		{Name: "3,750/s: cross-posters at full speed", Rate: 3750, Old: 0.95, Clients: flooders, Reader: true},
	}
	for i := range steps {
		steps[i].Duration = 10 * time.Second
	}
	return Table{Title: "The story in its order", Lines: []Line{
		{Name: "no remedy", Off: everything, PageCache: fewPages, Pool: oversized, Read: read, Steps: steps},
		{Name: "all remedies", PageCache: allPages, Pool: fits, Read: read, Steps: steps},
	}}
}

// remedies takes them away one by one, at the height of the flood.
func remedies(read time.Duration) Table {
	all := Line{Name: "all remedies", PageCache: allPages, Pool: fits, Read: read,
		Steps: []Step{RunUp, {Rate: 3750, Old: 0.9, Clients: flooders, Reader: true}}}
	t := Table{Title: "What each remedy is worth", Lines: []Line{all}}
	add := func(name string, change func(*Line)) {
		l := all
		l.Name = name
		change(&l)
		t.Lines = append(t.Lines, l)
	}
	without := func(off ...incident.Remedy) func(*Line) { return func(l *Line) { l.Off = off } }
	add("without the pool-full check before the cache get", without(incident.PoolCheck))
	add("without the turnstile: a plain FIFO lock", without(incident.Turnstile))
	add("without turnstile and bound of the wait", without(incident.Turnstile, incident.Patience))
	add("without turnstile, bound and pool-full check", without(incident.Turnstile, incident.Patience, incident.PoolCheck))
	add("without early refusal", without(incident.EarlyRefusal))
	add("with a page cache of 2 MB", func(l *Line) { l.PageCache = fewPages })
	add("with a pool of 750", func(l *Line) { l.Pool = oversized })
	add("without RESTART WAL checkpoints by hand", without(incident.Restart))
	add("without back-off for a reader of the WAL", without(incident.Backoff))
	add("without priority and fairness", without(incident.Fairness))
	add("without any, pool of 150", func(l *Line) { l.Off, l.PageCache = slices.Clone(everything), fewPages })
	add("without any, pool of 750", func(l *Line) { l.Off, l.PageCache, l.Pool = slices.Clone(everything), fewPages, oversized })
	return t
}

// flood is five times the capacity, all of it fresh: on a cache that costs nothing,
// so that what is left is CPU, and on the large one.
func flood(read time.Duration) Table {
	t := Table{Title: "Five times the capacity, all of it fresh"}
	add := func(l Line, off ...incident.Remedy) {
		l.Off, l.PageCache, l.Pool = off, allPages, fits
		t.Lines = append(t.Lines, l)
	}
	steps := []Step{{Rate: 3750, Clients: flooders}}
	for _, c := range []struct {
		name string
		off  []incident.Remedy
	}{
		{"all remedies", nil},
		{"without the turnstile: a plain FIFO lock", []incident.Remedy{incident.Turnstile}},
		{"without turnstile and bound of the wait", []incident.Remedy{incident.Turnstile, incident.Patience}},
		{"without early refusal", []incident.Remedy{incident.EarlyRefusal}},
		{"without early refusal, turnstile and bound", []incident.Remedy{incident.EarlyRefusal, incident.Turnstile, incident.Patience}},
		{"without any that a variable switches off", everything},
	} {
		add(Line{Name: "fast cache, " + c.name, Small: true, Steps: steps}, c.off...)
	}
	steps = append([]Step{RunUp}, steps...)
	for _, c := range []struct {
		name string
		off  []incident.Remedy
	}{
		{"all remedies", nil},
		{"without turnstile and bound of the wait", []incident.Remedy{incident.Turnstile, incident.Patience}},
		{"without early refusal", []incident.Remedy{incident.EarlyRefusal}},
		{"without early refusal, turnstile and bound", []incident.Remedy{incident.EarlyRefusal, incident.Turnstile, incident.Patience}},
	} {
		add(Line{Name: "large cache, " + c.name, Read: read, Steps: steps}, c.off...)
	}
	return t
}
