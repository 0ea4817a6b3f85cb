package config

import (
	"strings"
	"testing"
)

// line counts from the first line of minimal, which has 8 lines.
func TestErrors(t *testing.T) {
	with := func(more string) string { return minimal + "    " + more + "\n" }
	replace := func(old, new string) string {
		s := strings.Replace(minimal, old, new, 1)
		if s == minimal {
			panic("nothing to replace: " + old)
		}
		return s
	}
	second := func(old, new string) string {
		s := strings.Replace(two, old, new, 1)
		if s == two {
			panic("nothing to replace: " + old)
		}
		return minimal + s
	}
	for _, test := range []struct{ name, text, want string }{
		// The text as such.
		{"empty", "", "0: : the file is empty"},
		{"comment only", "# nothing\n", "0: : the file is empty"},
		{"list", "- a\n", "1: : must be a mapping"},
		{"text", "hello\n", "1: : must be a mapping"},
		{"syntax", minimal + "\tx: 1\n", "9: : is not YAML: found character that cannot start any token"},
		{"control character", "a: \x01\n", "0: : is not YAML: control characters are not allowed"},
		{"unknown anchor", "logs: *x\n", "0: : is not YAML: unknown anchor 'x' referenced"},
		{"second document", minimal + "---\nlogs: []\n", "9: : a second YAML document"},
		{"second document broken", minimal + "---\n\tx\n", "10: : is not YAML"},

		// Keys.
		{"unknown at the top", minimal + "colour: red\n", "9: colour: is not a key that Daybook knows; the keys at the top are listen,"},
		{"unknown in a log", with("colour: red"), "9: logs[0].colour: is not a key that Daybook knows; the keys in logs[0] are name,"},
		{"misspelt", with("pool_sise: 1"), "9: logs[0].pool_sise: is not a key that Daybook knows: did you mean pool_size?"},
		{"without underscore", with("poolsize: 1"), "9: logs[0].poolsize: is not a key that Daybook knows: write pool_size"},
		{"key of Sunlight", with("period: 200"), "9: logs[0].period: is not a key that Daybook knows: write interval, with its unit"},
		{"inception", with("inception: 2026-11-30"), "9: logs[0].inception: is not a key that Daybook knows: remove it"},
		{"duplicate", with("name: b"), "9: logs[0].name: is here twice, first in line 3"},
		{"duplicate at the top", minimal + "lock: {path: b}\n", "9: lock: is here twice, first in line 1"},
		{"duplicate in a block", replace("{path: a.db}", "{path: a.db, path: b.db}"), "7: logs[0].cache.path: is here twice"},
		{"merge key", with("<<: {a: b}"), "9: logs[0].<<: is no key"},
		{"list as a key", with("[a, b]: c"), "9: logs[0].: is no key"},

		// Missing values.
		{"no logs", "lock: {path: l}\n", "1: logs: is missing"},
		{"empty logs", "logs: []\n", "1: logs: is an empty list"},
		{"null logs", "logs:\n", "1: logs: has no value"},
		{"null value", replace(" a.seed", ""), "5: logs[0].key: has no value"},
		{"null entry", "logs: [~]\n", "1: logs[0]: has no value"},
		{"empty text", replace("a.seed", `""`), "5: logs[0].key: is empty"},
		{"no key", replace("    key: a.seed\n", ""), "3: logs[0].key: is missing: write for example `key: example2027h1.seed`"},
		{"no name", replace("name: a\n    ", ""), "3: logs[0].name: is missing"},
		{"no storage", replace("    storage: {directory: a}\n", ""), "3: logs[0].storage: is missing: write for example `storage: {directory: example2027h1}`"},
		{"no directory", replace("{directory: a}", "{}"), "6: logs[0].storage.directory: is missing"},
		{"no lock at all", replace("lock: {path: lock.db}\n", ""), "2: logs[0].lock: is missing, and there is none at the top"},
		{"no roots", replace("    roots: {files: [roots.pem]}\n", ""), "3: logs[0].roots: is missing"},
		{"empty roots", replace("[roots.pem]", "[]"), "8: logs[0].roots.files: is an empty list"},
		{"half a window", with("window: {start: 2027-01-01T00:00:00Z}"), "9: logs[0].window.limit: is missing"},

		// Types and units.
		{"scalar for a block", replace("{path: a.db}", "a.db"), "7: logs[0].cache: must be a mapping: write for example `cache: {path: example2027h1-cache.db}`"},
		{"scalar for a list", replace("[roots.pem]", "roots.pem"), "8: logs[0].roots.files: must be a list"},
		{"list for a scalar", replace("a.seed", "[a.seed]"), "5: logs[0].key: must be a single value, not a list"},
		{"block for a scalar", replace("a.seed", "{file: a.seed}"), "5: logs[0].key: must be a single value, not a mapping"},
		{"number for text", replace("name: a", "name: 2027"), `3: logs[0].name: 2027 is not text to YAML: write "2027", in quotes`},
		{"text for a number", with(`pool_size: many`), `9: logs[0].pool_size: "many" is no whole number`},
		{"quoted number", with(`pool_size: "150"`), `9: logs[0].pool_size: "150" is no whole number`},
		{"octal or not", with(`pool_size: 0150`), `9: logs[0].pool_size: "0150" is no whole number`},
		{"fraction", with(`pool_size: 1.5`), `9: logs[0].pool_size: "1.5" is no whole number`},
		{"huge number", with(`pool_size: 99999999999999999999`), `9: logs[0].pool_size: "99999999999999999999" is no whole number`},
		{"yes", with("accept_any_eku: yes"), `9: logs[0].accept_any_eku: "yes" is neither true nor false`},
		{"blanks", replace("a.seed", `" a.seed"`), "5: logs[0].key: \" a.seed\" has blanks"},
		{"no unit of time", with("interval: 200"), "9: logs[0].interval: 200 has no unit: write 200ms or 200s"},
		{"no unit of size", replace("a.db", "a.db, page_cache: 1024"), "7: logs[0].cache.page_cache: 1024 has no unit"},
		{"date without time", with("window: {start: 2027-01-01, limit: 2027-07-01T00:00:00Z}"), "9: logs[0].window.start: 2027-01-01 has no time of day"},
		{"word", minimal + "on_halt: restart\n", `9: on_halt: "restart" is not possible here: write stay or exit`},
		{"level", minimal + "logging: {level: verbose}\n", `9: logging.level: "verbose" is not possible here: write debug, info, warn or error`},
		{"network", minimal + "trusted_proxies: [10.1.2.3/8]\n", "9: trusted_proxies[0]: 10.1.2.3/8 has bits set behind its length: write 10.0.0.0/8"},

		// Values.
		{"interval of nothing", with("interval: 0s"), "9: logs[0].interval: must be more than 0"},
		{"negative interval", with("interval: -1s"), "9: logs[0].interval: must be more than 0"},
		{"interval over the MMD", with("interval: 31s"), "9: logs[0].interval: 31s is too long: an entry must be in the tree within 1m"},
		{"negative pool", with("pool_size: -1"), "9: logs[0].pool_size: -1 is negative"},
		{"negative duplicate rate", with("duplicate_rate: -1"), "9: logs[0].duplicate_rate: -1 is negative"},
		{"exempt part of a /64", with("duplicate_exempt: [\"2001:db8::1\"]"), "9: logs[0].duplicate_exempt[0]: 2001:db8::1/128 is a part of an IPv6 /64, which counts as one submitter: write 2001:db8::/64"},
		{"exempt IPv4 in IPv6", with("duplicate_exempt: [\"::ffff:192.0.2.0/120\"]"), "9: logs[0].duplicate_exempt[0]: ::ffff:192.0.2.0/120 is an IPv4 address within IPv6"},
		{"exempt twice", with("duplicate_exempt: [192.0.2.1, 192.0.2.1/32]"), "9: logs[0].duplicate_exempt[1]: 192.0.2.1/32 is here twice"},
		{"exempt host bits", with("duplicate_exempt: [192.0.2.1/24]"), "9: logs[0].duplicate_exempt[0]: 192.0.2.1/24 has bits set behind its length: write 192.0.2.0/24"},
		{"exempt name", with("duplicate_exempt: [crossposter.example.org]"), "9: logs[0].duplicate_exempt[0]: \"crossposter.example.org\" is no network"},
		{"exempt many", with("duplicate_exempt: [" + strings.TrimSuffix(strings.Repeat("192.0.2.1, ", 101), ", ") + "]"), "9: logs[0].duplicate_exempt: has 101 networks: write at most 100"},
		{"exempt nobody", with("duplicate_exempt: []"), "9: logs[0].duplicate_exempt: is an empty list"},
		{"sunset without a time", with("sunset: soon"), "9: logs[0].sunset"},
		{"page cache of nothing", replace("a.db", "a.db, page_cache: 0B"), "7: logs[0].cache.page_cache: must be more than 0"},
		{"warning below the floor", replace("directory: a", "directory: a, warn_free: 1MiB"), "6: logs[0].storage.warn_free: 1MiB is less than min_free, which is 1GiB"},
		{"floor above the warning", replace("directory: a", "directory: a, min_free: 6GiB"), "6: logs[0].storage.warn_free: 5GiB is less than min_free, which is 6GiB"},
		{"negative inodes", replace("directory: a", "directory: a, min_free_inodes: -1"), "6: logs[0].storage.min_free_inodes: -1 is negative"},
		{"negative scrub", replace("directory: a", "directory: a, scrub_rate: -1"), "6: logs[0].storage.scrub_rate: -1 is not possible"},
		{"scrub of everything", replace("directory: a", "directory: a, scrub_rate: 100001"), "6: logs[0].storage.scrub_rate: 100001 is not possible"},
		{"window backwards", with("window: {start: 2027-07-01T00:00:00Z, limit: 2027-01-01T00:00:00Z}"), "9: logs[0].window: the limit 2027-01-01T00:00:00Z is not after"},
		{"window of nothing", with("window: {start: 2027-07-01T00:00:00Z, limit: 2027-07-01T00:00:00Z}"), "9: logs[0].window: the limit"},
		{"shutdown", minimal + "shutdown_timeout: 0s\n", "9: shutdown_timeout: must be more than 0"},
		{"name", replace("name: a", "name: Rome/2027"), `3: logs[0].name: "Rome/2027" is not possible`},

		// Listeners.
		{"no port", minimal + "listen: [localhost]\n", `9: listen[0]: "localhost" is no address: write host:port`},
		{"port name", minimal + "listen: [\"localhost:http\"]\n", `9: listen[0]: "http" is no port`},
		{"URL for an address", minimal + "listen: [\"http://localhost:80\"]\n", `9: listen[0]: "http://localhost:80" is no address`},
		{"one address twice", minimal + "listen: [\":80\", \":80\"]\n", "9: listen[1]: is the same address as listen[0] (line 9)"},
		{"admin on the public address", minimal + "listen: [\":80\"]\nadmin:\n  listen: :80\n", "11: admin.listen: is the same address as listen[0] (line 9)"},

		// Prefixes.
		{"http", replace("https:", "http:"), "4: logs[0].submission_prefix: http is possible for loopback hosts only"},
		{"query", replace("org/a/", "org/a/?x=1"), "4: logs[0].submission_prefix: a prefix has no query"},
		{"no scheme", replace("https://", ""), "4: logs[0].submission_prefix: \"ct.example.org/a/\" is no URL"},
		{"plus", replace("org/a/", "org/a+b/"), "4: logs[0].submission_prefix: the path /a+b has the character '+'"},
		{"one prefix", second("org/b/", "org/a"), "10: logs[1].submission_prefix: is the same as logs[0].submission_prefix (line 4)"},
		{"one prefix with the port written", second("org/b/", "org:443/a/"), "10: logs[1].submission_prefix: is the same as logs[0].submission_prefix (line 4)"},
		{"one origin but for case", second("org/b/", "org/A/"), "10: logs[1].submission_prefix: differs from logs[0].submission_prefix (line 4) only in"},
		{"monitoring on another's submission", second("b.seed", "b.seed\n    monitoring_prefix: https://ct.example.org/a/"), "12: logs[1].monitoring_prefix: is the same as logs[0].submission_prefix (line 4)"},
		{"submission on another's monitoring", with("monitoring_prefix: https://ct.example.org/b/") + two, "11: logs[1].submission_prefix: is the same as logs[0].monitoring_prefix (line 9)"},
		{"one monitoring prefix", with("monitoring_prefix: https://m.example.org/") + two + "    monitoring_prefix: https://m.example.org\n", "16: logs[1].monitoring_prefix: is the same as logs[0].monitoring_prefix (line 9)"},
		{"within another's tiles", with("monitoring_prefix: https://m.example.org/") + two + "    monitoring_prefix: https://m.example.org/tile/b/\n", "16: logs[1].monitoring_prefix: is inside logs[0].monitoring_prefix (line 9), which has its own tile there"},
		{"around another's", with("monitoring_prefix: https://m.example.org/issuer/x/") + two + "    monitoring_prefix: https://m.example.org/\n", "9: logs[0].monitoring_prefix: is inside logs[1].monitoring_prefix (line 16), which has its own issuer"},
		{"within its own submissions", with("monitoring_prefix: https://ct.example.org/a/ct/"), "9: logs[0].monitoring_prefix: is inside logs[0].submission_prefix (line 4), which has its own ct there"},

		// Names and files.
		{"one name", second("name: b", "name: a"), `9: logs[1].name: "a" is also the name of logs[0].name (line 3)`},
		{"one key", second("b.seed", "./x/../a.seed"), "11: logs[1].key: is the same file as logs[0].key (line 5)"},
		{"one directory", second("directory: b", "directory: /etc/daybook/a/"), "12: logs[1].storage.directory: is the same file as logs[0].storage.directory (line 6)"},
		{"directory in a directory", second("directory: b", "directory: a/b"), "12: logs[1].storage.directory: is inside logs[0].storage.directory (line 6)"},
		{"directory around a directory", replace("directory: a", "directory: x/a") + strings.Replace(two, "directory: b", "directory: x", 1), "6: logs[0].storage.directory: is inside logs[1].storage.directory (line 12)"},
		{"one cache", second("b.db", "a.db"), "13: logs[1].cache.path: is the same file as logs[0].cache.path (line 7)"},
		{"one file of rounds", with("rounds: {path: r.jsonl}") + two + "    rounds: {path: r.jsonl}\n", "16: logs[1].rounds.path: is the same file as logs[0].rounds.path (line 9)"},
		{"rounds in the cache", with("rounds: {path: a.db}"), "9: logs[0].rounds.path: is the same file as logs[0].cache.path (line 7)"},
		{"rounds too small", with("rounds: {max_size: 1023KiB}"), "9: logs[0].rounds.max_size: 1023KiB is too small: write at least 1MiB, or 0B"},
		{"cache as lock", replace("a.db", "lock.db"), "7: logs[0].cache.path: is the same file as lock.path (line 1)"},
		{"lock as cache", with("lock: {path: a.db}"), "9: logs[0].lock.path: is the same file as logs[0].cache.path (line 7)"},
		{"key in the published directory", replace("a.seed", "a/a.seed"), "5: logs[0].key: the private key is inside logs[0].storage.directory (line 6)"},
		{"another's key in the published directory", second("b.seed", "a/b.seed"), "11: logs[1].key: the private key is inside logs[0].storage.directory (line 6)"},
	} {
		got := problems(t, test.text)
		if len(got) == 0 || !strings.HasPrefix(got[0], test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		for _, p := range got[min(1, len(got)):] {
			// One mistake must not drag in complaints about values that are right.
			t.Errorf("%s: also got %q", test.name, p)
		}
	}
}

// An operator mends a file once, not error by error.
func TestAllErrorsAreReported(t *testing.T) {
	got := problems(t, `lsten: [":80"]
on_halt: maybe
logs:
  - name: a
    name: b
    submission_prefix: http://ct.example.org/
    key: CHANGE_ME
    interval: 200
    cache: {page_cache: 1}
`)
	want := []string{
		"1: lsten: ", "2: on_halt: ", "4: logs[0].storage: is missing", "4: logs[0].roots: is missing", "4: logs[0].lock: is missing",
		"5: logs[0].name: ", "6: logs[0].submission_prefix: ", "7: logs[0].key: ", "8: logs[0].interval: ",
		"9: logs[0].cache.page_cache: ", "9: logs[0].cache.path: is missing",
	}
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestPlaceholders(t *testing.T) {
	for _, value := range []string{
		"CHANGE_ME", "CHANGEME", "change-me", "/etc/CHANGE_ME.pem", "changeme.pem", "REPLACE_ME", "replace_this", "TODO", "TODO.seed", "/etc/FIXME/x", "XXX", "TBD",
		"<path>", "/etc/<name>.seed", "${KEY}", "${KEY:-x}", "$KEY", "$(cat key)", "{{ key }}", "a{{.Key}}b", "{% if x %}", "%KEY%", "@KEY@", "__KEY__",
		"your-log.seed", "/etc/your_key", "...",
	} {
		got := problems(t, strings.Replace(minimal, "a.seed", "'"+value+"'", 1))
		if len(got) != 1 || !strings.HasPrefix(got[0], "5: logs[0].key: still has the placeholder ") {
			t.Errorf("placeholder %s: %q", value, got)
		}
	}
	for _, value := range []string{"a.seed", "/srv/todo/a.seed", "/srv/exchange/me", "/srv/Todor.pem", "a..b", "mustang", "/srv/your", "50%.seed", "a@b"} {
		if got := problems(t, strings.Replace(minimal, "a.seed", "'"+value+"'", 1)); got != nil {
			t.Errorf("%s is no placeholder: %q", value, got)
		}
	}
	// Wherever a value stands.
	for _, text := range []string{
		strings.Replace(minimal, "name: a", "name: <name>", 1),
		strings.Replace(minimal, "[roots.pem]", "[roots.pem, \"${ROOTS}\"]", 1),
		minimal + "    interval: CHANGE_ME\n",
		minimal + "    pool_size: TODO\n",
		minimal + "    window: {start: <start>, limit: 2027-07-01T00:00:00Z}\n",
		minimal + "listen: [\"<host>:80\"]\n",
		strings.Replace(minimal, "ct.example.org", "ct.CHANGE_ME", 1),
	} {
		if got := problems(t, text); len(got) != 1 || !strings.Contains(got[0], "placeholder") {
			t.Errorf("placeholder not found: %q in\n%s", got, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(minimal + two)
	f.Add("a: &a [*a]\nlogs: *a\n")
	f.Add("logs: [{<<: {name: x}}]\n--- \n")
	f.Add("? [a]\n: b\n!!binary x: !!int y\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse([]byte(text), file)
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse returned %v, %v", c, err)
		}
		if err != nil {
			return
		}
		if again, err := Parse(c.YAML(), file); err != nil || string(again.YAML()) != string(c.YAML()) {
			t.Errorf("effective configuration is not stable: %v\n%s", err, c.YAML())
		}
	})
}
