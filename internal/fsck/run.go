package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// Options say what Run checks.
type Options struct {
	// Directory is the storage directory, or Source reads the log in another
	// way; then Target names it in a state file. Only a directory is searched
	// for leftovers and for issuers that no entry has.
	Directory string
	Source    monitor.Source
	Target    string

	// Origin and Key, a DER SubjectPublicKeyInfo, are taken from the log's own
	// log.v3.json where they are not given.
	Origin string
	Key    []byte

	Lock string // lock database; optional

	// Cache is the dedup cache; optional. Of its rows Sample are checked, chosen
	// at random; or, if All, every row, and whether each leaf has one.
	Cache  string
	Sample int
	All    bool

	// Signatures verifies the signatures of all chains.
	Signatures bool
	// FirstNames is the first names tile that must be there, for logs that did
	// not always have them.
	FirstNames int64

	// Workers is the number of tiles that are checked at a time; default 2.
	Workers int
	// Rates of reading, per second; 0 is no bound. Of the cache nothing counts.
	BytesPerSecond, ObjectsPerSecond int64

	// State is a file in which an interrupted run notes how far it came, and the
	// next one with the same options goes on. It is removed at the end.
	State string
	// Grace is how long the traces of a round may be seen before they are
	// findings, since the log may be running; default 3 s.
	Grace time.Duration

	// Found, if not nil, is told each finding when it is found, and Progress
	// how far the run is. Both are called by one goroutine at a time.
	Found    func(Finding)
	Progress func(Progress)
}

// DefaultGrace is the default of Options.Grace.
const DefaultGrace = 3 * time.Second

// Progress tells how far a run is.
type Progress struct {
	Phase       string // "files", "tiles", "rows"
	Done, Total int64  // files, tiles or rows; Total is 0 if it is not known
	Findings    int64
	Bytes       int64 // read from the store
}

// Report tells what was checked.
type Report struct {
	Origin    string
	LogID     [32]byte
	Tree      tlog.Tree
	Timestamp int64 // of the checkpoint, milliseconds since the Unix epoch
	Resumed   bool  // an interrupted run was gone on with

	Findings []Finding // the first mostFindings, sorted by object
	Count    int64     // of all findings

	Counts
	HashTiles int64 // verified by this process
	Issuers   int   // distinct issuers of entries, verified by this process

	Files           int64 // in the storage directory
	EarlierPartials int64 // files of partial tiles that are not the last ones: normal
	StoredIssuers   int64 // issuers in the storage directory
	Locked          bool  // the lock was compared

	Sampled   int64 // rows of the cache, if not all
	Rows      int64 // rows of the cache that were counted
	NewerRows int64 // rows beyond the tree that was checked: the log is running

	Took time.Duration
}

// Counts are what was verified of the tiles, also before an interruption.
type Counts struct {
	DataTiles  int64 `json:"data_tiles"`
	NamesTiles int64 `json:"names_tiles"`
	Entries    int64 `json:"entries"`
	Precerts   int64 `json:"precerts"`
	Signatures int64 `json:"signatures"`
	Matched    int64 `json:"matched"`    // leaves that have their row in the cache
	Duplicates int64 `json:"duplicates"` // leaves whose row is, rightly, that of a copy of them
	Added      int64 `json:"added"`      // rows that Rebuild made
}

func (c *Counts) add(d Counts) {
	c.DataTiles += d.DataTiles
	c.NamesTiles += d.NamesTiles
	c.Entries += d.Entries
	c.Precerts += d.Precerts
	c.Signatures += d.Signatures
	c.Matched += d.Matched
	c.Duplicates += d.Duplicates
	c.Added += d.Added
}

// ErrNothingToCheck means that neither the storage nor the lock has a
// checkpoint that could be verified, so that nothing says what the tree is. The
// report has the findings so far.
var ErrNothingToCheck = errors.New("no checkpoint can be verified, so nothing says what the tree is")

// run is one run.
type run struct {
	o        Options
	start    time.Time
	pace     *pacer
	src      monitor.Source
	dir      *directory // nil without one
	verifier *checkpoint.Verifier
	signed   []byte // of head
	head     checkpoint.TreeHead
	checker  *monitor.Checker
	leaves   *leafReader
	cache    *rows // nil without one
	found    *findings
	inTiles  *findings // those of found that are part of the state
	state    *state
	report   Report
}

// Run checks a log. The error is nil if all could be looked at, whatever was
// found; after another one the report, if there is one, has what was found
// before.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &run{o: o, start: time.Now(), pace: newPacer(o.BytesPerSecond, o.ObjectsPerSecond), found: newFindings(o.Found), inTiles: newFindings(nil)}
	r.o.setDefaults()
	if o.Directory != "" {
		var err error
		if r.dir, err = openDirectory(o.Directory, r.pace); err != nil {
			return nil, err
		}
		defer func() { _ = r.dir.Close() }() // only read
		r.src = r.dir
	} else {
		r.src = paced{o.Source, r.pace}
	}
	err := r.run(ctx)
	if r.cache != nil {
		err = errors.Join(err, r.cache.Close())
	}
	if r.verifier == nil {
		return nil, err
	}
	r.report.Findings, r.report.Count = sorted(r.found.all()), r.found.count()
	r.report.Took = time.Since(r.start)
	return &r.report, err
}

