package server

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/fsck"
	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/internal/server/prefix"
	"github.com/daybook-ct/daybook/readpath"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
	"github.com/daybook-ct/daybook/submission"
	"github.com/daybook-ct/daybook/submission/rootsource"
	"github.com/daybook-ct/daybook/tlog"
)

// LogOptions say what one log is made of. Fields are required unless they have
// a default or say that they are optional.
type LogOptions struct {
	Name string // short, for log lines and metrics

	// The URLs below which the log is reached, as [prefix.Parse] takes them.
	// MonitoringPrefix is SubmissionPrefix by default; the two may share a host
	// and a path.
	SubmissionPrefix string
	MonitoringPrefix string
	// Origin is the name of the log in its checkpoints: by default the
	// submission prefix without scheme and trailing slash, as static-ct-api
	// has it. Only development logs, whose port changes, have another one.
	Origin string

	KeyFile          string // a seed, or a PKCS#8 PEM file with an ECDSA P-256 key
	StorageDirectory string
	LockPath         string // SQLite database, may be shared by logs
	CachePath        string // SQLite database
	PageCache        int64  // bytes per connection of the cache; default 1 GiB

	// The accepted roots: PEM files, or directories of them; reports of CCADB
	// in CSV, files or URLs; and the root of Chrome's merge delay monitor. At
	// least one must be named.
	RootFiles         []string
	CCADB             []string
	MergeDelayMonitor bool

	// The file of the round records, none if it is empty, and the most bytes that
	// it and the older one beside it take.
	RoundsPath string
	RoundsSize int64

	// Start and limit of the NotAfter window; zero leaves an end open.
	WindowStart, WindowLimit time.Time

	// The floors of what the file systems of storage, cache and lock must have
	// free, in bytes and in inodes, for entries to be taken, and the space below
	// which it is told that they come near; 0 is no bound.
	MinFree, WarnFree int64
	MinFreeInodes     int64
	// ScrubRate is how many data tiles a second are read and verified again; 0 is
	// none.
	ScrubRate int

	Interval time.Duration
	PoolSize int // 0 is no limit
	// DuplicateRate is how many low-priority duplicates a second one network gets
	// answers for; 0 is no limit.
	DuplicateRate float64
	// DuplicateExempt are networks to which DuplicateRate does not apply.
	DuplicateExempt []netip.Prefix
	// Sunset is when the log becomes read-only for good; zero is never.
	Sunset time.Time

	AcceptAnyEKU         bool
	RefusePrecertSigning bool
}

// Identity is what is public about a log's key.
type Identity struct {
	Origin      string
	LogID       [32]byte
	PublicKey   []byte // SubjectPublicKeyInfo, DER
	VerifierKey string // vkey of the ML-DSA-44 cosignatures; "" if the key is a PEM file
}

// LogIDBase64 returns the log ID as it stands in SCTs and log lists.
func (id Identity) LogIDBase64() string { return base64.StdEncoding.EncodeToString(id.LogID[:]) }

// PublicKeyBase64 returns the public key as it stands in log lists.
func (id Identity) PublicKeyBase64() string { return base64.StdEncoding.EncodeToString(id.PublicKey) }

// PublicKeyPEM returns the public key as a PEM block.
func (id Identity) PublicKeyPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: id.PublicKey})
}

// IdentityOf returns what is public about a log's key.
func IdentityOf(s *checkpoint.Signer) Identity {
	return Identity{Origin: s.Origin(), LogID: s.LogID(), PublicKey: s.PublicKey(), VerifierKey: s.MLDSAVerifierKey()}
}

// maxKeyFile bounds a key file in bytes; a PEM file has some 250.
const maxKeyFile = 64 << 10

// rememberEvery is how long keys may wait for the dedup cache. A random key dirties
// a page of its own, which is written twice; rounds that share a put share
// pages and fsyncs. It is also how far back a crash makes recovery look.
const rememberEvery = time.Second

// ReadKey reads a key file and returns the signer of the log with this origin.
func ReadKey(path, origin string) (*checkpoint.Signer, error) {
	b, err := readFile(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the log's key: %w", err)
	}
	keys, err := checkpoint.ParseKey(b)
	if err != nil {
		return nil, fmt.Errorf("reading the log's key %s: %w", path, err)
	}
	return checkpoint.NewSigner(origin, keys)
}

// readFile reads a whole file that must not be larger than limit bytes.
func readFile(path string, limit int64) (b []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if b, err = io.ReadAll(io.LimitReader(f, limit+1)); err == nil && int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, err
}

