package witness

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
)

// Look reads the checkpoint, if there is an answer, and notes it.
func (w *Witness) Look(ctx context.Context, addr string) {
	status, signed, err := w.ask(ctx, http.MethodGet, w.url(addr, "checkpoint"), nil)
	if err == nil && status == http.StatusOK {
		w.See(signed)
	}
}

// See notes a checkpoint. It must not be older than the one before.
func (w *Witness) See(signed []byte) {
	head, err := w.log.Verifier.Verify(signed)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.faults = append(w.faults, fmt.Errorf("a checkpoint does not verify: %w", err))
	case head == w.last:
	case w.checkpoints > 0 && (head.Timestamp <= w.last.Timestamp || head.Tree.N < w.last.Tree.N || head.Tree.N == w.last.Tree.N && head.Tree != w.last.Tree):
		w.faults = append(w.faults, fmt.Errorf("checkpoint of size %d at %d came after the one of size %d at %d", head.Tree.N, head.Timestamp, w.last.Tree.N, w.last.Timestamp))
	default:
		if w.checkpoints == 0 || head.Tree != w.last.Tree {
			w.seen = append(w.seen, signed)
		}
		w.last = head
		w.checkpoints++
	}
}

// Last returns the newest tree head seen.
func (w *Witness) Last() checkpoint.TreeHead {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Promises returns all promises.
func (w *Witness) Promises() []monitor.Promise {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.Clone(w.moved)
	for _, p := range w.promised {
		list = append(list, p.Promise)
	}
	return list
}

// trees returns a checkpoint of each tree seen.
func (w *Witness) trees() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// Verify verifies the whole log as a monitor does, through the prefix at this
// address: every promise ever made, and every checkpoint ever seen. It returns
// the error of the monitor; Err has what the witness knows without one.
func (w *Witness) Verify(ctx context.Context, addr string, signatures bool) (*monitor.Report, error) {
	return w.verify(ctx, addr, monitor.Options{Promises: w.Promises(), Known: w.trees(), Signatures: signatures})
}

// VerifyFresh verifies what is new since the last call: the promises since then,
// those that moved and a sample of the others, and the checkpoints since then,
// with the last one before.
func (w *Witness) VerifyFresh(ctx context.Context, addr string, sample int) (*monitor.Report, error) {
	w.mu.Lock()
	promises := slices.Clone(w.moved)
	for _, n := range append(w.fresh, w.sample(sample)...) {
		promises = append(promises, w.promised[n].Promise)
	}
	seen := slices.Clone(w.seen[max(0, w.checked-1):])
	w.fresh, w.checked = nil, len(w.seen)
	w.mu.Unlock()
	return w.verify(ctx, addr, monitor.Options{Promises: promises, PromisesOnly: true, Known: seen})
}

func (w *Witness) verify(ctx context.Context, addr string, o monitor.Options) (*monitor.Report, error) {
	client, err := monitor.NewClient(w.url(addr, ""), w.o.Monitor)
	if err != nil {
		return nil, err
	}
	if w.o.Monitor.HTTP == nil {
		defer client.Close() // it has connections of its own
	}
	o.Client, o.Prefix, o.Origin, o.Key = client, client.Prefix(), w.log.Origin, w.log.Key
	r, err := monitor.Verify(ctx, o)
	if err != nil {
		return nil, err
	}
	if r.Promises != len(o.Promises) {
		return r, fmt.Errorf("%d promises were verified, of %d", r.Promises, len(o.Promises))
	}
	return r, nil
}
