package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"zombiezen.com/go/sqlite"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/storage"
)

// ErrClosed is returned by operations on a closed DB.
var ErrClosed = errors.New("dedup cache is closed")

// ErrWALFull is returned by Put while the WAL is larger than Options.MaxWAL
// because another process, a shell or a backup, keeps a read transaction open.
var ErrWALFull = errors.New("the WAL of the dedup cache has reached its limit: end the read transaction that another process has open on it")

// Defaults of Options.
const (
	DefaultPageCache           = 1 << 30
	DefaultBusyTimeout         = 100 * time.Millisecond
	DefaultReaderTimeout       = 50 * time.Millisecond
	DefaultMaxWAL              = 1 << 30
	defaultOpenTimeout         = 5 * time.Second
	minPageCache               = 64 << 10
	connections                = 2
	maxPageCache         int64 = 1 << 46 // cache_size is an int32 of KiB, and no machine has more
)

// Options of Open. The zero value is usable.
type Options struct {
	// PageCache is the most memory in bytes that each of the two connections
	// uses for database pages; 0 means DefaultPageCache.
	PageCache int64
	// BusyTimeout bounds how long Get and Put wait for a lock that another process
	// holds; 0 means DefaultBusyTimeout. Nothing in this process makes them wait.
	BusyTimeout time.Duration
	// ReaderTimeout bounds how long Checkpoint waits for readers; 0 means
	// DefaultReaderTimeout. The resolution is a millisecond. While a reader stays,
	// each Checkpoint waits half as long as the one before.
	ReaderTimeout time.Duration
	// MaxWAL is the size in bytes of the WAL from which on Put fails with
	// ErrWALFull; 0 means DefaultMaxWAL. Only an outside reader lets it grow so far.
	MaxWAL int64
	// Create makes a new cache if the file is absent or empty. Without it that is
	// an error, which wraps fs.ErrNotExist.
	Create bool
	// Statfs tells the type of the filesystem a directory is on; nil asks the system.
	Statfs func(dir string) (FSType, error)
	// Logger gets one line when the cache is opened; nil means none.
	Logger *slog.Logger
	// Metrics is where metrics are registered until Close; nil means nowhere.
	// Several caches need a registerer that adds a label each.
	Metrics prometheus.Registerer

	openTimeout time.Duration // how long Open waits for another process to let go of the file
}

// DB is the dedup cache of one log. All methods are safe for concurrent use:
// Puts and Checkpoints take turns, and a Get waits for neither. It implements
// storage.Cache.
type DB struct {
	path    string
	busy    time.Duration // Options.BusyTimeout
	readers time.Duration // Options.ReaderTimeout
	metrics *metrics

	// Gets use main, too, unless it is busy with a Put or a Checkpoint: only
	// the connection that writes keeps its page cache, the commit of another one
	// empties it. aside serves the Gets that would have to wait.
	main, aside conn

	maxWAL int64 // Options.MaxWAL

	// Used with main.
	put, wal *sqlite.Stmt
	busyRuns int              // WAL checkpoints in a row that a reader kept from finishing
	walSize  int64            // bytes in use at the last of them; 0 after one that finished
	sorted   []storage.Record // Put's buffer
}

// conn is a connection with its prepared read statement.
type conn struct {
	mu  sync.Mutex
	c   *sqlite.Conn // nil once closed
	get *sqlite.Stmt
}

var _ storage.Cache = (*DB)(nil)

// Open opens the dedup cache in the file at path. Its settings are read back,
// logged and exported; Open fails if one is not in force, but for the page size,
// which an existing file keeps. A file that is not a dedup cache is an error that wraps
// ErrFormat; its content is left as it is.
func Open(path string, o Options) (*DB, error) {
	db, err := open(path, &o)
	if err != nil {
		return nil, fmt.Errorf("dedup cache %s: %w", path, err)
	}
	return db, nil
}

