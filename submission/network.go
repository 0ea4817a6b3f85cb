package submission

import (
	"net/http"
	"net/netip"
	"strings"
)

// submitter returns the network of the client (IPv4 /32, IPv6 /64) that the
// request came from, or the zero Prefix if the connection has no IP address.
//
// Behind a trusted proxy the client is the right-most address in
// X-Forwarded-For that is not a trusted proxy's: what stands left of it, the
// client may have written itself. An unreadable element counts as absent, and
// so does all that is left of it: the client is then the proxy that wrote it.
func submitter(r *http.Request, trusted []netip.Prefix) netip.Prefix {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr := ap.Addr().Unmap()
	if !contains(trusted, addr) {
		return network(addr)
	}
	lines := r.Header["X-Forwarded-For"]
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		for more := true; more; {
			var elem string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, elem = rest[:comma], rest[comma+1:]
			} else {
				elem, more = rest, false
			}
			hop, ok := parseForwarded(strings.Trim(elem, " \t"))
			if !ok {
				return network(addr)
			}
			if addr = hop; !contains(trusted, addr) {
				return network(addr)
			}
		}
	}
	return network(addr)
}

// parseForwarded reads an element of X-Forwarded-For: an address, which some
// proxies put in brackets or give a port.
func parseForwarded(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if ap, err := netip.ParseAddrPort(s); err == nil {
			addr = ap.Addr()
		} else if inner, ok := strings.CutPrefix(s, "["); ok {
			inner, ok = strings.CutSuffix(inner, "]")
			if addr, err = netip.ParseAddr(inner); err != nil || !ok || !addr.Is6() {
				return netip.Addr{}, false
			}
		} else {
			return netip.Addr{}, false
		}
	}
	return addr.Unmap().WithZone(""), true
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	addr = addr.WithZone("")
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// network returns the prefix by which a pool is shared: an IPv6 client
// commonly has a /64 to itself.
func network(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	// It fails for bits out of range alone. The zone is dropped.
	p, _ := addr.Prefix(bits)
	return p
}
