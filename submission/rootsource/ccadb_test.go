package rootsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/submission"
)

func fingerprint(t testing.TB, pemText string) string {
	t.Helper()
	return fmt.Sprintf("%X", sha256.Sum256(ders(t, []byte(pemText))[0]))
}

// TestReports reads the shapes that reports of CCADB have. The columns of the
// first three are those of the published reports; the rest varies what has been
// seen to vary.
func TestReports(t *testing.T) {
	r := newRoots(t, 3)
	for i := range r {
		r[i] = strings.TrimSpace(r[i])
	}
	colons := func(s string) string {
		var parts []string
		for ; s != ""; s = s[2:] {
			parts = append(parts, s[:2])
		}
		return strings.Join(parts, ":")
	}
	applicants := []string{"Subject", "CA Owner", "X.509 Certificate (PEM)", "SHA-256 Fingerprint", "Intended Use Case(s) Served",
		"CCADB Inclusion Request Case #", "Apple Requested?", "Google Chrome Requested?", "Mozilla Requested?"}
	mozilla := []string{"Owner", "Common Name or Certificate Name", "SHA-256 Fingerprint", "Trust Bits", "Distrust for TLS After Date", "PEM Info"}
	for _, test := range []struct {
		name, text string
		roots      []int
		other      int
	}{
		{"included", included(row{r[0], tlsUse, fingerprint(t, r[0])}, row{r[1], mailUse + ";" + tlsUse, strings.ToLower(fingerprint(t, r[1]))},
			row{r[2], mailUse + ";Code Signing 1.3.6.1.5.5.7.3.3", ""}), []int{0, 1}, 1},
		{"applicants", asCSV([][]string{applicants, {"CN=A", "A", r[1], fingerprint(t, r[1]), tlsUse, "00002172", "true", "false", "false"},
			{"CN=B", "B", r[0], colons(fingerprint(t, r[0])), tlsUse, "00002242", "true", "true", "true"}}), []int{1, 0}, 0},
		{"Mozilla", asCSV([][]string{mozilla, {"O", "A", fingerprint(t, r[0]), "Email;Websites", "", "'" + r[0] + "'"},
			{"O", "B", "", "Websites", "2027.06.30", "'" + r[1] + "\n'"}, {"O", "C", "", "Email", "", "'" + r[2] + "'"}}), []int{0, 1}, 1},
		{"CT monitoring", included(row{r[0], "CT Monitoring", ""}), []int{0}, 0},
		{"example row", included(row{}, row{"", tlsUse, ""}, row{r[0], tlsUse, ""}, row{r[1], "", ""}), []int{0}, 3},
		{"twice", reportOf(r[1], r[0], r[1]), []int{1, 0}, 0},
		{"byte order mark", "\xef\xbb\xbf" + reportOf(r[0]), []int{0}, 0},
		{"CRLF", strings.ReplaceAll(reportOf(r[0], r[1]), "\n", "\r\n"), []int{0, 1}, 0},
		{"no line break at the end", strings.TrimSpace(reportOf(r[0], r[1])), []int{0, 1}, 0},
		{"blanks at the ends of lines", included(row{strings.ReplaceAll(r[0], "\n", "  \n"), tlsUse, " " + fingerprint(t, r[0]) + " "}), []int{0}, 0},
		{"one line", included(row{strings.ReplaceAll(r[0], "\n", " "), tlsUse, ""}, row{strings.ReplaceAll(r[1], "\n", ""), tlsUse, ""}), []int{0, 1}, 0},
		{"another order, other case, blanks", asCSV([][]string{{"Intended use case(s) served ", "x", " x.509 certificate (pem)"}, {tlsUse, "", r[2]}}), []int{2}, 0},
		{"empty lines", strings.ReplaceAll(reportOf(r[0], r[1]), "\"\n\"CN", "\"\n\n\"CN") + "\n\n", []int{0, 1}, 0},
		{"use that only begins the same", included(row{r[0], "Client Authentication 1.3.6.1.5.5.7.3.17", ""}, row{r[1], " server authentication", ""},
			row{r[2], "Not for Server Authentication", ""}), []int{1}, 2},
	} {
		rep, err := parseCCADB([]byte(test.text), submission.ParseRoot)
		if err != nil || len(rep.skipped) > 0 || rep.other != test.other || len(rep.roots) != len(test.roots) {
			t.Errorf("%s: %d roots, %d other rows, skipped %v, error %v", test.name, len(rep.roots), rep.other, rep.skipped, err)
			continue
		}
		for i, n := range test.roots {
			if !bytes.Equal(rep.roots[i].Raw, ders(t, []byte(r[n]))[0]) {
				t.Errorf("%s: root %d is another one", test.name, i)
			}
		}
	}
}

