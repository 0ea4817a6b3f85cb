// Package prometheus holds the alerts of Daybook for Prometheus. Package
// internal/server tests that their metrics exist.
package prometheus

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// TestAlerts runs daybook.rules.test.yml. It needs promtool, which Debian has in
// its package prometheus; PROMTOOL may say where it is.
func TestAlerts(t *testing.T) {
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		promtool = "promtool"
	}
	if _, err := exec.LookPath(promtool); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: there is no promtool here (apt-get install prometheus): %v", err)
	}
	for _, args := range [][]string{{"check", "rules", "daybook.rules.yml"}, {"test", "rules", "daybook.rules.test.yml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestAlertsAreTested: each alert fires in a test.
func TestAlertsAreTested(t *testing.T) {
	read := func(file string) []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	fires := make(map[string]bool)
	for _, m := range regexp.MustCompile(`exp_samples: \[.*alertname="(\w+)"`).FindAllSubmatch(read("daybook.rules.test.yml"), -1) {
		fires[string(m[1])] = true
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(read("daybook.rules.yml"), -1)
	if len(alerts) == 0 {
		t.Fatal("there are no alerts")
	}
	for _, m := range alerts {
		if !fires[string(m[1])] {
			t.Errorf("%s fires in no test", m[1])
		}
	}
}
