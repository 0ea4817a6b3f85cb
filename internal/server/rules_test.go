package server

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"github.com/daybook-ct/daybook/internal/obs"
)

const (
	rulesFile = "../../deploy/prometheus/daybook.rules.yml"
	rulesDoc  = "../../docs/operations.md"
)

// rule is an alert of the rules for Prometheus.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alertRules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var rules []rule
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) < 25 {
		t.Fatalf("only %d alerts", len(rules))
	}
	return rules
}

// words is a text with all white space made one space.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestRulesAreDocumented: an alert says how bad it is, what is the matter and what to do,
// and docs/operations.md says the same; it has no section of an alert that is gone.
func TestRulesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(rulesDoc)
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	for section := range strings.SplitSeq(string(text), "\n### ") {
		if title, body, ok := strings.Cut(section, "\n"); ok && strings.HasPrefix(title, "Daybook") {
			sections[title] = words(body)
		}
	}
	for _, r := range alertRules(t) {
		section, ok := sections[r.Alert]
		if !ok {
			t.Errorf("%s has no section in %s, or is there twice", r.Alert, rulesDoc)
			continue
		}
		delete(sections, r.Alert)
		severity := map[string]string{"page": "Page: ", "ticket": "Ticket: "}[r.Labels["severity"]]
		if severity == "" || !strings.HasPrefix(section, severity) {
			t.Errorf("%s: severity %q, and the section begins %.10q", r.Alert, r.Labels["severity"], section)
		}
		condition := "`" + r.Expr + "`"
		if r.For != "" {
			condition += " for " + r.For
		}
		if !strings.Contains(section, condition+".") {
			t.Errorf("%s: its section does not say %s", r.Alert, condition)
		}
		if action := words(r.Annotations["action"]); len(action) < 20 || !strings.Contains(section, action) {
			t.Errorf("%s: its section does not say what to do as its annotation does: %s", r.Alert, action)
		}
		if r.Annotations["summary"] == "" || r.Annotations["runbook"] != "docs/operations.md#"+strings.ToLower(r.Alert) {
			t.Errorf("%s: annotations %v", r.Alert, r.Annotations)
		}
	}
	for title := range sections {
		t.Errorf("%s has a section about %s, which is no alert", rulesDoc, title)
	}
}

var (
	selector   = regexp.MustCompile(`(daybook_\w+)(?:\{([^}]*)\})?`)
	matcher    = regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`)
	metricName = regexp.MustCompile(`fqName: "(\w+)"`)
)

// TestRulesHaveMetrics: each metric in a rule is one that the server has, and where the
// rule asks for certain labels there are such series from the start; one that came
// with its first event would hide that from increase(). No rule is dead.
func TestRulesHaveMetrics(t *testing.T) {
	reg, err := obs.NewRegistry(obs.ReadBuild())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := obs.NewLogger(io.Discard, obs.LoggerOptions{Metrics: reg}); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	o := p.log("alpha")
	o.MinFree, o.WarnFree, o.ScrubRate, o.RoundsPath, o.RoundsSize = 1, 2, 1, p.path("rounds.jsonl"), 1<<20
	p.create(o)
	p.start(Options{Logs: []LogOptions{o}, Registry: reg})

	described := make(map[string]bool)
	descs := make(chan *prometheus.Desc)
	go func() { reg.Describe(descs); close(descs) }()
	for d := range descs {
		described[metricName.FindStringSubmatch(d.String())[1]] = true
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string][]map[string]string) // the labels, by name
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			series[f.GetName()] = append(series[f.GetName()], labels)
		}
	}
	seen := 0
	for _, r := range alertRules(t) {
		for _, s := range selector.FindAllStringSubmatch(r.Expr, -1) {
			seen++
			if !described[s[1]] {
				t.Errorf("%s: there is no metric %s", r.Alert, s[1])
			} else if s[2] != "" && !anyMatches(t, series[s[1]], s[2]) {
				t.Errorf("%s: %s has no series with {%s}", r.Alert, s[1], s[2])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d metrics were found in the rules", seen)
	}
}

// anyMatches reports whether a series has the labels asked for, and for each
// alternative of a regular expression there is one.
func anyMatches(t *testing.T, series []map[string]string, matchers string) bool {
	t.Helper()
	found := matcher.FindAllStringSubmatch(matchers, -1)
	if len(found) != strings.Count(matchers, "=") {
		t.Fatalf("cannot read {%s}", matchers)
	}
	for _, m := range found {
		for value := range strings.SplitSeq(m[3], "|") {
			ok := false
			for _, s := range series {
				ok = ok || s[m[1]] == value
			}
			if !ok {
				return false
			}
		}
	}
	return true
}