// TestReportFaults: a row that is no good is named with its line and subject,
// and leaves the rows around it alone.
func TestReportFaults(t *testing.T) {
	r := newRoots(t, 3)
	ca := newCA(t)
	chain, err := ca.Make(1, testca.Leaf{})
	if err != nil {
		t.Fatal(err)
	}
	block := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	good := ders(t, []byte(r[2]))[0]
	for _, test := range []struct {
		name   string
		bad    row
		want   string
		is     error
		sha256 bool // is named
	}{
		{"no PEM", row{"NOT A CERTIFICATE", tlsUse, ""}, "no whole PEM certificate", errNoBlock, false},
		{"cut off", row{r[2][:200], tlsUse, ""}, "no whole PEM certificate", errNoBlock, false},
		{"two", row{r[2] + r[1], tlsUse, ""}, "more than one", errManyBlocks, false},
		{"no base64", row{strings.Replace(r[2], "MII", "M!I", 1), tlsUse, ""}, "not valid base64", nil, false},
		{"nothing inside", row{"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", tlsUse, ""}, "not valid base64", nil, false},
		{"not a certificate", row{block([]byte("hello")), tlsUse, ""}, "malformed", cert.ErrMalformed, true},
		{"truncated DER", row{block(good[:len(good)-5]), tlsUse, ""}, "malformed", cert.ErrMalformed, true},
		{"end entity", row{block(chain.Certificates[0]), tlsUse, ""}, "end entity", submission.ErrEndEntity, true},
		{"another fingerprint", row{r[2], tlsUse, strings.Repeat("AB", 32)}, "the report says that its SHA-256 is", nil, true},
		{"no fingerprint", row{r[2], tlsUse, "x\ny"}, `the report says that its SHA-256 is "x\ny"`, nil, true},
	} {
		rep, err := parseCCADB([]byte(included(row{r[0], tlsUse, ""}, test.bad, row{r[1], tlsUse, ""})), submission.ParseRoot)
		if err != nil || len(rep.roots) != 2 || len(rep.skipped) != 1 {
			t.Errorf("%s: %d roots, skipped %v, error %v", test.name, len(rep.roots), rep.skipped, err)
			continue
		}
		message := rep.skipped[0].Error()
		line := fmt.Sprintf("(line %d, ", 2+strings.Count(r[0], "\n")+1) // a root's field has its line breaks
		if !strings.Contains(message, test.want) || !strings.Contains(message, line) || !strings.Contains(message, `"CN=Root 2; O=\"Roots, Ltd.\"; C=XX"`) ||
			strings.Contains(message, "\n") {
			t.Errorf("%s: %s, want %q and %q", test.name, message, test.want, line)
		}
		if test.is != nil && !errors.Is(rep.skipped[0], test.is) {
			t.Errorf("%s: %v is no %v", test.name, rep.skipped[0], test.is)
		}
		if named := new(rowError); !errors.As(rep.skipped[0], &named) || named.fingerprint != [32]byte{} != test.sha256 {
			t.Errorf("%s: %v", test.name, rep.skipped[0])
		}
	}

	// A row with too many or too few fields, as a stray comma makes them.
	lines := strings.SplitAfter(reportOf(r[0]), "\n")
	rep, err := parseCCADB([]byte(lines[0]+"a,b\n"+strings.Join(lines[1:], "")+strings.Repeat("a,", 20)+"\n"), submission.ParseRoot)
	if err != nil || len(rep.roots) != 1 || len(rep.skipped) != 2 || !strings.Contains(rep.skipped[0].Error(), "(line 2): the row has 2 fields and not 9") {
		t.Errorf("%d roots, skipped %v, error %v", len(rep.roots), rep.skipped, err)
	}
}

