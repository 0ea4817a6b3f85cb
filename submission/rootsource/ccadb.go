package rootsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/submission"
)

// The columns that are read of a report, by the names they have in the
// reports of CCADB. RootCACertificatesIncludedByRSReportCSV, the roots in the
// stores of Apple, Chrome, Microsoft or Mozilla, and
// RootCACertificatesInclusionReportCSV, those that have applied, have the first
// name of each; Mozilla's own IncludedCACertificateReportPEMCSV the second.
// Further columns, and their order, do not matter.
var (
	columnPEM         = []string{"X.509 Certificate (PEM)", "PEM Info"}
	columnUse         = []string{"Intended Use Case(s) Served", "Trust Bits"}
	columnFingerprint = []string{"SHA-256 Fingerprint"}                        // may be missing
	columnSubject     = []string{"Subject", "Common Name or Certificate Name"} // may be missing
)

// uses are the beginnings of the uses, separated by semicolons, for which a
// root is taken. The merge delay monitor root has the second one. Reports also
// list roots for mail and code, whose certificates are not for this log.
var uses = []string{"server authentication", "ct monitoring", "websites"}

// parser parses a certificate that is meant as a root, see
// submission.ParseRoot.
type parser func(der []byte) (*cert.Certificate, error)

// rowError says why the certificate of one row was left out.
type rowError struct {
	line        int    // of the certificate
	subject     string // as the report has it
	fingerprint [32]byte
	err         error
}

func (e *rowError) Error() string {
	s := fmt.Sprintf("root certificate skipped (line %d", e.line)
	if e.subject != "" {
		s += fmt.Sprintf(", %.200q", e.subject)
	}
	if e.fingerprint != [32]byte{} {
		s += fmt.Sprintf(", SHA-256 %x", e.fingerprint)
	}
	return s + "): " + e.err.Error()
}

func (e *rowError) Unwrap() error { return e.err }

// report is what a report of CCADB holds.
type report struct {
	roots   []*cert.Certificate // each once, in the order of the report
	skipped []error             // *rowError
	other   int                 // rows for other uses
}

// parseCCADB reads a report. A row whose certificate cannot be a root is
// skipped; a text that is no such report, or ends within a row, is an error.
func parseCCADB(text []byte, parse parser) (report, error) {
	var rep report
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	start := bytes.TrimSpace(text)
	start = start[:min(len(start), 60)]
	switch {
	case len(start) == 0:
		return rep, fmt.Errorf("%w: it is empty", errUnusable)
	case start[0] == '<':
		return rep, fmt.Errorf("%w but a web page: it begins with %q", errUnusable, start)
	case bytes.HasPrefix(start, []byte("-----BEGIN ")):
		return rep, fmt.Errorf("%w in CSV but a PEM file", errUnusable)
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1 // judged here, row by row
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return rep, fmt.Errorf("%w: %w", errUnusable, err)
	}
	cols, err := findColumns(header)
	if err != nil {
		return rep, err
	}
	seen := make(map[[32]byte]bool)
	short := false
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return rep, fmt.Errorf("%w: %w", errUnusable, err)
		}
		line, _ := r.FieldPos(min(cols.pem, len(row)-1))
		if short = len(row) < cols.count; len(row) != cols.count {
			rep.skipped = append(rep.skipped, &rowError{line: line, err: fmt.Errorf("the row has %d fields and not %d", len(row), cols.count)})
			continue
		}
		c, err := cols.root(row, line, parse)
		switch {
		case err != nil:
			rep.skipped = append(rep.skipped, err)
		case c == nil:
			rep.other++
		case !seen[c.Fingerprint]:
			seen[c.Fingerprint] = true
			rep.roots = append(rep.roots, c)
		}
	}
	if short {
		return rep, fmt.Errorf("%w: it ends within a row", errUnusable)
	}
	if len(rep.roots) == 0 {
		return rep, fmt.Errorf("%w: %w: %d certificates had to be skipped, %d rows are for other uses",
			errUnusable, submission.ErrNoRoots, len(rep.skipped), rep.other)
	}
	return rep, nil
}

// columns are the indexes of the columns, -1 for one that is missing.
type columns struct{ count, pem, use, fingerprint, subject int }

func findColumns(header []string) (columns, error) {
	find := func(names []string) int {
		return slices.IndexFunc(header, func(h string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(strings.TrimSpace(h), name) })
		})
	}
	c := columns{len(header), find(columnPEM), find(columnUse), find(columnFingerprint), find(columnSubject)}
	for _, need := range []struct {
		index int
		names []string
	}{{c.pem, columnPEM}, {c.use, columnUse}} {
		if need.index < 0 {
			return c, fmt.Errorf("%w: its first row has no column %q", errUnusable, need.names[0])
		}
	}
	return c, nil
}

// root returns the root of a row, nil if the row has none for this log.
func (c columns) root(row []string, line int, parse parser) (*cert.Certificate, error) {
	// There are rows without a certificate, like that of "Example CA".
	if strings.TrimSpace(row[c.pem]) == "" || !forLogs(row[c.use]) {
		return nil, nil
	}
	e := &rowError{line: line}
	if c.subject >= 0 {
		e.subject = row[c.subject]
	}
	der, err := decodeCell(row[c.pem])
	if err != nil {
		e.err = err
		return nil, e
	}
	e.fingerprint = sha256.Sum256(der)
	if c.fingerprint >= 0 {
		if e.err = sameFingerprint(row[c.fingerprint], e.fingerprint); e.err != nil {
			return nil, e
		}
	}
	root, err := parse(der)
	if err != nil {
		e.err = err
		return nil, e
	}
	return root, nil
}

// forLogs reports whether a list of uses has one of those that count.
func forLogs(list string) bool {
	for use := range strings.SplitSeq(list, ";") {
		use = strings.ToLower(strings.TrimSpace(use))
		if slices.ContainsFunc(uses, func(u string) bool { return strings.HasPrefix(use, u) }) {
			return true
		}
	}
	return false
}

var (
	errNoBlock    = errors.New("the field has no whole PEM certificate")
	errManyBlocks = errors.New("the field has more than one PEM certificate")
)

// decodeCell returns the certificate of a field: one PEM block, perhaps in
// apostrophes, perhaps with blanks in place of or beside its line breaks.
func decodeCell(field string) ([]byte, error) {
	const begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
	_, body, ok := strings.Cut(field, begin)
	body, rest, ended := strings.Cut(body, end)
	if !ok || !ended {
		return nil, errNoBlock
	}
	if strings.Contains(rest, begin) {
		return nil, errManyBlocks
	}
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	if err != nil || len(der) == 0 {
		return nil, errors.New("the PEM block is not valid base64")
	}
	return der, nil
}

// sameFingerprint compares the fingerprint of a certificate with that in the
// report: hexadecimal digits, perhaps with colons; or nothing.
func sameFingerprint(text string, is [32]byte) error {
	text = strings.Trim(strings.TrimSpace(text), "'")
	if text == "" {
		return nil
	}
	b, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(text))
	if err != nil || !bytes.Equal(b, is[:]) {
		return fmt.Errorf("the report says that its SHA-256 is %.100q", text)
	}
	return nil
}
