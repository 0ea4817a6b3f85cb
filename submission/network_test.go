package submission

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(s ...string) (p []netip.Prefix) {
	for _, s := range s {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

var testProxies = prefixes("10.0.0.0/8", "127.0.0.1/32", "fd00::/16", "2001:db8:1::1/128")

func TestSubmitter(t *testing.T) {
	for _, c := range []struct {
		remote    string
		forwarded []string
		want      string
	}{
		{"192.0.2.7:1234", nil, "192.0.2.7/32"},
		{"[2001:db8:a:b:c:d:e:f]:1", nil, "2001:db8:a:b::/64"},
		{"[::ffff:192.0.2.7]:1", nil, "192.0.2.7/32"},
		{"[fe80::1%eth0]:1", nil, "fe80::/64"},
		{"@", nil, ""},
		{"", nil, ""},
		// Not behind a trusted proxy: the header is the client's own.
		{"192.0.2.7:1", []string{"198.51.100.1"}, "192.0.2.7/32"},
		{"@", []string{"198.51.100.1"}, ""},
		// Behind one.
		{"127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1/32"},
		{"[::ffff:127.0.0.1]:1", []string{"198.51.100.1"}, "198.51.100.1/32"},
		{"127.0.0.1:1", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1/32"},
		{"127.0.0.1:1", []string{"203.0.113.9,198.51.100.1 ,\t10.1.2.3"}, "198.51.100.1/32"},
		{"127.0.0.1:1", []string{"203.0.113.9", "198.51.100.1", "10.1.2.3"}, "198.51.100.1/32"},
		{"127.0.0.1:1", []string{"198.51.100.1", "10.1.2.3, fd00::5"}, "198.51.100.1/32"},
		{"127.0.0.1:1", []string{"2001:db8:a:b:c::1"}, "2001:db8:a:b::/64"},
		{"127.0.0.1:1", []string{"[2001:db8:a:b:c::1]:443"}, "2001:db8:a:b::/64"},
		{"127.0.0.1:1", []string{"[2001:db8:a:b:c::1]"}, "2001:db8:a:b::/64"},
		{"127.0.0.1:1", []string{"198.51.100.1:55555"}, "198.51.100.1/32"},
		{"127.0.0.1:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1/32"},
		{"[2001:db8:1::1]:1", []string{"198.51.100.1"}, "198.51.100.1/32"},
		// Nothing but proxies: the one furthest away.
		{"127.0.0.1:1", nil, "127.0.0.1/32"},
		{"127.0.0.1:1", []string{"10.1.2.3, 10.4.5.6"}, "10.1.2.3/32"},
		// What cannot be read, and what is left of it, counts for nothing.
		{"127.0.0.1:1", []string{""}, "127.0.0.1/32"},
		{"127.0.0.1:1", []string{"unknown"}, "127.0.0.1/32"},
		{"127.0.0.1:1", []string{"198.51.100.1, , 10.1.2.3"}, "10.1.2.3/32"},
		{"127.0.0.1:1", []string{"198.51.100.1", "", "10.1.2.3"}, "10.1.2.3/32"},
		{"127.0.0.1:1", []string{"198.51.100.1, [192.0.2.7"}, "127.0.0.1/32"},
		{"127.0.0.1:1", []string{"198.51.100.1, [192.0.2.7]"}, "127.0.0.1/32"},
		{"127.0.0.1:1", []string{"198.51.100.1, 192.0.2.300"}, "127.0.0.1/32"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		got := submitter(r, testProxies)
		if want, _ := netip.ParsePrefix(c.want); got != want {
			t.Errorf("from %q, forwarded for %q: %v, want %v", c.remote, c.forwarded, got, want)
		}
	}
}

// FuzzForwardedFor: whatever a client writes in the header, a proxy that
// appends the client's address to it decides.
func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"", "198.51.100.1", "10.1.2.3, 10.4.5.6", ",,,", "[::1]:80, unknown", "fe80::1%eth0", "[", "]:", "\x00", " 1.2.3.4\t"} {
		f.Add(s, "192.0.2.7")
		f.Add(s, "2001:db8:2::1")
		f.Add(s, "10.0.0.1")
	}
	f.Fuzz(func(t *testing.T, header, client string) {
		addr, err := netip.ParseAddr(client)
		if err != nil {
			return
		}
		addr = addr.Unmap().WithZone("")
		client = addr.String()
		// As one line and as two, with a trusted proxy between.
		for _, lines := range [][]string{{header + ", " + client}, {header, client + ",10.9.9.9"}, {client}} {
			got := submitter(&http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": lines}}, testProxies)
			if !got.IsValid() || got != got.Masked() {
				t.Fatalf("%q: %v is not a network", lines, got)
			}
			if !contains(testProxies, addr) && got != network(addr) {
				t.Fatalf("%q: %v, want that of %v", lines, got, addr)
			}
		}
		// Without a trusted proxy in front it has no say.
		got := submitter(&http.Request{RemoteAddr: "192.0.2.9:1", Header: http.Header{"X-Forwarded-For": {header}}}, testProxies)
		if got != netip.MustParsePrefix("192.0.2.9/32") {
			t.Fatalf("%q was believed: %v", header, got)
		}
		// Nor may a long one cost more than its length.
		_ = submitter(&http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{"X-Forwarded-For": {strings.Repeat(header+",", 50)}}}, testProxies)
	})
}
