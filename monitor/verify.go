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
	tree     *tree
	issuers  *issuers
	names    bool // the log offers names tiles
	promises []Promise

	mu     sync.Mutex
	report Report
}

func (v *verification) run(ctx context.Context) error {
	if err := v.identify(ctx); err != nil {
		return err
	}
	signed, head, err := v.checkpoint(ctx)
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
	if v.tree, err = openTree(ctx, v.client, head.Tree); err != nil {
		return err
	}
	for _, earlier := range known {
		if err := v.consistent(ctx, v.tree, earlier); err != nil {
			return err
		}
		v.report.Checkpoints++
	}
	v.issuers = newIssuers(v.client)
	v.promises = slices.Clone(v.o.Promises)
	slices.SortFunc(v.promises, func(a, b Promise) int { return int(a.Index - b.Index) })
	if n := len(v.promises); n > 0 && v.promises[n-1].Index >= head.Tree.N {
		p := v.promises[n-1]
		return entryFault("checkpoint", p.Index, "promised, but the tree has only %d entries", head.Tree.N)
	}
	if len(v.promises) > 0 && v.promises[0].Index < 0 {
		return fault("checkpoint", "promised index %d is no place in a tree", v.promises[0].Index)
	}
	if v.names, err = v.offersNames(ctx); err != nil {
		return err
	}
	if err := v.walk(ctx); err != nil {
		return err
	}
	v.report.Promises = len(v.promises)
	v.report.HashTiles = v.tree.tiles
	v.report.Issuers = v.issuers.count()
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

// checkpoint reads the log's present checkpoint and verifies its signature.
func (v *verification) checkpoint(ctx context.Context) ([]byte, checkpoint.TreeHead, error) {
	signed, err := v.client.Get(ctx, "checkpoint", checkpoint.MaxNoteSize)
	if errors.Is(err, ErrNotFound) {
		return nil, checkpoint.TreeHead{}, missing("checkpoint", "")
	}
	if err != nil {
		return nil, checkpoint.TreeHead{}, err
	}
	head, err := v.verifier.Verify(signed)
	if err != nil {
		if origin, _, _ := strings.Cut(string(signed), "\n"); origin != v.verifier.Origin() && len(origin) < 200 {
			return nil, head, fault("checkpoint", "is of another log").values(fmt.Sprintf("%q", origin), fmt.Sprintf("%q", v.verifier.Origin()))
		}
		return nil, head, fault("checkpoint", "%s", strings.TrimPrefix(err.Error(), "checkpoint of "+v.verifier.Origin()+": "))
	}
	return signed, head, nil
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

// consistent verifies that a tree has grown from an earlier one (RFC 6962
// section 2.1.2, by the tree's own hashes instead of a proof).
func (v *verification) consistent(ctx context.Context, t *tree, earlier checkpoint.TreeHead) error {
	root, err := t.rootAt(ctx, earlier.Tree.N)
	if err != nil {
		return err
	}
	if root != earlier.Tree.Hash {
		return fault("checkpoint", "tree of size %d is not consistent with the checkpoint of size %d and %s: the log shows two histories",
			t.head.N, earlier.Tree.N, stamp(earlier.Timestamp)).values(root, earlier.Tree.Hash)
	}
	return nil
}

// checkAgain reads the checkpoint once more and verifies that the log only
// grew in the meantime.
func (v *verification) checkAgain(ctx context.Context) error {
	signed, head, err := v.checkpoint(ctx)
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
	later := v.tree
	if head.Tree != v.head.Tree {
		if later, err = openTree(ctx, v.client, head.Tree); err != nil {
			return err
		}
	}
	if err := v.consistent(ctx, later, v.head); err != nil {
		return err
	}
	v.report.Checkpoint, v.report.LatestSize = signed, head.Tree.N
	v.report.Checkpoints++
	return nil
}

// offersNames tells whether the log has names tiles, which are optional: it
// does if it has the first or the last one.
func (v *verification) offersNames(ctx context.Context) (bool, error) {
	if v.head.Tree.N == 0 {
		return false, nil
	}
	last := (v.head.Tree.N - 1) / tlog.TileWidth
	for _, n := range []int64{last, 0} {
		var f *Fault
		_, _, err := v.client.tile(ctx, v.leafTile(tlog.NamesLevel, n), maxNamesTile)
		switch {
		case errors.Is(err, ErrNotFound):
		case err == nil, errors.As(err, &f): // a broken one is there, too
			return true, nil
		default:
			return false, err
		}
	}
	return false, nil
}

// leafTile returns data or names tile n as the tree head implies it.
func (v *verification) leafTile(level int, n int64) tlog.Tile {
	return tlog.Tile{L: level, N: n, W: int(min(v.head.Tree.N-n*tlog.TileWidth, tlog.TileWidth))}
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
