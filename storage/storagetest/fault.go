package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/storage"
)

var (
	// ErrInjected is the error of a fault that names no other.
	ErrInjected = errors.New("injected fault")
	// ErrKilled is returned by every operation after [Plan.Kill].
	ErrKilled = errors.New("process was killed by the fault plan")
)

// Op is an operation on a store, a lock or a cache.
type Op string

// The operations.
const (
	StorePut        Op = "put"
	StoreSync       Op = "sync"
	StoreGet        Op = "get"
	StoreDelete     Op = "delete"
	StoreList       Op = "list"
	LockFetch       Op = "fetch"
	LockCreate      Op = "create"
	LockSwap        Op = "swap"
	CacheGet        Op = "cache_get"
	CachePut        Op = "cache_put"
	CacheCheckpoint Op = "cache_checkpoint"
)

// Effect says what a fault does to the operation it hits.
type Effect int

// The effects.
const (
	// Lost: nothing is done, and the caller gets an error.
	Lost Effect = iota
	// Kept: the operation is done and answered as usual. It is of use with
	// Then, to act at this place of the history.
	Kept
	// Slow: the operation waits for Delay, and is then done and answered as
	// usual. If the caller's context ends first, nothing is done.
	Slow
	// KeptThenError: the operation is done, and the caller gets an error.
	KeptThenError
)

func (e Effect) String() string {
	switch e {
	case Lost:
		return "lost"
	case Kept:
		return "kept"
	case Slow:
		return "slow"
	case KeptThenError:
		return "kept-then-error"
	}
	return fmt.Sprintf("Effect(%d)", int(e))
}

// Fault is one line of a plan: the Nth time that Op is done to an object of
// Kind, Effect happens.
//
// Each object of a Put and each name of a Delete counts. When an object of a
// Put is lost, so are those after it, but those before it are stored; the same
// holds for a Delete. A List counts for the kind its folder holds. Operations
// of locks and caches have no kind.
type Fault struct {
	Op   Op
	Kind storage.Kind // Invalid stands for any kind, and for none
	Nth  int          // counted from 1; 0 means every time

	Effect Effect
	Delay  time.Duration // waited before any effect
	Err    error         // in place of ErrInjected
	// Then is called once the effect has taken place, before the caller gets
	// its answer. It must not call the plan's store, lock or cache. A crash
	// before an operation is Lost and a Then that calls Plan.Kill, a crash
	// after it is Kept and the same.
	Then func()
}

func (f Fault) String() string {
	kind := "*"
	if f.Kind != storage.Invalid {
		kind = f.Kind.String()
	}
	return fmt.Sprintf("%s %s #%d %s", f.Op, kind, f.Nth, f.Effect)
}

// Event is an operation that a plan has seen, with the number it had among
// those of its Op and Kind. A fault with these three fields hits it when the
// same history runs again.
type Event struct {
	Op   Op
	Kind storage.Kind
	Nth  int
	Hit  bool // a fault was applied
}

// Plan decides which operations fail, and records all of them. Several
// wrappers may share one plan. The same calls in the same order get the same
// faults; a plan draws no random numbers and sleeps on the clock of the
// testing/synctest bubble it is in. It is safe for concurrent use.
type Plan struct {
	mu     sync.Mutex
	faults []plannedFault
	counts map[opKind]int
	events []Event
	killed bool
}

type plannedFault struct {
	Fault
	seen int
}

type opKind struct {
	op   Op
	kind storage.Kind
}

// NewPlan returns a plan with these faults. Without any it only records.
func NewPlan(faults ...Fault) *Plan {
	p := &Plan{counts: make(map[opKind]int)}
	p.Add(faults...)
	return p
}

// Add adds faults, which count from now.
func (p *Plan) Add(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range faults {
		p.faults = append(p.faults, plannedFault{Fault: f})
	}
}

// Kill makes every operation from now on do nothing and return ErrKilled, as
// if the process that holds the wrappers had died. One that runs already is
// done or not, and returns ErrKilled either way. What is below the wrappers
// lives on, for new wrappers with a new plan.
func (p *Plan) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
}

// Events returns what was done so far, in order.
func (p *Plan) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Event(nil), p.events...)
}

// Unused returns the faults that have not hit anything. A test that injects
// faults wants it empty.
func (p *Plan) Unused() []Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var unused []Fault
	for _, f := range p.faults {
		if f.seen == 0 || f.seen < f.Nth {
			unused = append(unused, f.Fault)
		}
	}
	return unused
}

// observe counts one operation and returns the first fault that hits it.
func (p *Plan) observe(op Op, kind storage.Kind) (f Fault, hit bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return Fault{}, false, ErrKilled
	}
	p.counts[opKind{op, kind}]++
	for i := range p.faults {
		planned := &p.faults[i]
		if planned.Op != op || (planned.Kind != storage.Invalid && planned.Kind != kind) {
			continue
		}
		planned.seen++
		if !hit && (planned.Nth == 0 || planned.Nth == planned.seen) {
			f, hit = planned.Fault, true
		}
	}
	p.events = append(p.events, Event{op, kind, p.counts[opKind{op, kind}], hit})
	return f, hit, nil
}

func (p *Plan) alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return ErrKilled
	}
	return nil
}

// verdict is what a plan says about a call.
type verdict struct {
	faults []Fault // that hit the call, in the order of its objects
	keep   int     // objects to go on with
	err    error   // to return in the end, if the call itself succeeds
}

// judge asks the plan about each object of a call, up to the first that is
// lost, and waits for what the faults delay.
func (p *Plan) judge(ctx context.Context, op Op, kinds ...storage.Kind) (verdict, error) {
	v := verdict{keep: len(kinds)}
	var delay time.Duration
	for i, kind := range kinds {
		f, hit, err := p.observe(op, kind)
		if err != nil {
			return verdict{}, err
		}
		if !hit {
			continue
		}
		v.faults = append(v.faults, f)
		delay += f.Delay
		if f.Effect == Lost || f.Effect == KeptThenError {
			if v.err = f.Err; v.err == nil {
				v.err = ErrInjected
			}
			v.err = fmt.Errorf("%v: %w", f, v.err)
		}
		if f.Effect == Lost {
			v.keep = i
			break
		}
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return verdict{}, ctx.Err()
		}
	}
	return v, p.alive()
}

// finish ends a call that got a verdict: err is what the wrapped method
// returned, nil if it was not called.
func (p *Plan) finish(v verdict, err error) error {
	for _, f := range v.faults {
		if f.Then != nil {
			f.Then()
		}
	}
	if dead := p.alive(); dead != nil {
		return dead
	}
	if err != nil {
		return err
	}
	return v.err
}
