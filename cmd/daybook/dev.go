package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/internal/server"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
)

// What stands in the directory of a development log.
const (
	devSeed    = "seed.bin"
	devLock    = "lock.db"
	devCache   = "cache.db"
	devData    = "data"
	devRoot    = "root.pem"
	devRootKey = "root-key.pem"
	devInfo    = "dev.json" // while it runs
)

// devDuplicateRate is what a configured log has by default.
const devDuplicateRate = 50

// devOptions are those of a development log.
type devOptions struct {
	dir, listen, roots, origin string
	windowStart, windowLimit   time.Time
	interval                   time.Duration
	poolSize                   int
}

// devDescription is dev.json: where a running development log is.
type devDescription struct {
	SubmissionPrefix string `json:"submission_prefix"`
	MonitoringPrefix string `json:"monitoring_prefix"`
	Origin           string `json:"origin"`
	PublicKey        string `json:"public_key"` // base64 of the SPKI
	PID              int    `json:"pid"`
	Metrics          string `json:"metrics"`
}

func newDev() *cobra.Command {
	var o devOptions
	var window string
	cmd := &cobra.Command{
		Use:   "dev --dir DIR",
		Short: "Run a development log without configuration",
		Long: `Creates a log in DIR, or continues the one there, and serves both its prefixes over
plain HTTP on a loopback address: for test suites of CAs, scripts, and a look
around. All that belongs to the log stands in DIR: the key seed.bin, the storage
data, the lock lock.db and the dedup cache cache.db.

Without --roots the log accepts a test root: it is made once and stands in
root.pem with its key root-key.pem; a root.pem that is there already is used.

When the log is ready, one line of JSON is printed and written to DIR/dev.json:
submission_prefix, monitoring_prefix, origin, public_key (base64 of the SPKI), pid
and metrics. The file is removed at the end. Log lines go to standard error.
SIGTERM and SIGINT end the log in order, with exit code 0.

A log keeps its origin for good. That of a new one is made up if none is given.`,
		Example: `  daybook dev --dir log
  daybook load --dev log --count 10000
  daybook verify "$(jq -r .monitoring_prefix log/dev.json)"`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dir == "" {
				return usagef("--dir is missing")
			}
			var err error
			if o.windowStart, o.windowLimit, err = parseWindow(window); err != nil {
				return usagef("--window: %w", err)
			}
			return runDev(cmd, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "the log's `DIR`ectory; made if it does not exist")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "loopback `ADDRESS` to serve on; port 0 takes a free one")
	flags.StringVar(&o.roots, "roots", "", "accepted roots, PEM `FILE`; default: a test root")
	flags.StringVar(&window, "window", "", "NotAfter window, `START/LIMIT` in RFC 3339; default: any NotAfter")
	flags.DurationVar(&o.interval, "interval", 200*time.Millisecond, "between rounds")
	flags.IntVar(&o.poolSize, "pool-size", 150, "entries that a round takes; 0 for no limit")
	flags.StringVar(&o.origin, "origin", "", "`NAME` of the log in its checkpoints")
	return cmd
}

// parseWindow reads START/LIMIT. Either may be empty, which leaves that end open.
func parseWindow(s string) (start, limit time.Time, err error) {
	if s == "" {
		return start, limit, nil
	}
	first, last, ok := strings.Cut(s, "/")
	if !ok {
		return start, limit, fmt.Errorf("%q is not START/LIMIT", s)
	}
	if first != "" {
		if start, err = time.Parse(time.RFC3339, first); err != nil {
			return start, limit, err
		}
	}
	if last != "" {
		if limit, err = time.Parse(time.RFC3339, last); err != nil {
			return start, limit, err
		}
	}
	if !start.IsZero() && !limit.IsZero() && !start.Before(limit) {
		return start, limit, fmt.Errorf("start %s is not before limit %s", first, last)
	}
	return start, limit, nil
}

func runDev(cmd *cobra.Command, o devOptions) error {
	d, err := startDev(cmd.Context(), o, func(registry obs.LoggerOptions) (*slog.Logger, error) {
		return obs.NewLogger(cmd.ErrOrStderr(), registry)
	})
	if err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(d.line); err != nil {
		return errors.Join(err, d.end())
	}
	return d.wait()
}

