package config

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestWarnings(t *testing.T) {
	usual := minimal + "    window: {start: 2027-01-01T00:00:00Z, limit: 2027-07-01T00:00:00Z}\n"
	with := func(more string) string { return usual + "    " + more + "\n" }
	replace := func(old, new string) string { return strings.Replace(usual, old, new, 1) }
	public := func(string) (fs.FileInfo, error) { return fs.Stat(fstest.MapFS{"f": {Mode: 0o640}}, "f") }
	none := func(path string) (fs.FileInfo, error) {
		if strings.HasSuffix(path, "roots.pem") {
			return nil, fmt.Errorf("stat %s: %w", path, fs.ErrPermission)
		}
		return nil, fmt.Errorf("stat %s: %w", path, fs.ErrNotExist)
	}
	now := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name, text string
		host       Host
		want       []string
	}{
		{"nothing unusual", usual, Host{}, nil},
		{"no limit", with("pool_size: 0"), Host{}, []string{"10: logs[0].pool_size: 0 means no limit"}},
		{"small capacity", with("pool_size: 1"), Host{}, []string{"10: logs[0].pool_size: 1 entries every 200ms are a capacity of 5/s"}},
		{"large capacity", with("pool_size: 5000"), Host{}, []string{"10: logs[0].pool_size: 5000 entries every 200ms are a capacity of 2.5e+04/s"}},
		{"short interval", with("interval: 20ms"), Host{}, []string{"10: logs[0].interval: 20ms is short"}},
		{"long interval", with("interval: 2s"), Host{}, []string{"10: logs[0].interval: 2s is long"}},
		{"small page cache", replace("a.db", "a.db, page_cache: 2MiB"), Host{}, []string{"7: logs[0].cache.page_cache: 2MiB is small"}},
		{"exempt everybody", with("duplicate_exempt: [10.0.0.0/8, 0.0.0.0/0]"), Host{}, []string{"10: logs[0].duplicate_exempt[1]: 0.0.0.0/0 exempts everybody"}},
		{"exempt from nothing", with("duplicate_exempt: [10.0.0.0/8]\n    duplicate_rate: 0"), Host{}, []string{"10: logs[0].duplicate_exempt[0]: has no effect: duplicate_rate is 0"}},
		{"no floor", replace("directory: a", "directory: a, min_free: 0B"), Host{}, []string{"6: logs[0].storage.min_free: 0B means no floor"}},
		{"page cache over the memory", usual, Host{Memory: 2<<30 - 100<<20}, []string{"2: logs: the page caches of all connections may take 2GiB together, the machine has 1.9 GiB"}},
		{"no window", minimal, Host{}, []string{"3: logs[0].window: is missing"}},
		{"long window", replace("limit: 2027-07", "limit: 2028-02"), Host{}, []string{"9: logs[0].window: is longer than a year"}},
		{"a year and a day", replace("limit: 2027-07-01", "limit: 2028-01-02"), Host{}, nil},
		{"past window", usual, Host{Now: time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)}, []string{"9: logs[0].window: has passed"}},
		{"http", replace("https://ct.example.org", "http://127.0.0.1:8080"), Host{}, []string{"4: logs[0].submission_prefix: http://127.0.0.1:8080/a/ is of this machine alone"}},
		{"reserved host", with("monitoring_prefix: https://mon.example/"), Host{}, []string{"10: logs[0].monitoring_prefix: the domain example is reserved"}},
		{"upper case", replace("ct.example.org", "CT.daybook-log.net"), Host{}, []string{"4: logs[0].submission_prefix: the host has upper-case letters"}},
		{"public admin", usual + "admin: {listen: \":8081\"}\n", Host{}, []string{"10: admin.listen: :8081 can be reached from other machines"}},
		{"everybody is a proxy", usual + "trusted_proxies: [0.0.0.0/0, \"::/0\"]\n", Host{}, []string{"10: trusted_proxies[0]: 0.0.0.0/0 believes", "10: trusted_proxies[1]: ::/0 believes"}},
		{"cache in the storage", replace("a.db", "a/cache.db"), Host{}, []string{"7: logs[0].cache.path: is inside storage.directory"}},
		{"rounds in the storage", with("rounds: {path: a/r.jsonl}"), Host{}, []string{"10: logs[0].rounds.path: is inside storage.directory"}},
		{"lock in the storage", replace("lock.db", "a/lock.db"), Host{}, []string{"1: lock.path: is inside storage.directory"}},
		{"key for all to read", usual, Host{Stat: public}, []string{"5: logs[0].key: /etc/daybook/a.seed may be read by other users (mode 0640)"}},
		{"nothing there yet", usual, Host{Stat: none}, []string{
			"1: lock.path: /etc/daybook/lock.db does not exist", "5: logs[0].key: /etc/daybook/a.seed does not exist: `daybook init` makes it",
			"6: logs[0].storage.directory: /etc/daybook/a does not exist", "7: logs[0].cache.path: /etc/daybook/a.db does not exist",
			"8: logs[0].roots.files[0]: cannot be looked at: stat /etc/daybook/roots.pem: permission denied",
		}},
	} {
		if test.host.Now.IsZero() {
			test.host.Now = now
		}
		if test.host.Stat == nil {
			test.host.Stat = statPrivate
		}
		var got []string
		for _, p := range mustParse(t, test.text).Warnings(test.host) {
			// The host of minimal is one of them.
			if s := fmt.Sprintf("%d: %s: %s", p.Line, p.Key, p.Message); !strings.Contains(s, "the domain example.org is reserved") {
				got = append(got, s)
			}
		}
		if len(got) != len(test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], test.want[i]) {
				t.Errorf("%s: got %q, want %q", test.name, got[i], test.want[i])
			}
		}
	}
}
