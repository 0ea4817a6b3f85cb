// Package incident switches single remedies of a log off, so that test/incident
// can replay the incident that the design answers (docs/incident.md) and show
// what each remedy is worth.
//
// It does something only in binaries built with -tags incident. Everywhere else
// [Enabled] is a constant and [Off] a constant false, so that the compiler leaves
// out what is guarded by them; test/incident looks into the binary for that.
package incident

// Remedy is something that keeps a flooded log calm.
type Remedy string

// The remedies that can be switched off. The others are settings: the size of the
// pool and of the page cache.
const (
	PoolCheck    Remedy = "pool-check"    // a full pool refuses before the cache is read; off: after
	Turnstile    Remedy = "turnstile"     // the sequencer goes first; off: a plain FIFO lock
	Patience     Remedy = "patience"      // submitters wait for the pool no longer than a second; off: for ever
	EarlyRefusal Remedy = "early-refusal" // refusals before body, parsing and signatures; off: at intake only
	Restart      Remedy = "wal-restart"   // WAL checkpoints by hand, each round, RESTART; off: SQLite's automatic passive ones
	Backoff      Remedy = "wal-backoff"   // a reader of the WAL is waited for less and less, and the WAL is bounded; off: a second each round, no bound
	Fairness     Remedy = "fairness"      // high displaces low, and modest submitters others; off: who comes first
)
