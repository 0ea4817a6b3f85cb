package conformance

import (
	"context"
	"time"
)

// judgeRestart ends the log and starts it again, in order and by killing it.
// The watcher goes on, so that what it compares spans the restarts.
func (r *run) judgeRestart(ctx context.Context) {
	if r.t.Restart == nil || !r.wants("R28", "K6", "D13", "E01", "R6") {
		return
	}
	for _, kill := range []bool{false, true} {
		before := r.watch.look(ctx)
		r.watch.pause(true)
		err := r.t.Restart(ctx, kill)
		r.watch.pause(false)
		if ctx.Err() != nil || !r.rec.noError(err, "R28 K6", "restarting the log (killed: %v)", kill) {
			return
		}
		after := r.watch.look(ctx)
		if before != nil && after != nil {
			r.rec.check(after.size >= before.size && after.timestamp >= before.timestamp, "R28 K6 D13",
				"after a restart (killed: %v) the tree went from %d at %d ms to %d at %d ms", kill, before.size, before.timestamp, after.size, after.timestamp)
		}
		r.rec.note("R28 K6 E01", "also across restarts")
		r.judgeDuplicates(ctx)
	}
}

// judgeIdle watches the log with nothing to do.
func (r *run) judgeIdle(ctx context.Context) {
	if r.o.Idle == 0 {
		r.rec.note("R29 D12", "needs some time without submissions")
		return
	}
	r.watch.setIdle(true)
	defer r.watch.setIdle(false)
	start := r.watch.look(ctx)
	end := time.Now().Add(r.o.Idle)
	for time.Now().Before(end) && ctx.Err() == nil {
		r.watch.look(ctx)
		r.pause(ctx, r.o.Poll)
	}
	last := r.watch.newest()
	if start == nil || last == nil || ctx.Err() != nil {
		return
	}
	if r.o.Idle >= r.o.MergeDelay {
		r.rec.check(last.timestamp > start.timestamp, "R29 D12", "no tree head was signed in %v", r.o.Idle)
	}
	r.rec.note("R29 D12", "watched for %v", r.o.Idle)
}
