package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// Status is what a run says of a clause.
type Status int

// The statuses, from the least to the most telling.
const (
	Skipped Status = iota
	OK
	Warned
	Failed
)

func (s Status) String() string { return [...]string{"skip", "ok", "warn", "FAIL"}[s] }

// Result is what a run says of one clause.
type Result struct {
	Clause
	Status Status
	Checks int      // made, of which each is in Faults that did not hold
	Faults []string // one sentence each
	Notes  []string // what the log chose, and why the clause was skipped
}

// maxFaults bounds what is kept of one clause's faults.
const maxFaults = 20

// Report is the outcome of a run, or of several.
type Report struct {
	Results []Result // one for each clause, in the order of [Clauses]
	// Outcomes are the answers to the chains of the cases.
	Outcomes []Outcome
	// Odd are the answers to the odd certificates, of each log.
	Odd []OddOutcomes
	// Promises are the SCTs that verified, for verifiers of others to try.
	Promises []Promise
}

// Promise is an SCT with what it is for.
type Promise struct {
	Name      string
	PublicKey []byte // the log's, SubjectPublicKeyInfo
	Precert   bool
	Chain     [][]byte // DER, the leaf first, with the root
	SCT       json.RawMessage
}

// recorder collects results. It is safe for concurrent use.
type recorder struct {
	mu     sync.Mutex
	strict bool
	by     map[string]*Result
	log    func(string) // faults as they are found
}

func newRecorder(strict bool, log func(string)) *recorder {
	r := &recorder{strict: strict, by: make(map[string]*Result), log: log}
	for _, c := range clauses {
		r.by[c.ID] = &Result{Clause: c}
	}
	return r
}

// check records one check of each of the clauses, whose IDs are parted by
// spaces. The format says what is wrong if ok is false.
func (r *recorder) check(ok bool, ids, format string, args ...any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range strings.FieldsSeq(ids) {
		res := r.result(id)
		res.Checks++
		if ok {
			continue
		}
		fault := fmt.Sprintf(format, args...)
		if len(res.Faults) == 0 && r.log != nil {
			r.log(id + ": " + fault)
		}
		if len(res.Faults) <= maxFaults {
			res.Faults = append(res.Faults, fault)
		}
	}
	return ok
}

// pass records a check that held.
func (r *recorder) pass(ids string) { r.check(true, ids, "") }

// fail records a check that did not.
func (r *recorder) fail(ids, format string, args ...any) { r.check(false, ids, format, args...) }

// noError records a check that holds if err is nil.
func (r *recorder) noError(err error, ids, format string, args ...any) bool {
	return r.check(err == nil, ids, "%s: %v", fmt.Sprintf(format, args...), err)
}

// note adds what the reader should know of the clauses, once.
func (r *recorder) note(ids, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	for id := range strings.FieldsSeq(ids) {
		if res := r.result(id); !slices.Contains(res.Notes, text) {
			res.Notes = append(res.Notes, text)
		}
	}
}

func (r *recorder) result(id string) *Result {
	res := r.by[id]
	if res == nil {
		panic("conformance: there is no clause " + id)
	}
	return res
}

// report closes the books. Clauses that only says nothing of are left out if
// only is not empty.
func (r *recorder) report(only []string) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := new(Report)
	for _, c := range clauses {
		if len(only) > 0 && !slices.Contains(only, c.ID) {
			continue
		}
		res := *r.by[c.ID]
		switch {
		case len(res.Faults) > 0 && c.Level == Should && !r.strict:
			res.Status = Warned
		case len(res.Faults) > 0:
			res.Status = Failed
		case res.Checks > 0:
			res.Status = OK
		}
		rep.Results = append(rep.Results, res)
	}
	return rep
}

// Merge joins the reports of several logs: a clause counts as what was worst
// in any of them, and as skipped only if it was in all.
func Merge(reports ...*Report) *Report {
	sum := NewReport()
	for _, other := range reports {
		sum.Outcomes = append(sum.Outcomes, other.Outcomes...)
		sum.Odd = append(sum.Odd, other.Odd...)
		sum.Promises = append(sum.Promises, other.Promises...)
		for _, res := range other.Results {
			sum.Result(res.ID).merge(res)
		}
	}
	return sum
}

