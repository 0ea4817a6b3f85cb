package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/internal/server/prefix"
)

// says is a handler that answers with its name and the path it was given.
func says(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, name+" "+r.URL.Path)
	})
}

// Clauses S1 (one prefix or two), R34 (path and port) and G09 (no prefix shows
// another log) of the monitoring and submission interfaces.
func TestRoutes(t *testing.T) {
	r := new(router)
	for i, l := range []struct{ sub, mon string }{
		{"https://ct.example.com/2027h1/", "https://mon.example.com/2027h1/"},
		{"https://ct.example.com/2027h2/", "https://ct.example.com/2027h2/"},
		{"https://root.example.com/", "https://root.example.com/"},
		{"https://ports.example.com:8443/a/b/", "https://ports.example.com/a/b/"},
		{"https://ct.example.net/2027h2/", "https://mon.example.net/"},
		{"http://127.0.0.1:7101/dev/", "http://[::1]:7101/dev/"},
		{"https://CT.Example.org/Upper/", "https://ct.example.org/lower/"},
	} {
		sub, err := prefix.Parse(l.sub)
		if err != nil {
			t.Fatal(err)
		}
		mon, err := prefix.Parse(l.mon)
		if err != nil {
			t.Fatal(err)
		}
		name := string(rune('0' + i))
		r.add(sub, i, says("sub"+name), nil)
		r.add(mon, i, nil, says("mon"+name))
	}
	const none, unclear = "There is no log", "Several logs"
	for _, test := range []struct{ host, path, want string }{
		// Two hosts with one path: each shows its own half.
		{"ct.example.com", "/2027h1/ct/v1/add-chain", "sub0"},
		{"ct.example.com", "/2027h1/checkpoint", "sub0"}, // which answers 404
		{"mon.example.com", "/2027h1/checkpoint", "mon0"},
		{"mon.example.com", "/2027h1/ct/v1/add-chain", "mon0"}, // which answers 404
		{"ct.example.com:443", "/2027h1/ct/v1/add-chain", "sub0"},
		{"CT.Example.COM", "/2027h2/ct/v1/add-chain", "sub1"},
		{"ct.example.com:8080", "/2027h1/ct/v1/add-chain", "sub0"}, // a proxy on the way
		// One prefix for both.
		{"ct.example.com", "/2027h2/ct/v1/get-roots", "sub1"},
		{"ct.example.com", "/2027h2/checkpoint", "mon1"},
		{"ct.example.com", "/2027h2/tile/0/000", "mon1"},
		{"ct.example.com", "/2027h2/", "mon1"},
		{"ct.example.com", "/2027h2", none},
		{"ct.example.com", "/2027h2x/checkpoint", none},
		{"ct.example.com", "/checkpoint", none},
		{"ct.example.com", "/", none},
		{"ct.example.com", "//2027h2/checkpoint", none},
		{"ct.example.com", "/2027H2/checkpoint", none},
		{"ct.example.com", "/2027h2%2fcheckpoint", none},
		{"ct.example.com", "/2027h2/%63heckpoint", none},
		// No path at all.
		{"root.example.com", "/ct/v1/add-chain", "sub2"},
		{"root.example.com", "/checkpoint", "mon2"},
		{"root.example.com", "/2027h1/checkpoint", "mon2"}, // not log 0
		// Ports.
		{"ports.example.com:8443", "/a/b/ct/v1/add-chain", "sub3"},
		{"ports.example.com:8443", "/a/b/checkpoint", "sub3"},
		{"ports.example.com", "/a/b/checkpoint", "mon3"},
		{"ports.example.com", "/a/b/ct/v1/add-chain", "sub3"}, // the port is not there to tell
		// A host that no prefix names: the path decides.
		{"10.0.0.1:8080", "/2027h1/ct/v1/add-chain", "sub0"},
		{"10.0.0.1:8080", "/2027h1/checkpoint", "mon0"},
		{"10.0.0.1", "/a/b/checkpoint", "mon3"},
		{"10.0.0.1", "/2027h2/checkpoint", unclear},
		{"10.0.0.1", "/2027h2/ct/v1/add-chain", unclear},
		{"10.0.0.1", "/checkpoint", unclear},
		{"", "/2027h1/checkpoint", "mon0"},
		{"other:http", "/2027h1/checkpoint", "mon0"},
		{"[fe80", "/2027h1/checkpoint", "mon0"},
		// Addresses.
		{"127.0.0.1:7101", "/dev/ct/v1/add-chain", "sub5"},
		{"127.0.0.1", "/dev/ct/v1/add-chain", "sub5"},
		{"[::1]:7101", "/dev/checkpoint", "mon5"},
		{"[::1]", "/dev/checkpoint", "mon5"},
		// Paths keep their case, hosts have none.
		{"ct.example.org", "/Upper/ct/v1/add-chain", "sub6"},
		{"ct.example.org", "/lower/checkpoint", "mon6"},
		{"ct.example.org", "/upper/ct/v1/add-chain", none},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest("GET", test.path, nil)
		req.Host = test.host
		r.ServeHTTP(w, req)
		code := http.StatusOK
		if test.want == none || test.want == unclear {
			code = http.StatusNotFound
			if w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Header().Get("Cache-Control") != "" {
				t.Errorf("%s%s: headers %v", test.host, test.path, w.Header())
			}
		}
		if w.Code != code || !strings.HasPrefix(w.Body.String(), test.want) {
			t.Errorf("%s%s: %d %q, want %q", test.host, test.path, w.Code, w.Body, test.want)
		}
	}
}
