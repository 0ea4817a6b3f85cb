package own

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daybook-ct/daybook/test/conformance"
)

// PrintChoices lists what daybook did with the rows that leave a choice.
func PrintChoices(w io.Writer, rep *conformance.Report) error {
	var lines []string
	count := map[string]int{}
	for _, o := range rep.Outcomes {
		count[o.Set]++
		if !o.Free() {
			continue
		}
		what := "accepted"
		if !o.Accepted() {
			what = fmt.Sprintf("refused (%d): %s", o.Status, o.Message)
		}
		lines = append(lines, fmt.Sprintf("%s (%s): %s", o.ID, o.Expect, what))
	}
	slices.Sort(lines)
	_, err := fmt.Fprintf(w, "\n%d real and %d synthetic chains were submitted. Where the index leaves a choice:\n%s\n",
		count["chains"], count["synthetic"], strings.Join(lines, "\n"))
	return err
}

// The tables stand between these lines.
const (
	beginTables = "<!-- The tables below are made by test/conformance/run -admission of what daybook answers; edit test/conformance/own/quirks.go. -->"
	endTables   = "<!-- End of the tables. -->"
)

// WriteAdmission replaces the tables in docs/admission.md by those of a report.
func WriteAdmission(path, cases string, rep *conformance.Report) error {
	_, text, err := admissionTexts(path, cases, rep)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// CheckAdmission reports whether docs/admission.md says what the log does.
func CheckAdmission(path, cases string, rep *conformance.Report) error {
	is, want, err := admissionTexts(path, cases, rep)
	if err != nil || is == want {
		return err
	}
	a, b := strings.Split(is, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Errorf("%s, line %d, says %q, true is %q: write it with -admission", path, i+1, a[i], b[i])
		}
	}
	return fmt.Errorf("%s has %d lines, want %d: write it with -admission", path, len(a), len(b))
}

// admissionTexts returns the file as it is and as it should be.
func admissionTexts(path, cases string, rep *conformance.Report) (is, want string, err error) {
	tables, err := admissionTables(cases, rep)
	if err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	before, rest, ok := strings.Cut(string(text), beginTables)
	_, after, ok2 := strings.Cut(rest, endTables)
	if !ok || !ok2 {
		return "", "", fmt.Errorf("%s has no place for the tables, between %q and %q", path, beginTables, endTables)
	}
	return string(text), before + beginTables + "\n\n" + tables + endTables + after, nil
}

// admissionTables returns the tables of docs/admission.md.
func admissionTables(cases string, rep *conformance.Report) (string, error) {
	byRow := make(map[string]conformance.Outcome)
	for _, o := range rep.Outcomes {
		short, _, _ := strings.Cut(o.ID, "-")
		byRow[short] = o
	}
	var b strings.Builder
	var errs []error
	used := make(map[string]bool)
	for _, t := range quirkTables {
		fmt.Fprintf(&b, "### %s\n\n| quirk | daybook | why | Sunlight | TesseraCT | cases |\n|---|---|---|---|---|---|\n", t.heading)
		for _, q := range t.quirks {
			var list []conformance.Outcome
			for row := range strings.FieldsSeq(q.rows) {
				o, ok := byRow[row]
				if !ok || used[row] {
					errs = append(errs, fmt.Errorf("%q: the row %s is not there, or in two quirks", q.what, row))
				}
				used[row] = true
				list = append(list, o)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", q.what, verdict(list, daybookVerdict), q.why,
				verdict(list, peerVerdict("sunlight")), verdict(list, peerVerdict("tesseract")), q.rows)
		}
		b.WriteString("\n")
	}
	for row := range byRow {
		if !used[row] {
			errs = append(errs, fmt.Errorf("no quirk has the row %s", row))
		}
	}
	odd, err := oddSummary(cases, rep)
	b.WriteString(odd)
	return b.String(), errors.Join(append(errs, err)...)
}

func daybookVerdict(o conformance.Outcome) string {
	if o.Accepted() {
		return "accepts"
	}
	return "refuses"
}

// peerVerdict reads the measured columns of a peer: with its filter for
// serverAuth, and without.
func peerVerdict(peer string) func(conformance.Outcome) string {
	return func(o conformance.Outcome) string {
		with := strings.HasPrefix(o.Peers[peer+"_eku"], "accept")
		without := strings.HasPrefix(o.Peers[peer+"_noeku"], "accept")
		switch {
		case with:
			return "accepts"
		case without:
			return "refuses by its EKU filter"
		}
		return "refuses"
	}
}

// verdict says what is done with some rows: in a word if it is the same for
// all.
func verdict(list []conformance.Outcome, of func(conformance.Outcome) string) string {
	rows := make(map[string][]string)
	var order []string
	for _, o := range list {
		v := of(o)
		if rows[v] == nil {
			order = append(order, v)
		}
		short, _, _ := strings.Cut(o.ID, "-")
		rows[v] = append(rows[v], short)
	}
	if len(order) == 1 {
		return order[0]
	}
	// The most common one goes without its rows.
	slices.SortStableFunc(order, func(a, b string) int { return len(rows[b]) - len(rows[a]) })
	s := order[0]
	for _, v := range order[1:] {
		s += "; " + strings.Join(rows[v], " ") + ": " + v
	}
	return s
}

// oddSummary is a paragraph on the odd certificates.
func oddSummary(cases string, rep *conformance.Report) (string, error) {
	text, err := os.ReadFile(filepath.Join(cases, "odd", "INDEX.tsv"))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var strict, lax int
	for _, line := range lines[1:] {
		f := strings.Split(line, "\t")
		if strings.HasPrefix(f[2], "ok") {
			strict++
		}
		if strings.HasPrefix(f[3], "ok") {
			lax++
		}
	}
	i := slices.IndexFunc(rep.Odd, func(o conformance.OddOutcomes) bool { return o.Set == "synthetic" })
	if i < 0 {
		return "", errors.New("the odd certificates were not submitted to the log of the synthetic chains")
	}
	o := rep.Odd[i]
	return fmt.Sprintf(`### Odd certificates

%d certificates of lint corpora and parser tests, most of them broken in some way, and without a path to any root: Go's
crypto/x509 (1.26) parses %d of them, certificate-transparency-go %d. Each was submitted by itself (%d accepted, %d
refused with a 400 that says why) and as the issuer of a good leaf (%d accepted, %d refused); a good chain right after
each was accepted. Given as the file of accepted roots, they do not keep a log from starting: those that can be roots are
listed by get-roots, the rest are named in the log.

`, o.Certificates, strict, lax, o.AloneAccepted, o.AloneRefused, o.AsIssuerAccepted, o.AsIssuerRefused), nil
}