func (r *Result) merge(other Result) {
	notes := append(slices.Clone(r.Notes), other.Notes...)
	switch {
	case r.Status == Skipped && other.Status != Skipped:
		notes = slices.Clone(other.Notes) // why it was skipped elsewhere is of no interest
	case r.Status != Skipped && other.Status == Skipped:
		notes = r.Notes
	}
	slices.Sort(notes)
	r.Notes = slices.Compact(notes)
	r.Status = max(r.Status, other.Status)
	r.Checks += other.Checks
	r.Faults = append(r.Faults, other.Faults...)
}

// Count returns the number of clauses with a status.
func (r *Report) Count(s Status) int {
	n := 0
	for _, res := range r.Results {
		if res.Status == s {
			n++
		}
	}
	return n
}

// OK reports whether no clause failed and some were checked.
func (r *Report) OK() bool { return r.Count(Failed) == 0 && r.Count(OK) > 0 }

// Result returns what was found of a clause, nil if it was not asked for.
func (r *Report) Result(id string) *Result {
	for i := range r.Results {
		if r.Results[i].ID == id {
			return &r.Results[i]
		}
	}
	return nil
}

// Summary is the last line.
func (r *Report) Summary() string {
	s := fmt.Sprintf("%d clauses: %d ok, ", len(r.Results), r.Count(OK))
	if n := r.Count(Warned); n > 0 {
		s += fmt.Sprintf("%d not kept though they should be, ", n)
	}
	return s + fmt.Sprintf("%d skipped, %d failed", r.Count(Skipped), r.Count(Failed))
}

// Print writes one line a clause and the summary. If all is set, every fault
// gets a line, otherwise the first alone.
func (r *Report) Print(w io.Writer, all bool) error {
	var b strings.Builder
	for _, res := range r.Results {
		res.print(&b, all)
	}
	b.WriteString(r.Summary() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) print(b *strings.Builder, all bool) {
	fmt.Fprintf(b, "%-4s %-4s  %s", r.ID, r.Status, r.Text)
	switch {
	case r.Status == OK:
		fmt.Fprintf(b, " [%s]", plural(r.Checks, "check", "checks"))
	case r.Status == Failed || r.Status == Warned:
		fmt.Fprintf(b, ": %s", r.Faults[0])
		if n := len(r.Faults) - 1; n > 0 && !all {
			fmt.Fprintf(b, " (and %d more of %d checks)", n, r.Checks)
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintf(b, " (%s)", strings.Join(r.Notes, "; "))
	}
	b.WriteByte('\n')
	if !all {
		return
	}
	for _, f := range r.Faults {
		fmt.Fprintf(b, "            %s\n", f)
	}
}

// checks returns the number of checks of a clause so far.
func (r *recorder) checks(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result(id).Checks
}

// noted reports whether there is a note on a clause.
func (r *recorder) noted(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.result(id).Notes) > 0
}

// NewReport returns a report of all clauses in which nothing was checked.
func NewReport() *Report { return newRecorder(true, nil).report(nil) }

// Check adds a check of one clause to a report: for those who know something
// that [Run] cannot see.
func (r *Report) Check(id string, ok bool, format string, args ...any) {
	res := r.Result(id)
	if res == nil {
		panic("conformance: there is no clause " + id)
	}
	res.Checks++
	if ok {
		res.Status = max(res.Status, OK)
		return
	}
	res.Status = Failed
	res.Faults = append(res.Faults, fmt.Sprintf(format, args...))
}

// CheckAll adds a check of several clauses, whose IDs are parted by spaces.
func (r *Report) CheckAll(ids string, ok bool, format string, args ...any) {
	for id := range strings.FieldsSeq(ids) {
		r.Check(id, ok, format, args...)
	}
}