func (o *Options) setDefaults() {
	if o.Workers <= 0 {
		o.Workers = min(2, runtime.GOMAXPROCS(0))
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.Directory != "" {
		o.Target = o.Directory
	}
}

func (r *run) run(ctx context.Context) error {
	if err := r.identify(ctx); err != nil {
		return err
	}
	if err := r.heads(ctx); err != nil {
		return err
	}
	if err := r.info(ctx); err != nil {
		return err
	}
	var left *leftovers
	if r.dir != nil {
		var err error
		if left, err = r.files(ctx); err != nil {
			return err
		}
	}
	if r.signed == nil {
		return errors.Join(r.settle(ctx, left), ErrNothingToCheck)
	}
	if err := r.openState("fsck"); err != nil {
		return err
	}
	if err := r.openCache(ctx); err != nil {
		return err
	}
	if err := r.openTree(ctx); err != nil {
		return err
	}
	if err := r.tiles(ctx); err != nil {
		return errors.Join(err, r.saveState())
	}
	r.report.HashTiles, r.report.Issuers = r.checker.HashTiles(), r.checker.Issuers()
	if r.cache != nil {
		if err := r.checkRows(ctx); err != nil {
			return errors.Join(err, r.saveState())
		}
	}
	if err := r.settle(ctx, left); err != nil {
		return errors.Join(err, r.saveState())
	}
	if err := r.again(ctx); err != nil {
		return errors.Join(err, r.saveState())
	}
	return r.removeState()
}

// identify finds out the log's key and origin.
func (r *run) identify(ctx context.Context) error {
	info, err := monitor.Identify(ctx, r.src, r.o.Origin, r.o.Key)
	if f := (*monitor.Fault)(nil); errors.As(err, &f) {
		return errors.New(finding(f).String())
	}
	if err != nil {
		return err
	}
	if r.verifier, err = checkpoint.NewVerifier(info.Origin, info.Key); err != nil {
		return err
	}
	r.report.Origin, r.report.LogID = info.Origin, r.verifier.LogID()
	return nil
}

// info looks at log.v3.json, which a log without entries may not have yet.
func (r *run) info(ctx context.Context) error {
	stated, err := monitor.ReadInfo(ctx, r.src)
	switch {
	case errors.Is(err, monitor.ErrNotFound) && r.signed != nil && r.head.Tree.N == 0:
		return nil
	case errors.Is(err, monitor.ErrNotFound):
		return r.found.fault(damagef("log.v3.json", "is missing: the log writes it when it starts"))
	case err != nil:
		return r.tell(err)
	case stated.LogID != r.verifier.LogID():
		return r.found.fault(&monitor.Fault{Object: "log.v3.json", Entry: -1, What: "is of a log with another key",
			Got: fmt.Sprintf("log ID %x", stated.LogID), Want: fmt.Sprintf("%x", r.verifier.LogID())})
	}
	return nil
}

// tell makes a finding of an error that is a fault.
func (r *run) tell(err error) error {
	if f := (*monitor.Fault)(nil); errors.As(err, &f) {
		return r.found.fault(f)
	}
	return err
}

// heads reads the published checkpoint and the lock's, compares them, and
// chooses the tree that is checked: the published one, if it can be verified.
//
// A log that runs may be between commit and publish. So the lock's may be newer,
// if it is, or a later one, is published soon after; but what was published
// before the lock was read cannot be newer.
func (r *run) heads(ctx context.Context) error {
	public, err := r.published(ctx)
	if err != nil {
		return err
	}
	lock := registered{err: errNoLock}
	if r.o.Lock != "" {
		lock = r.locked()
	}
	passed := false // the log has published what was in the lock, and gone on
	for public.ok() && lock.ok() && lock.newer(public) && !passed && time.Since(r.start) < r.o.Grace {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if public, err = r.published(ctx); err != nil {
			return err
		}
		passed = public.ok() && public.newer(lock)
	}
	return r.judge(public, lock, passed)
}

// registered is a checkpoint as it was read.
type registered struct {
	signed []byte
	head   checkpoint.TreeHead
	fault  *monitor.Fault // what is wrong with it
	err    error          // why it could not be read
}

func (c *registered) ok() bool { return c.fault == nil && c.err == nil }

// newer tells whether c was signed after d.
func (c *registered) newer(d registered) bool { return c.head.Timestamp > d.head.Timestamp }

var errNoLock = errors.New("no lock was given")

func (r *run) published(ctx context.Context) (c registered, err error) {
	c.signed, c.head, err = monitor.ReadCheckpoint(ctx, r.src, r.verifier)
	if errors.As(err, &c.fault) {
		err = nil
	}
	return c, err
}

func (r *run) locked() (c registered) {
	c.signed, c.err = readLock(r.o.Lock, r.verifier.LogID())
	switch {
	case c.err == nil:
		c.head, c.fault = monitor.VerifyCheckpoint(LockObject, c.signed, r.verifier)
	case errors.Is(c.err, fs.ErrNotExist):
		c.fault, c.err = damagef(LockObject, "there is no lock database at %s", r.o.Lock), nil
	case errors.Is(c.err, storage.ErrNotFound):
		c.fault, c.err = damagef(LockObject, "it has no register of this log"), nil
	case errors.Is(c.err, errDamaged):
		c.fault, c.err = damagef(LockObject, "%v", c.err), nil
	}
	return c
}

// judge tells what is wrong with the two checkpoints.
func (r *run) judge(public, lock registered, passed bool) error {
	if lock.err != nil && !errors.Is(lock.err, errNoLock) {
		return fmt.Errorf("reading the lock: %w", lock.err)
	}
	for _, c := range []registered{public, lock} {
		if c.fault != nil {
			if err := r.found.fault(c.fault); err != nil {
				return err
			}
		}
	}
	switch {
	case public.ok():
		r.signed, r.head = public.signed, public.head
	case lock.ok():
		r.signed, r.head = lock.signed, lock.head
	}
	r.report.Tree, r.report.Timestamp = r.head.Tree, r.head.Timestamp
	r.report.Locked = lock.ok()
	if !public.ok() || !lock.ok() || passed || string(public.signed) == string(lock.signed) {
		return nil
	}
	say := func(what string) error {
		return r.found.fault(&monitor.Fault{Object: LockObject, Entry: -1, What: what,
			Got: describe(lock.head), Want: describe(public.head)})
	}
	p, l := public.head, lock.head
	switch {
	case p == l:
		return r.found.fault(damagef("checkpoint", "says what the lock's says, but in other bytes: one of the two was changed in a part that nobody verifies"))
	case p.Tree.N == l.Tree.N && p.Tree.Hash != l.Tree.Hash:
		return say("holds another tree of the same size than the published one: the log has forked, do not start it")
	case p.Tree.N > l.Tree.N || p.Timestamp > l.Timestamp:
		return say("is older than the published checkpoint: do not start the log, it may have been restored from a backup")
	}
	return say("is newer than the published checkpoint: a round was not finished; start the log, which finishes it, or find out why it halted")
}

func describe(h checkpoint.TreeHead) string {
	return fmt.Sprintf("size %d of %s, root %v", h.Tree.N, time.UnixMilli(h.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z"), h.Tree.Hash)
}

// openTree reads the right edge of the tree.
func (r *run) openTree(ctx context.Context) (err error) {
	o := monitor.CheckerOptions{Signatures: r.o.Signatures, FirstNames: r.o.FirstNames, Thorough: true}
	if o.Names, err = monitor.OffersNames(ctx, r.src, r.head.Tree.N); err != nil {
		return err
	}
	if r.checker, err = monitor.NewChecker(ctx, r.src, r.head, o, r.found.fault); err != nil {
		return err
	}
	r.leaves, err = newLeafReader(ctx, r.src, r.head)
	return err
}

// again reads the published checkpoint once more: the log may only have grown.
func (r *run) again(ctx context.Context) error {
	public, err := r.published(ctx)
	if err != nil || public.fault != nil { // which was told, unless it is new
		return r.tell(errors.Join(err, asError(public.fault)))
	}
	h := public.head
	if h == r.head {
		return nil
	}
	say := func(what string) error {
		return r.found.fault(&monitor.Fault{Object: "checkpoint", Entry: -1, What: what, Got: describe(h), Want: "not before " + describe(r.head)})
	}
	switch {
	case h.Tree.N < r.head.Tree.N:
		return say("size went back while the log was checked")
	case h.Timestamp < r.head.Timestamp:
		return say("timestamp went back while the log was checked")
	}
	later, err := monitor.NewChecker(ctx, r.src, h, monitor.CheckerOptions{Thorough: true}, r.found.fault)
	if err != nil {
		return err
	}
	return later.Consistent(ctx, r.head, r.found.fault)
}

// asError avoids the error that holds a nil pointer.
func asError(f *monitor.Fault) error {
	if f == nil {
		return nil
	}
	return f
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *run) progress(phase string, done, total int64) {
	if r.o.Progress != nil {
		r.o.Progress(Progress{Phase: phase, Done: done, Total: total, Findings: r.found.count(), Bytes: r.pace.bytes.Load()})
	}
}
