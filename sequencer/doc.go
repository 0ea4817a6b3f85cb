// Package sequencer runs one log: it admits entries into a pool, and at each
// tick turns the pool into leaves of a signed, tiled tree (a round).
//
// # Invariants
//
// Each is stated once, where it is kept; tests cite the numbers.
//
//	S1   No checkpoint is public before its lock swap succeeded.
//	S2   Every object that a swapped checkpoint needs is durable before the swap.
//	S3   An SCT leaves only after a checkpoint covering it is published.
//	S4   After an unknown outcome the log halts; only recovery decides.
//	S5   Checkpoint timestamps strictly grow and are >= every leaf's.
//	S6   For each key at most one of {pool, in flight, cache} answers, with no
//	     gap between them.
//	S7   Immutable objects never change bytes.
//	S8   Losing the cache costs duplicates only; a wrong hit is a broken promise.
//	S9   Nothing that can block runs inside the turnstile but the cache get.
//	S10  Past commit a round ignores caller cancellation.
//	S11  Recovery is idempotent and runs the round's own apply code.
//
// # What a failing step does
//
//	step        failure                          consequence
//	close       cannot fail
//	assign      clock behind the last checkpoint wait, bounded; then halt
//	assign      clock has jumped forward         entries are refused until it is right, see clockStep
//	grow        a fault of ours                  halt
//	stage       no room for all of the round     entries are refused, the next round tries again
//	stage       error                            entries are refused (ErrRound), next round goes on
//	stage       storage.ErrNotDurable            halt: the page cache cannot be trusted
//	stage       an issuer with other bytes       it is removed, and written again with the round
//	sign        a fault of ours                  halt
//	commit      conflict, register gone          halt: another process writes this log
//	commit      any other error                  halt: the outcome is unknown (S4)
//	apply       error                            bounded retries, then halt; recovery applies
//	publish     error                            bounded retries, then halt; recovery publishes
//	resolve     cannot fail
//	remember    error                            keys stay in memory, bounded, and are put next round
//	discard     error                            the bundle stays, the next round discards it
//	discard     storage.ErrNotDurable            halt; recovery applies the bundles again
//
// A halted log refuses submissions and publishes nothing; what it has published
// stays readable. The process must be restarted, which runs recovery.
package sequencer