// prefixes returns the prefixes and the origin of a log.
func (o *LogOptions) prefixes() (sub, mon prefix.Prefix, origin string, err error) {
	if sub, err = prefix.Parse(o.SubmissionPrefix); err != nil {
		return sub, mon, "", fmt.Errorf("submission prefix: %w", err)
	}
	mon = sub
	if o.MonitoringPrefix != "" {
		if mon, err = prefix.Parse(o.MonitoringPrefix); err != nil {
			return sub, mon, "", fmt.Errorf("monitoring prefix: %w", err)
		}
	}
	if origin = o.Origin; origin == "" {
		origin = sub.Origin()
	}
	return sub, mon, origin, nil
}

// capacity is the number of new entries a second that the log can take.
func (o *LogOptions) capacity() float64 {
	if o.PoolSize == 0 {
		return math.Inf(1)
	}
	return float64(o.PoolSize) / o.Interval.Seconds()
}

// openLog is one log of a server, with everything it holds open.
type openLog struct {
	o          LogOptions
	sub, mon   prefix.Prefix
	id         Identity
	log        *slog.Logger
	roots      *rootsource.Accepted
	sequencer  *sequencer.Log
	rounds     *rounds.Recorder
	submission *submission.Handler
	monitoring *readpath.Handler
	guard      *guard         // nil if there are no floors
	scrub      *fsck.Scrubber // nil without one
	closers    []func() error // in the order in which they were opened
}

// open opens a log and recovers it. On an error everything is closed again.
func open(ctx context.Context, o LogOptions, proxies []netip.Prefix, roots *rootsource.Loader, logger *slog.Logger, metrics prometheus.Registerer) (l *openLog, err error) {
	l = &openLog{o: o, log: logger.With("log", o.Name)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("log %s: %w", o.Name, errors.Join(err, l.close()))
			l = nil
		}
	}()
	var origin string
	if l.sub, l.mon, origin, err = o.prefixes(); err != nil {
		return l, err
	}
	signer, err := ReadKey(o.KeyFile, origin)
	if err != nil {
		return l, err
	}
	l.id = IdentityOf(signer)
	sources, err := o.rootSources()
	if err != nil {
		return l, err
	}
	metrics = prometheus.WrapRegistererWith(prometheus.Labels{"log": o.Name}, metrics)
	c := sequencer.Config{Interval: o.Interval, PoolSize: o.PoolSize, DuplicateRate: o.DuplicateRate, DuplicateExempt: o.DuplicateExempt,
		RememberEvery: rememberEvery, Sunset: o.Sunset,
		Public: l.publicCheckpoint(), Names: names, Signer: signer, Logger: l.log, Metrics: metrics}
	store, err := posix.Open(o.StorageDirectory, posix.Options{Logger: l.log, Metrics: metrics})
	if err != nil {
		return l, err
	}
	l.closers = append(l.closers, store.Close)
	lock, err := sqlitelock.Open(o.LockPath, sqlitelock.Options{})
	if err != nil {
		return l, err
	}
	l.closers = append(l.closers, lock.Close)
	dedup, made, err := openCache(o, l.log, metrics)
	if err != nil {
		return l, err
	}
	l.closers = append(l.closers, dedup.Close)
	if l.rounds, err = recorder(o, store, l.log, metrics); err != nil {
		return l, err
	}
	l.closers = append(l.closers, l.rounds.Close)
	c.Store, c.Lock, c.Cache, c.Record, c.Room = store, lock, dedup, l.rounds.Record, store.Room
	if l.sequencer, err = sequencer.Open(ctx, c); err != nil {
		return l, explain(ctx, err, store, l.id)
	}
	if size := l.sequencer.Status().Tree.N; made && size > 0 {
		l.log.WarnContext(ctx, "the dedup cache was missing and starts empty: entries that come again are logged again", "path", o.CachePath, "size", size)
	}
	if err := writeMetadata(ctx, store, l, time.Now()); err != nil {
		return l, err
	}
	// Only now is it sure that the storage is this log's.
	l.roots, err = roots.Open(ctx, rootsource.LogOptions{Sources: sources, Store: store, Logger: l.log, Metrics: metrics})
	if err != nil {
		return l, fmt.Errorf("loading the accepted roots: %w", err)
	}
	if err := l.openKeepers(signer, metrics); err != nil {
		return l, err
	}
	return l, l.openHandlers(signer, proxies, metrics)
}

// openKeepers opens what looks after the storage while the log runs.
func (l *openLog) openKeepers(signer *checkpoint.Signer, metrics prometheus.Registerer) (err error) {
	if l.guard, err = newGuard(l.o, l.log, l.sequencer, metrics); err != nil {
		return err
	}
	if l.guard != nil {
		l.guard.check()
	}
	if l.o.ScrubRate == 0 {
		return nil
	}
	l.scrub, err = fsck.NewScrubber(fsck.ScrubOptions{Directory: l.o.StorageDirectory, Verifier: signer.Verifier(), Rate: l.o.ScrubRate,
		Logger: l.log, Metrics: metrics})
	if err == nil {
		l.closers = append(l.closers, l.scrub.Close)
	}
	return err
}

