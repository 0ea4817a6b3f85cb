// Package server runs logs: it opens what each one needs, serves them over
// HTTP, and brings everything to an orderly end. The commands of the program
// stand on it.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/submission/rootsource"
)

// DefaultShutdownTimeout is how long open connections have at an orderly end.
const DefaultShutdownTimeout = 30 * time.Second

// Options say what a server serves.
type Options struct {
	Logs []LogOptions // at least one

	// Listen are the addresses, host:port, of submissions and monitoring.
	// Listeners are further ones that are open already; the server closes them,
	// also if Start fails. At least one of either is needed.
	Listen    []string
	Listeners []net.Listener
	// AdminListen is the address of /metrics, /health, /rounds and /debug/pprof/;
	// no such listener if it is empty.
	AdminListen string

	TrustedProxies  []netip.Prefix
	ShutdownTimeout time.Duration // of open connections; default DefaultShutdownTimeout
	ExitOnHalt      bool          // end when a log halts, rather than serve the rest

	// RootsInterval is the time between two readings of a URL that lists
	// accepted roots; default rootsource.DefaultInterval. For each value of
	// ReloadRoots all sources are read again; it may be nil.
	RootsInterval time.Duration
	ReloadRoots   <-chan os.Signal

	Logger   *slog.Logger         // default: none
	Registry *prometheus.Registry // default: a new one with the metrics of the process
}

// Server is a running server. All methods are safe for concurrent use.
type Server struct {
	o     Options
	logs  []*openLog
	ready atomic.Bool // logs is set, and will not change
	http  []*obs.HTTP
	admin *obs.HTTP // nil without one
	roots *rootsource.Loader

	halted  chan struct{} // gets a value when a log halts and the server is to end
	running errgroup.Group
	done    chan struct{}
	err     error // set before done is closed
}

// Start opens and recovers the logs, and serves them until ctx is done, or
// until something fails that makes going on pointless. It returns when all
// is being served; the admin listener answers from the start. ctx also
// interrupts the start itself.
//
// Then the server comes to an orderly end: new submissions are refused with 503
// while every log runs its last round; submitters that wait get their answers;
// connections are closed, ShutdownTimeout after that round by force; the
// caches run their last WAL checkpoint; everything is closed. [Server.Wait]
// waits for it.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{o: o, halted: make(chan struct{}, len(o.Logs)), done: make(chan struct{})}
	listeners := o.Listeners
	var admin net.Listener
	defer func() {
		if err != nil {
			s.abandon(listeners, admin)
		}
	}()
	if err := s.o.setDefaults(); err != nil {
		return nil, err
	}
	// Addresses come first: a second process of the same configuration then
	// fails before it touches a log.
	for _, address := range o.Listen {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listening for submissions and monitoring: %w", err)
		}
		listeners = append(listeners, l)
	}
	slots, err := connectionLimit(len(o.Logs), len(listeners), s.o.Logger)
	if err != nil {
		return nil, err
	}
	if o.AdminListen != "" {
		if admin, err = net.Listen("tcp", o.AdminListen); err != nil {
			return nil, fmt.Errorf("listening for the operator: %w", err)
		}
		s.admin = obs.ServeHTTP(admin, obs.HTTPOptions{Admin: true, Connections: adminConnections, Logger: s.o.Logger,
			Handler: obs.NewAdmin(obs.AdminOptions{Build: obs.ReadBuild(), Registry: s.o.Registry, Logs: s.states,
				Pages: []obs.Page{
					{Path: "/rounds", Handler: rounds.Handler(s.recorders)},
					{Path: "/submitters", Handler: http.HandlerFunc(s.serveSubmitters)},
				}, Notes: s.notes})})
	}
	if s.roots, err = newRootLoader(&s.o); err != nil {
		return nil, err
	}
	for _, lo := range s.o.Logs {
		l, err := open(ctx, lo, s.o.TrustedProxies, s.roots, s.o.Logger, s.o.Registry)
		if err != nil {
			return nil, err
		}
		s.logs = append(s.logs, l)
	}
	handler, err := routes(s.logs)
	if err != nil {
		return nil, err
	}
	s.ready.Store(true)
	for _, l := range s.logs {
		l.announce(ctx)
	}
	for _, l := range listeners {
		s.http = append(s.http, obs.ServeHTTP(l, obs.HTTPOptions{Handler: handler, Connections: slots, Logger: s.o.Logger}))
	}
	go s.run(ctx) // Wait waits for it
	return s, nil
}

func (o *Options) setDefaults() error {
	if len(o.Logs) == 0 {
		return errors.New("there is no log to serve")
	}
	if len(o.Listen)+len(o.Listeners) == 0 {
		return errors.New("there is no address to serve logs on")
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = DefaultShutdownTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		var err error
		if o.Registry, err = obs.NewRegistry(obs.ReadBuild()); err != nil {
			return err
		}
	}
	return nil
}

// abandon undoes a start that failed. Its own errors would only hide the cause.
func (s *Server) abandon(listeners []net.Listener, admin net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
	if s.admin != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody has to be waited for
		_ = s.admin.Shutdown(ctx)
	} else if admin != nil {
		_ = admin.Close()
	}
	for _, l := range s.logs {
		_ = l.close()
	}
}

