package sequencer

import (
	"errors"
	"net/netip"

	"github.com/daybook-ct/daybook/tlog"
)

// Errors of Submit and Ticket.Wait. Anything else is the log's own fault, or
// the context's error.
var (
	ErrFull    = errors.New("pool is full")                             // refused at intake
	ErrEvicted = errors.New("evicted from the pool by a fresher entry") // admitted, then displaced
	ErrBusy    = errors.New("the queue for the pool is too long")       // at the turnstile, before or after a wait
	ErrLimited = errors.New("submitter is over its duplicate limit")
	ErrClosed  = errors.New("log is shutting down")
	ErrSunset  = errors.New("log is read-only")
	ErrHalted  = errors.New("log has halted")
	ErrStorage = errors.New("storage is low") // see Log.Block
	ErrClock   = errors.New("the clock has jumped forward")
	ErrRound   = errors.New("round failed") // the entry was not logged; submit again
)

// Priority of an entry: Low never displaces High.
type Priority int

// The priorities.
const (
	High Priority = iota
	Low
)

// Submission is a verified entry on its way into the log.
type Submission struct {
	Entry *tlog.Entry
	// Issuers are the DER certificates that Entry.Chain names, in its order.
	// Those not stored yet are stored with the round that takes the entry.
	Issuers  [][]byte
	Priority Priority
	// Submitter is the client's network (IPv4 /32, IPv6 /64), by which the
	// pool is shared fairly. The zero Prefix is a submitter of its own.
	Submitter netip.Prefix
}

func (p Priority) String() string {
	if p == Low {
		return "low"
	}
	return "high"
}
