// Package prefix reads submission and monitoring prefixes: the URLs below
// which a log is reached (RFC 6962 section 4, c2sp.org/static-ct-api).
package prefix

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Prefix is the start of the URLs of a log's submission or monitoring
// interface. The zero value is no prefix.
type Prefix struct {
	Scheme string // "https" or "http"
	Host   string // as written, with its port if one was written
	Path   string // begins and ends with a slash
}

// Parse reads a prefix. It takes https, and http for loopback hosts alone. The
// host and the path must be such that the log's origin, which is made of them,
// is a good name for a signed note: no spaces, no plus, nothing to escape.
// Trailing slashes may be there or not.
func Parse(s string) (Prefix, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return Prefix{}, fmt.Errorf("%q is no URL: write it with its scheme, like https://ct.example.com/2027h1/", s)
	}
	if scheme != "https" && scheme != "http" {
		return Prefix{}, fmt.Errorf("the scheme %q is not possible here: write https://", scheme)
	}
	if i := strings.IndexAny(rest, "?#@"); i >= 0 {
		what := map[byte]string{'?': "a query", '#': "a fragment", '@': "a user name"}[rest[i]]
		return Prefix{}, fmt.Errorf("a prefix has no %s: remove everything that belongs to the %q", strings.TrimPrefix(what, "a "), rest[i:i+1])
	}
	host, path, _ := strings.Cut(rest, "/")
	if err := checkHost(host); err != nil {
		return Prefix{}, err
	}
	path, err := cleanPath(path)
	if err != nil {
		return Prefix{}, err
	}
	// The checks above are narrower than those of net/url, which is asked all
	// the same, since clients will read the prefix with such a parser.
	if _, err := url.Parse(s); err != nil {
		return Prefix{}, fmt.Errorf("%q is no URL: %w", s, errors.Unwrap(err))
	}
	p := Prefix{Scheme: scheme, Host: host, Path: path}
	if scheme == "http" && !p.Loopback() {
		return Prefix{}, fmt.Errorf("http is possible for loopback hosts only: write https://%s%s and let a reverse proxy hold the certificate", p.Host, p.Path)
	}
	return p, nil
}

func checkHost(host string) error {
	if host == "" {
		return errors.New("the host is missing")
	}
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return fmt.Errorf("%q is not a port", port)
		}
		name = h
	}
	if strings.HasPrefix(host, "[") {
		if name == host { // no port
			name = strings.TrimSuffix(host[1:], "]")
			if len(name) != len(host)-2 {
				return fmt.Errorf("%q lacks the bracket at the end of the IPv6 address", host)
			}
		}
		addr, err := netip.ParseAddr(name)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return fmt.Errorf("%q is not an IPv6 address with an optional port", host)
		}
		return nil
	}
	for _, r := range name {
		switch {
		case r > 0x7e:
			return fmt.Errorf("the host %q is not ASCII: write its xn-- form", name)
		case isAlphanumeric(r), r == '-', r == '.':
		default:
			return fmt.Errorf("the host %q has the character %q, which no host name has", name, r)
		}
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%q is not a host name", name)
		}
	}
	return nil
}

// cleanPath takes the path without its first slash.
func cleanPath(path string) (string, error) {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "/", nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", fmt.Errorf("the path /%s has an empty, . or .. part: remove it", path)
		}
	}
	for _, r := range path {
		if !isAlphanumeric(r) && !strings.ContainsRune("/-._~", r) {
			return "", fmt.Errorf("the path /%s has the character %q: use letters, digits and -._~ only", path, r)
		}
	}
	return "/" + path + "/", nil
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// String returns the URL, with one trailing slash.
func (p Prefix) String() string {
	if p == (Prefix{}) {
		return ""
	}
	return p.Scheme + "://" + p.Host + p.Path
}

// Origin returns the name that a log with this submission prefix has in its
// checkpoints: the prefix without its scheme and its trailing slash
// (c2sp.org/static-ct-api, Checkpoints).
func (p Prefix) Origin() string { return strings.TrimRight(p.Host+p.Path, "/") }

// Hostname returns the host in lower case, without a port.
func (p Prefix) Hostname() string { return hostname(strings.ToLower(p.Host)) }

// HostPort returns the host in lower case with its port, which is that of the
// scheme if none was written. Two prefixes with equal HostPort and Path are
// the same place.
func (p Prefix) HostPort() string {
	host := strings.ToLower(p.Host)
	if _, port, err := net.SplitHostPort(host); err == nil && port != "" {
		return host
	}
	port := "443"
	if p.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(hostname(host), port)
}

// Same reports whether both prefixes are the same place.
func (p Prefix) Same(q Prefix) bool { return p.HostPort() == q.HostPort() && p.Path == q.Path }

// Loopback reports whether the host is of this machine alone.
func (p Prefix) Loopback() bool { return Loopback(p.Hostname()) }

// Loopback reports whether a host name or address is of this machine alone.
func Loopback(host string) bool {
	host = strings.ToLower(host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// hostname cuts the port and the brackets off.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.Trim(host, "[]")
}