// run owns the goroutines of the logs, and ends when all has ended.
func (s *Server) run(ctx context.Context) {
	defer close(s.done)
	// The logs drain when running is cancelled, not before.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	for _, l := range s.logs {
		s.running.Go(func() error { return s.runLog(running, l) })
	}
	s.runKeepers(running)
	s.running.Go(func() error {
		s.reloadRoots(running)
		return nil
	})
	cause := s.wait(ctx)
	s.o.Logger.Info("coming to an orderly end: new submissions are refused", "cause", cause.Error())
	began := time.Now()
	for _, h := range s.http {
		h.Lame()
	}
	stop()
	s.err = s.running.Wait()
	if !errors.Is(cause, errStopped) && !errors.Is(cause, errHalted) {
		s.err = errors.Join(s.err, cause)
	}
	s.err = errors.Join(s.err, s.close())
	s.o.Logger.Info("ended", "took", time.Since(began).Round(time.Millisecond))
}

// Why a server comes to its end.
var (
	errStopped = errors.New("it was told to")
	errHalted  = errors.New("a log has halted")
)

// wait returns when the server is to end, and why.
func (s *Server) wait(ctx context.Context) error {
	failed := make(chan struct{}, 1)
	stop := make(chan struct{})
	var watchers errgroup.Group
	defer func() {
		close(stop)
		_ = watchers.Wait() // they return no errors
	}()
	for _, h := range s.servers() {
		watchers.Go(func() error {
			select {
			case <-h.Done():
				select {
				case failed <- struct{}{}:
				default:
				}
			case <-stop:
			}
			return nil
		})
	}
	select {
	case <-ctx.Done():
		return errStopped
	case <-s.halted:
		return errHalted
	case <-failed:
	}
	var errs []error
	for _, h := range s.servers() {
		errs = append(errs, h.Err())
	}
	return errors.Join(errs...)
}

// servers returns all HTTP servers.
func (s *Server) servers() []*obs.HTTP {
	if s.admin == nil {
		return s.http
	}
	return append(s.http[:len(s.http):len(s.http)], s.admin)
}

// runLog runs a log until it has drained, or halts.
func (s *Server) runLog(ctx context.Context, l *openLog) error {
	err := l.sequencer.Run(ctx)
	if err == nil {
		return nil
	}
	if s.o.ExitOnHalt {
		s.halted <- struct{}{}
		return err
	}
	l.log.Error("submissions are refused from now on, the tree is still served: find the cause in the lines before this one and restart the process; recovery then decides whether the log can go on")
	return err
}

// close closes everything, in the order in which it is not needed any more.
// Those who waited for the last round have their tickets by now.
func (s *Server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.ShutdownTimeout)
	defer cancel()
	var errs []error
	for _, h := range s.http {
		if err := h.Shutdown(ctx); err != nil {
			// The clients that were cut know; the log has kept its promises.
			s.o.Logger.Warn("connections were cut", "cause", err)
		}
	}
	for _, l := range s.logs {
		errs = append(errs, l.close())
	}
	if s.admin != nil {
		if err := s.admin.Shutdown(ctx); err != nil {
			s.o.Logger.Warn("connections of the operator were cut", "cause", err)
		}
	}
	return errors.Join(errs...)
}

// Wait waits until the server has come to its end. It returns nil if that was
// asked for and nothing went wrong: no log halted, every log drained, and all was closed.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// Addrs returns the addresses that logs are served on, first those of
// Options.Listeners.
func (s *Server) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(s.http))
	for i, h := range s.http {
		addrs[i] = h.Addr()
	}
	return addrs
}

// AdminAddr returns the address of the admin listener, nil if there is none.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// Identities returns what is public about the keys of the logs, in their order.
func (s *Server) Identities() []Identity {
	ids := make([]Identity, len(s.logs))
	for i, l := range s.logs {
		ids[i] = l.id
	}
	return ids
}

// recorders returns those of all logs: none before all logs are open.
func (s *Server) recorders() []*rounds.Recorder {
	if !s.ready.Load() {
		return nil
	}
	recorders := make([]*rounds.Recorder, len(s.logs))
	for i, l := range s.logs {
		recorders[i] = l.rounds
	}
	return recorders
}

// serveSubmitters shows who submits most to each log.
func (s *Server) serveSubmitters(w http.ResponseWriter, r *http.Request) {
	if !s.ready.Load() {
		http.Error(w, "no log is open yet", http.StatusServiceUnavailable)
		return
	}
	for _, l := range s.logs {
		// A client that is gone needs no answer.
		_, _ = fmt.Fprintf(w, "log %s\n", l.o.Name)
		l.submission.ServeTop(w, r)
		_, _ = fmt.Fprintln(w)
	}
}

// notes returns what the operator's first page says about each log.
func (s *Server) notes() (lines []string) {
	for _, r := range s.recorders() {
		lines = append(lines, fmt.Sprintf("capacity of %s: %v", r.Log(), r.Capacity()))
	}
	return lines
}

// states returns what the health of the process is judged by: nothing before
// all logs are open.
func (s *Server) states() []obs.LogState {
	if !s.ready.Load() {
		return nil
	}
	states := make([]obs.LogState, len(s.logs))
	for i, l := range s.logs {
		states[i] = l.state()
	}
	return states
}
