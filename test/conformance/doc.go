// Package conformance holds a running Static CT log to RFC 6962,
// c2sp.org/static-ct-api and what they stand on, from outside: through its two
// prefixes, its public key and its accepted roots alone.
//
// [Run] submits chains, reads the tree back and says of each clause whether the
// log keeps it. It can be pointed at any Static CT log. What it needs beyond
// the prefixes and the key is a way to get chains that the log accepts: the key
// of an accepted root to issue them with, or a folder of cases with the log's
// roots, or, with neither, the log's own entries, which it then submits again.
//
// The package shares no code with the log that it judges. Notes, tiles, SCTs,
// leaves and certificates are read here from their bytes, with nothing but the
// standard library, and certificates are made here, too. A test enforces it.
//
// # Clauses
//
// Each clause has an ID. R is RFC 6962, S static-ct-api, T tlog-tiles, K
// tlog-checkpoint, N signed-note, G with one digit tlog-cosignature. A to H
// with two digits are faults that other logs have had, and X is what this
// project asks on top. [Clauses] lists them.
//
// A clause is ok if all its checks held and there was at least one, skipped if
// there was none, and failed otherwise. A SHOULD that is not kept is a warning,
// unless [Options.Strict] is set.
//
// Left out are the clauses that bind readers (S7, S17, S25, S28, K9, N8, N9)
// and witnesses (G2, G7, W): a log cannot break them. So are faults for which
// the log's storage (A04, E02, E04, F), clock (D11), configuration (H10, H12) or
// memory (H13) would have to be at hand: the packages themselves are tested for
// those.
//
// Package own starts daybook's own logs and judges them (make conformance);
// command peer, a module of its own, verifies the SCTs that they gave with
// another implementation.
package conformance
