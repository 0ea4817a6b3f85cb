package prefix

import (
	"strings"
	"testing"
)

// Origins are those of static-ct-api: the submission prefix without scheme and
// trailing slash; cases with path, port, trailing slashes, upper case.
func TestParse(t *testing.T) {
	for _, test := range []struct{ in, url, origin, hostPort, hostname string }{
		{"https://ct.example.com/2027h1/", "https://ct.example.com/2027h1/", "ct.example.com/2027h1", "ct.example.com:443", "ct.example.com"},
		{"https://ct.example.com/2027h1", "https://ct.example.com/2027h1/", "ct.example.com/2027h1", "ct.example.com:443", "ct.example.com"},
		{"https://ct.example.com/2027h1///", "https://ct.example.com/2027h1/", "ct.example.com/2027h1", "ct.example.com:443", "ct.example.com"},
		{"https://ct.example.com", "https://ct.example.com/", "ct.example.com", "ct.example.com:443", "ct.example.com"},
		{"https://ct.example.com:8443/a/b/", "https://ct.example.com:8443/a/b/", "ct.example.com:8443/a/b", "ct.example.com:8443", "ct.example.com"},
		{"https://CT.Example.com/A/", "https://CT.Example.com/A/", "CT.Example.com/A", "ct.example.com:443", "ct.example.com"},
		{"https://xn--bcher-kva.example/l", "https://xn--bcher-kva.example/l/", "xn--bcher-kva.example/l", "xn--bcher-kva.example:443", "xn--bcher-kva.example"},
		{"http://127.0.0.1:7101/x", "http://127.0.0.1:7101/x/", "127.0.0.1:7101/x", "127.0.0.1:7101", "127.0.0.1"},
		{"http://[::1]:7101/", "http://[::1]:7101/", "[::1]:7101", "[::1]:7101", "::1"},
		{"http://[::1]/", "http://[::1]/", "[::1]", "[::1]:80", "::1"},
		{"http://log.localhost/", "http://log.localhost/", "log.localhost", "log.localhost:80", "log.localhost"},
	} {
		p, err := Parse(test.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", test.in, err)
			continue
		}
		got := [...]string{p.String(), p.Origin(), p.HostPort(), p.Hostname()}
		if want := [...]string{test.url, test.origin, test.hostPort, test.hostname}; got != want {
			t.Errorf("Parse(%q) = %q, want %q", test.in, got, want)
		}
		if again, err := Parse(p.String()); err != nil || again != p {
			t.Errorf("Parse(%q) = %v, %v, not the same again", p.String(), again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "no URL",
		"ct.example.com/2027h1/":         "no URL",
		"ftp://ct.example.com/":          "write https://",
		"HTTPS://ct.example.com/":        "write https://",
		"http://ct.example.com/":         "loopback hosts only",
		"http://10.0.0.1/":               "loopback hosts only",
		"http://localhost.example.com/":  "loopback hosts only",
		"https://ct.example.com/?x=1":    "query",
		"https://ct.example.com?":        "query",
		"https://ct.example.com/#f":      "fragment",
		"https://me:pw@ct.example.com/":  "user name",
		"https:///2027h1/":               "host is missing",
		"https://:443/2027h1/":           "not a host name",
		"https://ct.example.com:0/":      "not a port",
		"https://ct.example.com:https/":  "not a port",
		"https://ct.example.com:70000/":  "not a port",
		"https://ct.example.com:/":       "not a port",
		"https://ct..example.com/":       "not a host name",
		"https://ct.example.com./":       "not a host name",
		"https://-ct.example.com/":       "not a host name",
		"https://ct example.com/":        "no host name has",
		"https://ct+x.example.com/":      "no host name has",
		"https://bücher.example/":        "xn--",
		"https://[::1/":                  "IPv6",
		"https://[127.0.0.1]/":           "IPv6",
		"https://[fe80::1%25eth0]/":      "IPv6",
		"https://::1/":                   "no host name has",
		"https://ct.example.com/a//b/":   "empty",
		"https://ct.example.com/a/../b/": "..",
		"https://ct.example.com/./":      "..",
		"https://ct.example.com/a b/":    "' '",
		"https://ct.example.com/a+b/":    "'+'",
		"https://ct.example.com/a%20b/":  "'%'",
		"https://ct.example.com/é/":      "'é'",
		"https://ct.example.com/\n":      `'\n'`,
	} {
		if p, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, %v; want an error with %q", in, p, err, want)
		}
	}
}

func TestSame(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"https://a.example/x/", "https://A.example:443/x", true},
		{"http://127.0.0.1/x/", "http://127.0.0.1:80/x", true},
		{"https://a.example/x/", "https://a.example/X/", false},
		{"https://a.example/x/", "https://a.example:444/x/", false},
		{"https://a.example/x/", "https://b.example/x/", false},
	} {
		a, errA := Parse(test.a)
		b, errB := Parse(test.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.Same(b) != test.same || b.Same(a) != test.same {
			t.Errorf("%s and %s: same is not %v", a, b, test.same)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://ct.example.com:8443/a/b/", "http://[::1]:1/", "https://a/%2e", "https://a:b@c/?d#e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			return
		}
		if o := p.Origin(); o == "" || strings.ContainsAny(o, " +\n\t?#%@") {
			t.Errorf("origin %q of %q is no good note name", o, s)
		}
		if again, err := Parse(p.String()); err != nil || again != p || !again.Same(p) {
			t.Errorf("%q: %v, %v is not stable", s, again, err)
		}
	})
}