// TestNoReport: what is no report, or not the whole of one, is an error and not
// an empty or a smaller set.
func TestNoReport(t *testing.T) {
	r := newRoots(t, 3)
	whole := reportOf(r...)
	lastRow := strings.LastIndex(whole, `"CN=Root 3`)
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "it is empty"},
		{"byte order mark alone", "\xef\xbb\xbf", "it is empty"},
		{"blanks", " \r\n\t\n", "it is empty"},
		{"HTML", "\n<!DOCTYPE html>\n<html><body>Down for maintenance</body></html>", `a web page: it begins with "<!DOCTYPE html>`},
		{"XML", "<?xml version=\"1.0\"?><Error/>", "a web page"},
		{"JSON", `{"error": "rate limited", "code": 429}`, "it is no list of roots"},
		{"text", "Service unavailable", `no column "X.509 Certificate (PEM)"`},
		{"PEM", r[0], "a PEM file"},
		{"binary", "\x1f\x8b\x08\x00\x00\x00\xff\xfe\"", "it is no list of roots"},
		{"header alone", included(), "no usable root"},
		{"no certificate column", strings.Replace(whole, "X.509 Certificate (PEM)", "Certificate", 1), `no column "X.509 Certificate (PEM)"`},
		{"no use column", strings.Replace(whole, "Intended Use Case(s) Served", "Uses", 1), `no column "Intended Use Case(s) Served"`},
		{"all for mail", included(row{r[0], mailUse, ""}), "1 rows are for other uses"},
		{"all bad", included(row{"x", tlsUse, ""}, row{"y", tlsUse, ""}), "2 certificates had to be skipped"},
		{"cut in a certificate", whole[:len(whole)/2], "quote"},
		{"cut in the last certificate", whole[:lastRow+200], "quote"},
		{"cut between fields", whole[:strings.LastIndex(whole, `,"Included"`)], "ends within a row"},
		{"cut in a field without quotes", whole[:lastRow] + "CN=Ro", "ends within a row"},
		{"stray quote", strings.Replace(whole, "Roots, Ltd.\",", "Roots, \" Ltd.\",", 1), "quote"},
	} {
		rep, err := parseCCADB([]byte(test.text), submission.ParseRoot)
		if !errors.Is(err, errUnusable) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %d roots, error %v, want %q", test.name, len(rep.roots), err, test.want)
		}
	}
}

// TestReportOfPublicRoots: the roots of a log in use, as CCADB would list them.
func TestReportOfPublicRoots(t *testing.T) {
	list := ders(t, readFileT(t, filepath.Join(cases.Dir(t, "open"), "roots", "arche2026h1-roots.pem")))
	rows := make([]row, len(list))
	for i, der := range list {
		rows[i] = row{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), tlsUse, fmt.Sprintf("%X", sha256.Sum256(der))}
	}
	rep, err := parseCCADB([]byte(included(rows...)), submission.ParseRoot)
	if err != nil || len(rep.skipped) > 0 || len(rep.roots) != 662 {
		t.Fatalf("%d roots, skipped %v, error %v", len(rep.roots), rep.skipped, err)
	}
	for i, c := range rep.roots {
		if !bytes.Equal(c.Raw, list[i]) {
			t.Errorf("root %d is another one", i)
		}
	}
}

func FuzzReport(f *testing.F) {
	r := newRoots(f, 2)
	f.Add([]byte(reportOf(r...)))
	f.Add([]byte(included(row{r[0], tlsUse, "00"}, row{"x", tlsUse, ""}, row{})))
	f.Add([]byte("\xef\xbb\xbf\"PEM Info\",Trust Bits\r\n'-----BEGIN CERTIFICATE-----MIIB-----END CERTIFICATE-----',Websites\r\n"))
	f.Add([]byte("<html>"))
	f.Add([]byte("PEM Info,Trust Bits\n\"\",Websites\nx\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rep, err := parseCCADB(text, submission.ParseRoot)
		if err == nil && len(rep.roots) == 0 {
			t.Error("neither a root nor an error")
		}
		if err != nil && !errors.Is(err, errUnusable) {
			t.Errorf("unmarked error %v", err)
		}
		seen := make(map[[32]byte]bool)
		for _, c := range rep.roots {
			if again, err := submission.ParseRoot(c.Raw); err != nil || again.Fingerprint != c.Fingerprint || seen[c.Fingerprint] {
				t.Errorf("root %x: %v, twice: %v", c.Fingerprint, err, seen[c.Fingerprint])
			}
			seen[c.Fingerprint] = true
		}
		for _, e := range rep.skipped {
			if strings.ContainsAny(e.Error(), "\n\r") {
				t.Errorf("a line break in %q", e)
			}
		}
	})
}