// devLog is a running development log.
type devLog struct {
	description devDescription
	line        []byte // description as it stands in dev.json
	server      *server.Server
	stop        context.CancelFunc
	dir         string
	held        *os.File // the directory, locked
}

// startDev creates or continues the log in a directory and serves it until ctx
// is done. The caller calls wait or end.
func startDev(ctx context.Context, o devOptions, newLogger func(obs.LoggerOptions) (*slog.Logger, error)) (d *devLog, err error) {
	if err := durable.MkdirAll(o.dir); err != nil {
		return nil, fmt.Errorf("making the log's directory: %w", err)
	}
	d = &devLog{dir: o.dir, stop: func() {}}
	if d.held, err = holdDirectory(o.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.stop()
			err = errors.Join(err, d.release())
			d = nil
		}
	}()
	build := obs.ReadBuild()
	registry, err := obs.NewRegistry(build)
	if err != nil {
		return d, err
	}
	logger, err := newLogger(obs.LoggerOptions{Metrics: registry})
	if err != nil {
		return d, err
	}
	listener, err := listenLoopback(o.listen)
	if err != nil {
		return d, err
	}
	lo, err := o.logOptions(ctx, listener.Addr(), logger)
	if err != nil {
		return d, errors.Join(err, listener.Close())
	}
	ctx, d.stop = context.WithCancel(ctx)
	boundGarbage()
	d.server, err = server.Start(ctx, server.Options{
		Logs: []server.LogOptions{lo}, Listeners: []net.Listener{listener}, AdminListen: "127.0.0.1:0",
		ExitOnHalt: true, ShutdownTimeout: 5 * time.Second, Logger: logger, Registry: registry,
	})
	if err != nil {
		return d, err
	}
	id := d.server.Identities()[0]
	url := "http://" + listener.Addr().String()
	d.description = devDescription{SubmissionPrefix: url, MonitoringPrefix: url, Origin: id.Origin, PublicKey: id.PublicKeyBase64(),
		PID: os.Getpid(), Metrics: "http://" + d.server.AdminAddr().String() + "/metrics"}
	if err := d.announce(); err != nil {
		d.stop()
		return d, errors.Join(err, d.server.Wait())
	}
	return d, nil
}

// announce writes dev.json.
func (d *devLog) announce() error {
	var err error
	if d.line, err = json.Marshal(d.description); err != nil {
		return err
	}
	d.line = append(d.line, '\n')
	if err := durable.WriteFile(filepath.Join(d.dir, devInfo), d.line, durable.Replace, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", devInfo, err)
	}
	return nil
}

