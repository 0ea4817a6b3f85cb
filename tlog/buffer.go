package tlog

import "sync/atomic"

// buffer is an immutable byte string that one continuation may extend in place:
// the first takes what capacity lies behind the end, any other copies. So the
// tiles of an edge grow without being copied each round, although edges are
// immutable and an append may be repeated after a round that failed.
type buffer struct {
	b     []byte
	taken *atomic.Bool // nil is as if taken
}

func newBuffer(b []byte) buffer { return buffer{b, new(atomic.Bool)} }

// extended returns the bytes with room for at least n more to append to, and
// whether the array behind them is shared with b. A copy has room for twice as
// many as there are.
func (b buffer) extended(n int) (array []byte, shared bool) {
	if b.taken != nil && cap(b.b)-len(b.b) >= n && b.taken.CompareAndSwap(false, true) {
		return b.b, true
	}
	return append(make([]byte, 0, len(b.b)+max(n, len(b.b))), b.b...), false
}
