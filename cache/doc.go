// Package cache is the dedup cache of a log on SQLite: it remembers under which
// position an entry was logged, so that a resubmission gets the same SCT.
//
// The cache may forget, but must never invent (S8). Losing the file costs
// duplicate entries and nothing else, so nothing here rebuilds or repairs one.
// An error is never reported as a miss.
//
// A DB has two long-lived connections with prepared statements, one for Get and
// one for Put and the WAL checkpoint, so that a Get never waits for a write. As
// the WAL is checkpointed by hand after each round (RESTART mode), its file
// is reused from the start and stays as large as one round makes it.
//
// The SQLite release is chosen in go.mod apart from the driver's own choice; see sqlite.go.
package cache
