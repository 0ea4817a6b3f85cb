// Package cache is the dedup cache of a log on SQLite: it remembers under which
// position an entry was logged, so that a resubmission gets the same SCT.
//
// The cache may forget, but must never invent (S8). Losing the file costs
// duplicate entries and nothing else, so nothing here rebuilds or repairs one.
// An error is never reported as a miss.
//
// A DB has two long-lived connections with prepared statements. One writes, runs
// the WAL checkpoints, and serves Gets while it does neither; the other serves
// the Gets that come meanwhile, so that no Get waits for a write. It is not simply
// one for reading and one for writing, because a commit empties the page cache
// of every other connection: a connection that only reads starts each round with nothing, and its
// first Get frees all it had, at about 2 microseconds a page, under the
// turnstile. The connection that writes keeps its pages.
//
// As the WAL is checkpointed by hand after each round (RESTART mode), its file
// is reused from the start and stays as large as one round makes it.
//
// The SQLite release is chosen in go.mod apart from the driver's own choice; see sqlite.go.
package cache