func (o *Options) setDefaults() error {
	if o.PageCache == 0 {
		o.PageCache = DefaultPageCache
	}
	if o.PageCache < minPageCache || o.PageCache > maxPageCache/connections {
		return fmt.Errorf("page cache of %d bytes is out of range: give at least %d", o.PageCache, minPageCache)
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = DefaultBusyTimeout
	}
	if o.ReaderTimeout == 0 {
		o.ReaderTimeout = DefaultReaderTimeout
	}
	if o.MaxWAL == 0 {
		o.MaxWAL = DefaultMaxWAL
	}
	if o.BusyTimeout < 0 || o.ReaderTimeout < time.Millisecond {
		return fmt.Errorf("timeouts %v and %v: the first must be positive, the second at least 1ms", o.BusyTimeout, o.ReaderTimeout)
	}
	if o.openTimeout == 0 {
		o.openTimeout = defaultOpenTimeout
	}
	if o.Statfs == nil {
		o.Statfs = statfs
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func open(path string, o *Options) (_ *DB, err error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if path, err = resolve(path); err != nil {
		return nil, err
	}
	if err := checkFile(path, o.Create); err != nil {
		return nil, err
	}
	// The process before may have met an fsync that failed: see durable.Reread.
	if err := durable.Reread(path + "-wal"); err != nil {
		return nil, err
	}
	fsType, statfsErr := o.Statfs(filepath.Dir(path))
	pragmas := settings(o.PageCache, synchronous(fsType, statfsErr))

	db := &DB{path: path, busy: o.BusyTimeout, readers: o.ReaderTimeout, maxWAL: o.MaxWAL}
	defer func() {
		if err != nil {
			_ = db.closeConns() // the first error is the one to tell
		}
	}()
	created, err := db.openMain(pragmas, o)
	if err != nil {
		return nil, err
	}
	inForce, err := db.openAside(pragmas)
	if err != nil {
		return nil, err
	}
	if db.metrics, err = newMetrics(o.Metrics, path, inForce, fsType.String()); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	logOpened(o.Logger, path, created, inForce, fsType, statfsErr)
	return db, nil
}

// openMain opens the connection that writes, and makes the table if the database
// is empty. Another program's database is not touched.
func (db *DB) openMain(pragmas []pragma, o *Options) (created bool, err error) {
	flags := sqlite.OpenReadWrite
	if o.Create {
		flags |= sqlite.OpenCreate
	}
	c, err := sqlite.OpenConn(db.path, flags)
	if err != nil {
		return false, err
	}
	db.main.c = c
	// The driver's own handler would wait for ever.
	c.SetBusyTimeout(o.openTimeout)
	empty, err := checkSchema(c)
	if err != nil {
		return false, err
	}
	if empty && !o.Create {
		return false, fmt.Errorf("database is empty: %w", errAbsent)
	}
	if _, err := apply(c, pragmas); err != nil {
		return false, err
	}
	if empty {
		if err := exec(c, schema); err != nil {
			return false, fmt.Errorf("making the table: %w", err)
		}
	}
	if err := prepare(c, map[string]**sqlite.Stmt{
		selectSQL: &db.main.get, insertSQL: &db.put, checkpointSQL: &db.wal,
	}); err != nil {
		return false, err
	}
	c.SetBusyTimeout(0) // operations wait by themselves, and can be cancelled
	return empty, nil
}

// openAside opens the connection that only reads, and returns the settings in
// force on it.
func (db *DB) openAside(pragmas []pragma) (inForce []pragma, err error) {
	c, err := sqlite.OpenConn(db.path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	db.aside.c = c
	c.SetBusyTimeout(DefaultBusyTimeout) // nobody but a process that came in between
	if inForce, err = apply(c, pragmas); err != nil {
		return nil, err
	}
	if err := exec(c, "PRAGMA query_only = 1"); err != nil {
		return nil, fmt.Errorf("setting query_only: %w", err)
	}
	if err := prepare(c, map[string]**sqlite.Stmt{selectSQL: &db.aside.get}); err != nil {
		return nil, err
	}
	c.SetBusyTimeout(0)
	return inForce, nil
}

func prepare(c *sqlite.Conn, stmts map[string]**sqlite.Stmt) (err error) {
	for sql, stmt := range stmts {
		if *stmt, err = c.Prepare(sql); err != nil {
			return fmt.Errorf("preparing %s: %w", sql, err)
		}
	}
	return nil
}

func logOpened(l *slog.Logger, path string, created bool, inForce []pragma, fsType FSType, statfsErr error) {
	attrs := []any{"path", path, "created", created, "filesystem", fsType.String(), "zfs", fsType.ZFS()}
	level, hint := slog.LevelInfo, ""
	if statfsErr != nil {
		level, hint = slog.LevelWarn, "filesystem type unknown, so every WAL checkpoint is synced"
		attrs = append(attrs, "statfs_error", statfsErr.Error())
	}
	for _, p := range inForce {
		value := p.value
		if p.name == "synchronous" {
			value = syncNames[value]
		}
		attrs = append(attrs, p.name, value)
		if p.name == "page_size" && p.value != strconv.Itoa(pageSize) {
			level, hint = slog.LevelWarn, fmt.Sprintf("page size is not %d: stop the log, then in the sqlite3 shell run PRAGMA journal_mode=DELETE; PRAGMA page_size=%d; VACUUM", pageSize, pageSize)
		}
	}
	if hint != "" {
		attrs = append(attrs, "hint", hint)
	}
	l.Log(context.Background(), level, "dedup cache opened", attrs...)
}

var errAbsent = fmt.Errorf("there is no dedup cache here, and making one was not asked for: %w", fs.ErrNotExist)

// resolve makes path absolute and follows a symbolic link, as the WAL, and thus
// the filesystem that counts, is where the link points.
func resolve(path string) (string, error) {
	if path == "" {
		return "", errors.New("path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		return filepath.Join(dir, filepath.Base(path)), nil
	}
	return filepath.EvalSymlinks(path)
}

// checkFile refuses what SQLite would report less clearly.
func checkFile(path string, create bool) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errAbsent
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%w: not a regular file", ErrFormat)
	}
	return nil
}

// Close runs a last WAL checkpoint and closes the database, after which it is
// one file. It waits for operations in progress; later ones return ErrClosed.
// Closing again does nothing.
func (db *DB) Close() error {
	db.main.mu.Lock()
	defer db.main.mu.Unlock()
	db.aside.mu.Lock()
	defer db.aside.mu.Unlock()
	if db.main.c == nil {
		return nil
	}
	db.metrics.unregister()
	_, err := db.checkpoint()
	if err := errors.Join(err, db.closeConns()); err != nil {
		return fmt.Errorf("closing the dedup cache %s: %w", db.path, err)
	}
	return nil
}

// closeConns closes the connections, the writing one last: the last one to
// close folds the WAL in and removes it.
func (db *DB) closeConns() error {
	var errs []error
	for _, c := range []*conn{&db.aside, &db.main} {
		if c.c != nil {
			errs = append(errs, c.c.Close())
			c.c = nil
		}
	}
	return errors.Join(errs...)
}