func (l *openLog) openHandlers(signer *checkpoint.Signer, proxies []netip.Prefix, metrics prometheus.Registerer) (err error) {
	l.submission, err = submission.NewHandler(submission.Options{
		Log: l.sequencer, Signer: signer, Roots: l.roots.Roots(), Preflight: l.sequencer.Preflight,
		Window:      submission.Window{Start: l.o.WindowStart, Limit: l.o.WindowLimit},
		AllowAnyEKU: l.o.AcceptAnyEKU, RefusePrecertSigning: l.o.RefusePrecertSigning,
		TrustedProxies: proxies, Logger: l.log, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	l.monitoring, err = readpath.New(l.o.StorageDirectory, readpath.Options{Prefix: l.mon.Path, Log: l.log, Registerer: metrics})
	if err != nil {
		return err
	}
	l.closers = append(l.closers, l.monitoring.Close)
	return nil
}

// openCache opens the dedup cache. One that is missing is made: losing it costs
// duplicates only (S8).
func openCache(o LogOptions, logger *slog.Logger, metrics prometheus.Registerer) (db *cache.DB, made bool, err error) {
	options := cache.Options{PageCache: o.PageCache, Statfs: cacheFilesystem(), Logger: logger, Metrics: metrics}
	db, err = cache.Open(o.CachePath, options)
	if errors.Is(err, fs.ErrNotExist) {
		options.Create, made = true, true
		db, err = cache.Open(o.CachePath, options)
	}
	return db, made, err
}

// explain adds to an error of opening the log what the operator may have mixed up.
func explain(ctx context.Context, err error, store storage.Store, id Identity) error {
	if !errors.Is(err, sequencer.ErrNoLog) {
		return err
	}
	if _, getErr := store.Get(ctx, "checkpoint"); getErr == nil {
		return fmt.Errorf("%w (log ID %s); the storage holds a checkpoint, though: is it the right key, and the right lock?", err, id.LogIDBase64())
	}
	return fmt.Errorf("%w (log ID %s): `daybook init` does that", err, id.LogIDBase64())
}

// recorder returns the recorder of a log's rounds.
func recorder(o LogOptions, store *posix.Store, logger *slog.Logger, metrics prometheus.Registerer) (*rounds.Recorder, error) {
	return rounds.NewRecorder(rounds.Options{Log: o.Name, Interval: o.Interval, PoolSize: o.PoolSize,
		Path: o.RoundsPath, MaxSize: o.RoundsSize, WALFile: walFile(o.CachePath), LockWALFile: walFile(o.LockPath),
		Fsyncs: store.Fsyncs, Logger: logger, Metrics: metrics})
}

// walFile returns the WAL of an SQLite database that is open. It stands beside
// the file that a symbolic link leads to.
func walFile(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path + "-wal"
}

// names returns the names of an entry as names tiles have them.
func names(e *tlog.Entry) []byte {
	der := e.Precertificate()
	if der == nil {
		der = e.Certificate()
	}
	c, err := cert.Parse(der)
	if err != nil {
		return nil // it was logged by a program with other ideas of a certificate
	}
	return c.NamesJSON()
}

// close closes what is open, the last first. The cache runs its last WAL
// checkpoint.
func (l *openLog) close() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	l.closers = nil
	return errors.Join(errs...)
}

// state returns what the health of the log is judged by.
func (l *openLog) state() obs.LogState {
	s := l.sequencer.Status()
	return obs.LogState{Name: l.o.Name, Origin: l.id.Origin, Interval: l.o.Interval, Size: s.Tree.N,
		Published: s.Published, Draining: s.Draining, Halted: s.Halted, Refusing: s.Blocked}
}

// announce says at the start what is served and how fast it may go.
func (l *openLog) announce(ctx context.Context) {
	capacity := "no limit"
	if l.o.PoolSize > 0 {
		capacity = fmt.Sprintf("%d / %v = %.4g/s", l.o.PoolSize, l.o.Interval, l.o.capacity())
	}
	attrs := []any{"origin", l.id.Origin, "log_id", l.id.LogIDBase64(), "size", l.sequencer.Status().Tree.N,
		"capacity", capacity, "submission_prefix", l.sub.String(), "monitoring_prefix", l.mon.String(), "roots", l.roots.Roots().Len()}
	if !l.o.WindowLimit.IsZero() {
		attrs = append(attrs, "window_start", l.o.WindowStart.UTC().Format(time.RFC3339), "window_limit", l.o.WindowLimit.UTC().Format(time.RFC3339))
	}
	l.log.InfoContext(ctx, "log is served", attrs...)
}
