package sequencer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

const testOrigin = "log.example/2027h1"

func newTestSigner(t testing.TB) *checkpoint.Signer {
	t.Helper()
	keys, err := checkpoint.KeysFromSeed(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	s, err := checkpoint.NewSigner(testOrigin, keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// probe sees every call on store, lock and cache before it is carried out, and
// may fail it. It outlives the logs that are opened on it.
type probe struct {
	store storage.Store
	lock  storage.Lock
	cache storage.Cache

	mu     sync.Mutex
	gets   int // of the cache
	puts   []string
	fault  func(op, name string) error // called with mu held
	onSwap func(new []byte)
	onPut  func(o storage.Object)
}

func newProbe() *probe {
	return &probe{store: memory.NewStore(), lock: memory.NewLock(), cache: memory.NewCache()}
}

func (p *probe) see(op, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op == "put" {
		p.puts = append(p.puts, name)
	}
	if op == "cache get" {
		p.gets++
	}
	if p.fault != nil {
		return p.fault(op, name)
	}
	return nil
}

func (p *probe) setFault(f func(op, name string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

func (p *probe) takePuts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	puts := p.puts
	p.puts = nil
	return puts
}

type probeStore struct{ *probe }

func (p probeStore) Put(ctx context.Context, objects ...storage.Object) error {
	return p.write(ctx, p.store.Put, objects)
}
func (p probeStore) Show(ctx context.Context, objects ...storage.Object) error {
	return p.write(ctx, p.store.Show, objects)
}
func (p probeStore) Sync(ctx context.Context) error {
	if err := p.see("sync", ""); err != nil {
		return err
	}
	return p.store.Sync(ctx)
}
func (p probeStore) write(ctx context.Context, write func(context.Context, ...storage.Object) error, objects []storage.Object) error {
	for _, o := range objects {
		if err := p.see("put", o.Name); err != nil {
			return err
		}
		if p.onPut != nil {
			p.onPut(o)
		}
	}
	return write(ctx, objects...)
}
func (p probeStore) Get(ctx context.Context, name string) ([]byte, error) {
	if err := p.see("get", name); err != nil {
		return nil, err
	}
	return p.store.Get(ctx, name)
}
func (p probeStore) Delete(ctx context.Context, names ...string) error {
	for _, n := range names {
		if err := p.see("delete", n); err != nil {
			return err
		}
	}
	return p.store.Delete(ctx, names...)
}
func (p probeStore) List(ctx context.Context, folder string) ([]string, error) {
	return p.store.List(ctx, folder)
}

type probeLock struct{ *probe }

func (p probeLock) Fetch(ctx context.Context, id [32]byte) ([]byte, error) {
	return p.lock.Fetch(ctx, id)
}
func (p probeLock) Create(ctx context.Context, id [32]byte, body []byte) error {
	return p.lock.Create(ctx, id, body)
}
func (p probeLock) Swap(ctx context.Context, id [32]byte, old, new []byte) error {
	if err := p.see("swap", ""); err != nil {
		return err
	}
	if p.onSwap != nil {
		p.onSwap(new)
	}
	return p.lock.Swap(ctx, id, old, new)
}

type probeCache struct{ *probe }

func (p probeCache) Get(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
	if err := p.see("cache get", ""); err != nil {
		return tlog.Position{}, false, err
	}
	return p.cache.Get(ctx, key)
}
func (p probeCache) Put(ctx context.Context, records []storage.Record) error {
	if err := p.see("cache put", ""); err != nil {
		return err
	}
	return p.cache.Put(ctx, records)
}
func (p probeCache) Checkpoint(ctx context.Context) (storage.WAL, error) {
	if err := p.see("wal checkpoint", ""); err != nil {
		return storage.WAL{}, err
	}
	return p.cache.Checkpoint(ctx)
}

func (p *probe) config(t testing.TB, poolSize int) Config {
	return Config{Interval: 200 * time.Millisecond, PoolSize: poolSize, Signer: newTestSigner(t),
		Store: probeStore{p}, Lock: probeLock{p}, Cache: probeCache{p}, Logger: slog.New(slog.DiscardHandler)}
}

// open opens the log, creating it first if need be.
func (p *probe) open(t testing.TB, poolSize int) *Log {
	t.Helper()
	c := p.config(t, poolSize)
	if err := Create(t.Context(), c); err != nil && !errors.Is(err, storage.ErrExists) {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run runs the log until stop is called, which returns what Run returned.
func run(t testing.TB, l *Log) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func (p *probe) publicLog(t testing.TB) *oracle {
	t.Helper()
	o, err := readPublicLog(context.WithoutCancel(t.Context()), p.store, newTestSigner(t).Verifier())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var testIssuer = []byte("the issuer of all test entries")

// newEntry returns a submission of entry number n, with an issuer.
func newEntry(t testing.TB, n int, pr Priority) Submission {
	t.Helper()
	e, err := tlog.NewX509Entry(fmt.Appendf(nil, "certificate number %d", n), []tlog.Fingerprint{sha256.Sum256(testIssuer)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Submission{Entry: e, Issuers: [][]byte{testIssuer}, Priority: pr, Submitter: network(n % 7)}
}

func mustAdd(t testing.TB, l *Log, s Submission) promise {
	t.Helper()
	position, err := l.Add(t.Context(), s)
	if err != nil {
		t.Errorf("adding %x: %v", s.Entry.Key(), err)
	}
	return promise{s.Entry.Key(), position}
}

// addAll adds entries from..to-1 at the same time, and calls answered, if given,
// as soon as each has its answer.
func addAll(t testing.TB, l *Log, from, to int, answered ...func(promise)) []promise {
	t.Helper()
	promises := make([]promise, to-from)
	var wg sync.WaitGroup
	for i := range promises {
		s := newEntry(t, from+i, High)
		wg.Go(func() {
			promises[i] = mustAdd(t, l, s)
			for _, f := range answered {
				f(promises[i])
			}
		})
	}
	wg.Wait()
	return promises
}

// counts returns the values of a counter by its labels' values, separated by commas.
func counts(t *testing.T, g prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			counts[strings.Join(labels, ",")] = m.GetCounter().GetValue()
		}
	}
	return counts
}
