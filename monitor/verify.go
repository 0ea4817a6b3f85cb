package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/tlog"
)

// Options say what to verify and how.
type Options struct {
	// Prefix is the monitoring prefix.
	Prefix string
	// Origin and Key, a DER SubjectPublicKeyInfo, are taken from the log's
	// own log.v3.json where they are not given.
	Origin string
	Key    []byte
	// Known are checkpoints of the log that were seen before, signed. The log
	// must still be consistent with each.
	Known [][]byte
	// Promises are checked against the entries.
	Promises []Promise
	// PromisesOnly visits only the tiles in which promised entries stand,
	// instead of all. Each is verified up to the root.
	PromisesOnly bool
	// Signatures verifies the signatures of all chains.
	Signatures bool
	// Workers is the number of tiles that are verified at a time, default 4.
	Workers int
	// Progress, if not nil, is called after each verified tile, by one
	// goroutine at a time.
	Progress func(Progress)
	// Client, if not nil, is used in place of one for Prefix.
	Client *Client
}

// Promise is what an SCT says: the entry with this key stands at this
// position.
type Promise struct {
	Key tlog.Key
	tlog.Position
}

// Progress tells how far a verification is.
type Progress struct {
	Tiles, TotalTiles int64 // data tiles
	Entries           int64
	Bytes             int64 // received
}

// Report tells what was verified.
type Report struct {
	Origin     string
	LogID      [32]byte
	Tree       tlog.Tree
	Timestamp  int64  // of the checkpoint, milliseconds since the Unix epoch
	Checkpoint []byte // the newest one seen, signed

	Entries, Precerts int64 // visited
	HashTiles         int64
	DataTiles         int64
	NamesTiles        int64 // zero if the log does not offer them
	Issuers           int   // distinct issuers, all served
	Signatures        int64 // of certificates, verified
	Promises          int   // kept
	Checkpoints       int   // seen, and consistent with each other
	LatestSize        int64 // size of the newest checkpoint seen

	Requests, Retries, Bytes int64
	Took                     time.Duration
}

// Limits of objects, beyond which a log is not believed to be honest.
const (
	maxDataTile  = 256 << 20
	maxNamesTile = 64 << 20
	maxIssuer    = 1 << 20
)

// Verify downloads a log and verifies all of it. The error is a *[Fault] for
// the first thing wrong, in the order of checkpoint, hash tiles from the root
// down, and entries by their index; it wraps [ErrUnavailable] if the log could
// not be read.
//
// Memory does not grow with the log: tiles are verified as they arrive.
func Verify(ctx context.Context, o Options) (*Report, error) {
	start := time.Now()
	client := o.Client
	if client == nil {
		var err error
		if client, err = NewClient(o.Prefix, ClientOptions{Concurrency: 4 * max(o.Workers, 4)}); err != nil {
			return nil, err
		}
		defer client.Close()
	}
	v := &verification{o: o, client: client}
	if err := v.run(ctx); err != nil {
		return nil, err
	}
	r := &v.report
	r.Requests, r.Retries, r.Bytes = client.requests.Load(), client.retries.Load(), client.bytes.Load()
	r.Took = time.Since(start)
	return r, nil
}

type verification struct {
	o        Options
	client   *Client
	verifier *checkpoint.Verifier
	head     checkpoint.TreeHead
	checker  *Checker
	promises []Promise

	mu     sync.Mutex
	report Report
}

func (v *verification) run(ctx context.Context) error {
	if err := v.identify(ctx); err != nil {
		return err
	}
	signed, head, err := ReadCheckpoint(ctx, v.client, v.verifier)
	if err != nil {
		return err
	}
	v.head = head
	v.report = Report{Origin: head.Origin, LogID: v.verifier.LogID(), Tree: head.Tree, Timestamp: head.Timestamp,
		Checkpoint: signed, Checkpoints: 1, LatestSize: head.Tree.N}
	known, err := v.readKnown()
	if err != nil {
		return err
	}
	if v.checker, err = NewChecker(ctx, v.client, head, CheckerOptions{Signatures: v.o.Signatures}, stop); err != nil {
		return err
	}
	for _, earlier := range known {
		if err := v.checker.Consistent(ctx, earlier, stop); err != nil {
			return err
		}
		v.report.Checkpoints++
	}
	v.promises = slices.Clone(v.o.Promises)
	slices.SortFunc(v.promises, func(a, b Promise) int { return int(a.Index - b.Index) })
	if n := len(v.promises); n > 0 && v.promises[n-1].Index >= head.Tree.N {
		p := v.promises[n-1]
		return entryFault("checkpoint", p.Index, "promised, but the tree has only %d entries", head.Tree.N)
	}
	if len(v.promises) > 0 && v.promises[0].Index < 0 {
		return fault("checkpoint", "promised index %d is no place in a tree", v.promises[0].Index)
	}
	if v.checker.o.Names, err = OffersNames(ctx, v.client, head.Tree.N); err != nil {
		return err
	}
	if err := v.walk(ctx); err != nil {
		return err
	}
	v.report.Promises = len(v.promises)
	v.report.HashTiles = v.checker.HashTiles()
	v.report.Issuers = v.checker.Issuers()
	return v.checkAgain(ctx)
}