// wait waits for the log's end.
func (d *devLog) wait() error {
	err := d.server.Wait()
	d.stop()
	if rerr := os.Remove(filepath.Join(d.dir, devInfo)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return errors.Join(err, d.release())
}

// end ends the log in order.
func (d *devLog) end() error {
	d.stop()
	return d.wait()
}

func (d *devLog) release() error { return d.held.Close() }

// listenLoopback listens on an address that only this machine can reach, since
// a development log takes anything from anybody.
func listenLoopback(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if a, err := netip.ParseAddrPort(l.Addr().String()); err != nil || !a.Addr().Unmap().IsLoopback() {
		return nil, errors.Join(usagef("--listen: %s is not a loopback address; daybook serve runs a public log", address), l.Close())
	}
	return l, nil
}

// logOptions returns what the log is made of. A log that is not there is
// created.
func (o *devOptions) logOptions(ctx context.Context, address net.Addr, logger *slog.Logger) (server.LogOptions, error) {
	// A file of a process that was killed would lead astray.
	if err := os.Remove(filepath.Join(o.dir, devInfo)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return server.LogOptions{}, err
	}
	at := func(name string) string { return filepath.Join(o.dir, name) }
	lo := server.LogOptions{
		Name:             "dev",
		SubmissionPrefix: "http://" + address.String() + "/",
		Origin:           o.origin,
		KeyFile:          at(devSeed),
		StorageDirectory: at(devData),
		LockPath:         at(devLock),
		CachePath:        at(devCache),
		WindowStart:      o.windowStart,
		WindowLimit:      o.windowLimit,
		Interval:         o.interval,
		PoolSize:         o.poolSize,
		DuplicateRate:    devDuplicateRate,
	}
	if o.interval <= 0 || o.poolSize < 0 {
		return lo, usagef("--interval must be positive and --pool-size must not be negative")
	}
	roots, err := o.rootFile()
	if err != nil {
		return lo, err
	}
	lo.RootFiles = []string{roots}
	seed, err := there(lo.KeyFile)
	if err != nil {
		return lo, err
	}
	lock, err := there(lo.LockPath)
	if err != nil {
		return lo, err
	}
	if !lock {
		return lo, o.create(ctx, &lo, seed, logger)
	}
	if !seed {
		return lo, fmt.Errorf("%s has a lock %s but no key %s: put the log's key there, or take an empty directory", o.dir, devLock, devSeed)
	}
	lo.Origin, err = o.storedOrigin(ctx, lo)
	return lo, err
}

// create creates the log, with the key that is there if there is one.
func (o *devOptions) create(ctx context.Context, lo *server.LogOptions, seed bool, logger *slog.Logger) error {
	if lo.Origin == "" {
		var b [4]byte
		rand.Read(b[:]) // never fails
		lo.Origin = "dev.daybook.invalid/" + hex.EncodeToString(b[:])
	}
	if err := checkpoint.CheckOrigin(lo.Origin); err != nil {
		return usagef("--origin: %w", err)
	}
	id, err := server.Create(ctx, *lo, seed)
	if err != nil {
		return fmt.Errorf("creating the log in %s: %w", o.dir, err)
	}
	logger.Info("log created", "directory", o.dir, "origin", id.Origin, "log_id", id.LogIDBase64())
	return nil
}

// storedOrigin returns the origin in the log's checkpoint in the lock.
func (o *devOptions) storedOrigin(ctx context.Context, lo server.LogOptions) (origin string, err error) {
	signer, err := server.ReadKey(lo.KeyFile, "any") // the log ID does not depend on the origin
	if err != nil {
		return "", err
	}
	lock, err := sqlitelock.Open(lo.LockPath, sqlitelock.Options{})
	if err != nil {
		return "", fmt.Errorf("opening the lock: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	body, err := lock.Fetch(ctx, signer.LogID())
	if err != nil {
		return "", fmt.Errorf("reading the lock %s for the key %s: %w", devLock, devSeed, err)
	}
	first, _, _ := bytes.Cut(body, []byte("\n"))
	origin = string(first)
	if o.origin != "" && o.origin != origin {
		return "", usagef("--origin: the log in %s is %q, and a log keeps its origin for good", o.dir, origin)
	}
	return origin, nil
}

// rootFile returns the file with the accepted roots. A test root is made if
// there is no root.
func (o *devOptions) rootFile() (string, error) {
	if o.roots != "" {
		// A log that has roots already starts without them, but here somebody
		// has just mistyped a name.
		if _, err := os.Stat(o.roots); err != nil {
			return "", fmt.Errorf("--roots: %w", err)
		}
		return o.roots, nil
	}
	root := filepath.Join(o.dir, devRoot)
	if ok, err := there(root); ok || err != nil {
		return root, err
	}
	ca, err := testca.New(testca.Options{})
	if err != nil {
		return "", err
	}
	key, err := ca.RootKeyPEM()
	if err != nil {
		return "", err
	}
	// The root comes last: it is there only with its key.
	if err := durable.WriteFile(filepath.Join(o.dir, devRootKey), key, durable.Replace, 0o600); err != nil {
		return "", fmt.Errorf("writing the key of the test root: %w", err)
	}
	if err := durable.WriteFile(root, ca.RootPEM(), durable.Replace, 0o644); err != nil {
		return "", fmt.Errorf("writing the test root: %w", err)
	}
	return root, nil
}

func there(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// readDevInfo reads the dev.json of a running development log.
func readDevInfo(dir string) (devDescription, error) {
	var d devDescription
	b, err := os.ReadFile(filepath.Join(dir, devInfo))
	if errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("no development log runs in %s: start daybook dev --dir %s", dir, dir)
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return d, fmt.Errorf("reading %s: %w", filepath.Join(dir, devInfo), err)
	}
	return d, nil
}
