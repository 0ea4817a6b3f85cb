package sequencer

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is what intake did with an entry; its text is the metric's label.
type outcome string

const (
	outcomeAdmitted   outcome = "admitted"
	outcomeJoined     outcome = "joined"    // known in memory
	outcomeDuplicate  outcome = "duplicate" // known in the cache
	outcomeFull       outcome = "full"
	outcomeFullEarly  outcome = "full_early" // refused by Preflight
	outcomeEvicted    outcome = "evicted"
	outcomeLimited    outcome = "limited"
	outcomeBusy       outcome = "busy"
	outcomeBusyEarly  outcome = "busy_early" // refused by Preflight
	outcomeClosed     outcome = "closed"
	outcomeHalted     outcome = "halted"
	outcomeSunset     outcome = "sunset"
	outcomeBlocked    outcome = "blocked" // see Log.Block
	outcomeCanceled   outcome = "canceled"
	outcomeCacheError outcome = "cache_error" // could not be read, or not be confirmed
	// What the cache says is not so.
	outcomeContradicted outcome = "contradicted"
)

func outcomeOf(err error) outcome {
	switch {
	case errors.Is(err, ErrBusy):
		return outcomeBusy
	case errors.Is(err, ErrClosed):
		return outcomeClosed
	case errors.Is(err, ErrHalted):
		return outcomeHalted
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outcomeCanceled
	}
	return outcomeCanceled
}

type metrics struct {
	tally         tally                  // for the round records
	intakes       *prometheus.CounterVec // by outcome, priority
	intakeCached  map[intakeLabels]prometheus.Counter
	exempt        *prometheus.CounterVec // by network
	waitSubmitter prometheus.Observer
	waitSequencer prometheus.Observer
	holdSubmitter prometheus.Observer
	holdSequencer prometheus.Observer

	steps       [stepCount]prometheus.Observer
	round       prometheus.Histogram
	rounds      *prometheus.CounterVec // by outcome
	roundSize   prometheus.Histogram
	skipped     prometheus.Counter
	slowRounds  prometheus.Counter
	entries     prometheus.Counter
	size        prometheus.Gauge
	timestamp   prometheus.Gauge
	halted      prometheus.Gauge
	remembering prometheus.Gauge
	forgotten   prometheus.Counter
	walFrames   prometheus.Gauge
	walBusy     prometheus.Counter
	clockAhead  prometheus.Gauge
	mended      prometheus.Counter
	compared    prometheus.Gauge
}

type intakeLabels struct {
	outcome  outcome
	priority Priority
}

// newMetrics registers the metrics of one log. A second log needs a Registerer
// of its own, wrapped with a label.
func newMetrics(r prometheus.Registerer, c *Config) (*metrics, error) {
	fast := prometheus.ExponentialBucketsRange(1e-6, 10, 22)
	slow := prometheus.ExponentialBucketsRange(1e-4, 100, 25)
	m := &metrics{
		intakes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_intake_total",
			Help: "Entries at intake, by what became of them."}, []string{"outcome", "priority"}),
		exempt: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_duplicates_exempt_total",
			Help: "Low-priority resubmissions that the duplicate limit did not count, by the exempt network of the configuration that has the submitter."}, []string{"network"}),
		round: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "daybook_round_seconds",
			Help: "Duration of whole rounds.", Buckets: slow}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_rounds_total",
			Help: "Rounds, by outcome: ok, refused (nothing was committed) or halted."}, []string{"outcome"}),
		roundSize: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "daybook_round_entries",
			Help: "Entries sequenced per round.", Buckets: prometheus.ExponentialBuckets(1, 2, 16)}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_ticks_skipped_total",
			Help: "Ticks that came while a round was still running."}),
		slowRounds: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_rounds_slow_total",
			Help: "Rounds that took longer than the interval."}),
		entries: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_entries_total",
			Help: "Entries published since the start of the process."}),
		size: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_tree_size",
			Help: "Size of the last published tree."}),
		timestamp: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_checkpoint_timestamp_seconds",
			Help: "Unix time of the last published checkpoint."}),
		halted: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_halted",
			Help: "1 if the log has halted after a fatal error."}),
		remembering: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_unremembered_entries",
			Help: "Logged entries whose cache put has failed so far."}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_forgotten_entries_total",
			Help: "Logged entries given up on after repeated cache failures; each may be logged twice."}),
		walFrames: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_wal_frames",
			Help: "Frames in the cache's WAL at the last WAL checkpoint."}),
		walBusy: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_wal_checkpoints_busy_total",
			Help: "WAL checkpoints that readers kept from finishing."}),
		clockAhead: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_clock_ahead_seconds",
			Help: "By how much the clock has jumped forward, while no round trusts it; else 0."}),
		mended: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_issuers_mended_total",
			Help: "Issuers that were in the storage with wrong bytes and were written again."}),
		compared: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_public_checkpoint_compared",
			Help: "0 if the public checkpoint, which is compared with the lock at the start, could not be fetched; else 1."}),
	}
	steps := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "daybook_round_step_seconds",
		Help: "Duration of each step of a round.", Buckets: slow}, []string{"step"})
	wait := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "daybook_turnstile_wait_seconds",
		Help: "Time spent waiting for the pool's turnstile.", Buckets: fast}, []string{"party"})
	hold := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "daybook_turnstile_hold_seconds",
		Help: "Time spent inside the pool's turnstile.", Buckets: fast}, []string{"party"})
	capacity := prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_capacity_entries_per_second",
		Help: "pool_size / interval; 0 if the pool has no limit."})
	for _, c := range []prometheus.Collector{m.intakes, m.exempt, m.round, m.rounds, m.roundSize, m.skipped, m.slowRounds,
		m.entries, m.size, m.timestamp, m.halted, m.remembering, m.forgotten, m.walFrames, m.walBusy, m.clockAhead, m.mended, m.compared,
		steps, wait, hold, capacity} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	if c.Public == nil {
		m.compared.Set(1)
	}
	for _, o := range []RoundOutcome{RoundOK, RoundRefused, RoundHalted} { // one that is absent hides its first event from increase()
		m.rounds.WithLabelValues(string(o))
	}
	capacity.Set(float64(c.PoolSize) / c.Interval.Seconds())
	for s := range m.steps {
		m.steps[s] = steps.WithLabelValues(Step(s).String())
	}
	m.waitSubmitter, m.waitSequencer = maxObserver{wait.WithLabelValues("submitter"), &m.tally.wait}, wait.WithLabelValues("sequencer")
	m.holdSubmitter, m.holdSequencer = maxObserver{hold.WithLabelValues("submitter"), &m.tally.hold}, hold.WithLabelValues("sequencer")
	m.intakeCached = make(map[intakeLabels]prometheus.Counter)
	for _, o := range []outcome{outcomeAdmitted, outcomeJoined, outcomeDuplicate, outcomeFull, outcomeFullEarly, outcomeEvicted, outcomeLimited,
		outcomeBusy, outcomeBusyEarly, outcomeClosed, outcomeHalted, outcomeSunset, outcomeBlocked, outcomeCanceled, outcomeCacheError, outcomeContradicted} {
		for _, p := range []Priority{High, Low} {
			m.intakeCached[intakeLabels{o, p}] = m.intakes.WithLabelValues(string(o), p.String())
		}
	}
	return m, nil
}

// intake counts an entry.
func (m *metrics) intake(o outcome, p Priority) {
	m.intakeCached[intakeLabels{o, p}].Inc()
	m.tally.add(o, p)
}