// identify finds out the log's key and origin.
func (v *verification) identify(ctx context.Context) error {
	info := LogInfo{Origin: v.o.Origin, Key: v.o.Key}
	var err error
	if info.Origin == "" || len(info.Key) == 0 {
		if info, err = v.client.Identify(ctx, v.o.Origin, v.o.Key); err != nil {
			return err
		}
	}
	if v.verifier, err = checkpoint.NewVerifier(info.Origin, info.Key); err != nil {
		if len(v.o.Key) == 0 {
			return fault(infoName, "%v", err)
		}
		return err
	}
	return nil
}

// ReadCheckpoint reads a log's present checkpoint and verifies its signature.
func ReadCheckpoint(ctx context.Context, src Source, verifier *checkpoint.Verifier) ([]byte, checkpoint.TreeHead, error) {
	signed, err := src.Get(ctx, checkpointName, checkpoint.MaxNoteSize)
	if errors.Is(err, ErrNotFound) {
		return nil, checkpoint.TreeHead{}, missing(checkpointName, "")
	}
	if err != nil {
		return nil, checkpoint.TreeHead{}, err
	}
	head, f := VerifyCheckpoint(checkpointName, signed, verifier)
	if f != nil {
		return nil, head, f
	}
	return signed, head, nil
}

const checkpointName = "checkpoint"

// VerifyCheckpoint verifies the signature of a checkpoint that was read from
// the named object.
func VerifyCheckpoint(object string, signed []byte, verifier *checkpoint.Verifier) (checkpoint.TreeHead, *Fault) {
	head, err := verifier.Verify(signed)
	if err == nil {
		return head, nil
	}
	if origin, _, _ := strings.Cut(string(signed), "\n"); origin != verifier.Origin() && len(origin) < 200 {
		return head, fault(object, "is of another log").values(fmt.Sprintf("%q", origin), fmt.Sprintf("%q", verifier.Origin()))
	}
	return head, fault(object, "%s", strings.TrimPrefix(err.Error(), "checkpoint of "+verifier.Origin()+": "))
}

// readKnown returns the checkpoints seen before, which the present one must
// not lag behind.
func (v *verification) readKnown() ([]checkpoint.TreeHead, error) {
	var heads []checkpoint.TreeHead
	for _, signed := range v.o.Known {
		known, err := v.verifier.Verify(signed)
		if err != nil {
			return nil, fmt.Errorf("reading a checkpoint that was seen before: %w", err)
		}
		if known.Tree.N > v.head.Tree.N {
			return nil, fault("checkpoint", "size has gone back since the checkpoint of %s", stamp(known.Timestamp)).
				values(fmt.Sprintf("%d at %s", v.head.Tree.N, stamp(v.head.Timestamp)), fmt.Sprintf("at least %d", known.Tree.N))
		}
		if known.Timestamp > v.head.Timestamp {
			return nil, fault("checkpoint", "timestamp has gone back").values(stamp(v.head.Timestamp), "at least "+stamp(known.Timestamp))
		}
		heads = append(heads, known)
	}
	return heads, nil
}

// checkAgain reads the checkpoint once more and verifies that the log only
// grew in the meantime.
func (v *verification) checkAgain(ctx context.Context) error {
	signed, head, err := ReadCheckpoint(ctx, v.client, v.verifier)
	if err != nil {
		return err
	}
	if head == v.head {
		return nil
	}
	if head.Tree.N < v.head.Tree.N {
		return fault("checkpoint", "size went back while the log was read").values(head.Tree.N, fmt.Sprintf("at least %d", v.head.Tree.N))
	}
	if head.Timestamp < v.head.Timestamp {
		return fault("checkpoint", "timestamp went back while the log was read").values(stamp(head.Timestamp), fmt.Sprintf("at least %s", stamp(v.head.Timestamp)))
	}
	later := v.checker
	if head.Tree != v.head.Tree {
		if later, err = NewChecker(ctx, v.client, head, CheckerOptions{}, stop); err != nil {
			return err
		}
	}
	if err := later.Consistent(ctx, v.head, stop); err != nil {
		return err
	}
	v.report.Checkpoint, v.report.LatestSize = signed, head.Tree.N
	v.report.Checkpoints++
	return nil
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
