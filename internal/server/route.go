package server

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/daybook-ct/daybook/internal/server/prefix"
)

// place is where requests below one path go.
type place struct {
	path       string // with a slash at both ends
	log        int
	submission http.Handler // of paths that begin with /ct/; nil if there is none
	monitoring http.Handler // of full paths; nil if there is none
	ambiguous  bool         // several logs have the path, on different hosts
}

// router finds the log that a request is for. It is immutable.
//
// If the Host header names a host of some prefix, with or without its port,
// only the prefixes of that host count. Otherwise, as behind a proxy that does
// not pass the header on, the path decides alone, where it can. So a host never
// shows the log of another one, and no log is out of reach.
type router struct {
	hosts map[string][]place // by host:port and by host alone; longest path first
	any   []place            // for other hosts
}

// add notes that the prefix p leads to the handlers, of which one may be nil.
func (r *router) add(p prefix.Prefix, log int, submission, monitoring http.Handler) {
	if r.hosts == nil {
		r.hosts = make(map[string][]place)
	}
	pl := place{path: p.Path, log: log, submission: submission, monitoring: monitoring}
	for _, host := range []string{p.HostPort(), p.Hostname()} {
		r.hosts[host] = merge(r.hosts[host], pl)
	}
	r.any = merge(r.any, pl)
}

// merge adds a place to a list, or what it has to the one with its path.
func merge(list []place, p place) []place {
	for i := range list {
		old := &list[i]
		switch {
		case old.path != p.path:
			continue
		case old.log != p.log:
			old.ambiguous = true
		}
		if old.submission == nil {
			old.submission = p.submission
		}
		if old.monitoring == nil {
			old.monitoring = p.monitoring
		}
		return list
	}
	list = append(list, p)
	slices.SortStableFunc(list, func(a, b place) int { return cmp.Compare(len(b.path), len(a.path)) })
	return list
}

// find returns the place that a request is for, nil if there is none.
func (r *router) find(host, path string) *place {
	host = strings.ToLower(host)
	list, ok := r.hosts[host]
	if !ok {
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		if list, ok = r.hosts[strings.Trim(name, "[]")]; !ok {
			list = r.any
		}
	}
	for i := range list {
		if strings.HasPrefix(path, list[i].path) {
			return &list[i]
		}
	}
	return nil
}

// ServeHTTP answers one request.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// No URL of a log needs escaping, so an escaped one is none.
	if req.URL.RawPath != "" {
		notFound(w, "There is no log at this address.")
		return
	}
	p := r.find(req.Host, req.URL.Path)
	switch {
	case p == nil:
		notFound(w, "There is no log at this address.")
	case p.ambiguous:
		notFound(w, "Several logs have this path: the Host header must say which one is meant.")
	case p.submission != nil && (p.monitoring == nil || strings.HasPrefix(req.URL.Path[len(p.path):], "ct/")):
		p.submission.ServeHTTP(w, req)
	default:
		p.monitoring.ServeHTTP(w, req)
	}
}

// notFound answers with one plain sentence that any page may read.
func notFound(w http.ResponseWriter, sentence string) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(sentence)+1))
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, sentence+"\n") // a client that is gone needs no answer
}

// routes returns the router of the logs.
func routes(logs []*openLog) (*router, error) {
	r := new(router)
	for i, l := range logs {
		for j, other := range logs[:i] {
			for _, p := range []prefix.Prefix{l.sub, l.mon} {
				if p.Same(other.sub) || p.Same(other.mon) {
					return nil, fmt.Errorf("the logs %s and %s share the prefix %s", logs[j].o.Name, l.o.Name, p)
				}
			}
		}
		r.add(l.sub, i, http.StripPrefix(strings.TrimSuffix(l.sub.Path, "/"), l.submission), nil)
		r.add(l.mon, i, nil, l.monitoring)
	}
	return r, nil
}
