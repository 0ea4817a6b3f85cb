package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// judgeRequests sends requests that are odd in themselves.
func (r *run) judgeRequests(ctx context.Context) {
	if r.wants("H05", "R30", "H04") {
		r.judgeJSON(ctx)
		r.judgeGoodChains(ctx)
	}
	if r.wants("H06") {
		r.judgeMethods(ctx)
	}
	if r.wants("H01") {
		r.judgeSizes(ctx)
	}
	if r.wants("X4") {
		r.judgeSubmissionCORS(ctx)
	}
}

// oddBodies are requests that are not what RFC 6962 section 4.1 asks for. some
// is base64 of a certificate.
func oddBodies(some string) map[string]string {
	return map[string]string{
		"nothing":                "",
		"an empty object":        `{}`,
		"an array":               `[]`,
		"null":                   `null`,
		"a string":               `"chain"`,
		"a null chain":           `{"chain":null}`,
		"an empty chain":         `{"chain":[]}`,
		"a chain of null":        `{"chain":[null]}`,
		"a chain of \"\"":        `{"chain":[""]}`,
		"a chain of numbers":     `{"chain":[1,2]}`,
		"a chain in a chain":     `{"chain":[["` + some + `"]]}`,
		"a string for a chain":   `{"chain":"` + some + `"}`,
		"invalid base64":         `{"chain":["****"]}`,
		"base64url":              `{"chain":["` + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb, 0xff}, 60)) + `"]}`,
		"base64 without padding": `{"chain":["MAA"]}`,
		"half a request":         `{"chain":["` + some,
		"data after the JSON":    `{"chain":["` + some + `"]} and more`,
		"nested arrays":          strings.Repeat("[", 50000) + strings.Repeat("]", 50000),
		"nested arrays inside":   `{"x":` + strings.Repeat("[", 50000) + strings.Repeat("]", 50000) + `,"chain":["` + some + `"]}`,
		"no JSON":                "chain=" + some,
		"a byte order mark":      "\ufeff" + `{"chain":["` + some + `"]}`,
	}
}

func (r *run) judgeJSON(ctx context.Context) {
	some := base64.StdEncoding.EncodeToString([]byte("\x30\x03\x02\x01\x01"))
	bodies := oddBodies(some)
	var names []string
	for n := range bodies {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, precert := range []bool{false, true} {
		parallel(len(names), func(i int) {
			what := endpoint(precert) + " of " + names[i]
			a := r.post(ctx, endpoint(precert), []byte(bodies[names[i]]))
			if r.rec.check(a.refused(), "H05 R30", "%s: %v", what, a) {
				r.judgeErrorText(what, a)
			}
		})
	}
}

// judgeGoodChains sends a chain that the log has taken before, in other words:
// unknown members are ignored (RFC 6962 section 4), and what is no JSON or no
// base64 is refused though the chain is a good one.
func (r *run) judgeGoodChains(ctx context.Context) {
	good := r.goodChain()
	if good == nil {
		return
	}
	whole := string(chainBody(good))
	inner := strings.TrimSuffix(strings.TrimPrefix(whole, "{"), "}")
	post := func(body string) answer { return r.post(ctx, endpoint(false), []byte(body)) }
	for what, body := range map[string]string{
		"members before":  `{"comment":{"chain":[null]},"n":1e9,` + inner + "}",
		"members after":   "{" + inner + `,"extra":[true,false,null,"x"]}`,
		"blanks and tabs": " \r\n\t{ " + inner + "\n}",
	} {
		a := post(body)
		r.rec.check(a.status == http.StatusOK, "R30 H05", "a chain with %s: %v", what, a)
	}
	refused := map[string]string{
		"data after the JSON": whole + "x",
		"another request":     whole + whole,
		"no end":              strings.TrimSuffix(whole, "}"),
		"blanks in base64":    strings.Replace(whole, `["`, `["  `, 1),
	}
	if bare := strings.ReplaceAll(whole, "=", ""); bare != whole {
		refused["no padding"] = bare
	}
	if url := strings.NewReplacer("+", "-", "/", "_").Replace(whole); url != whole {
		refused["base64url"] = url
	}
	for what, body := range refused {
		a := post(body)
		r.rec.check(a.refused(), "H05", "a good chain with %s: %v", what, a)
	}
	for what, body := range map[string]string{
		"two chains":     "{" + inner + "," + inner + "}",
		"a folded chain": strings.Replace(whole, base64.StdEncoding.EncodeToString(good[0]), foldedBase64(good[0]), 1),
	} {
		a := post(body)
		r.rec.check(a.status == http.StatusOK || a.refused(), "H05", "a request with %s: %v", what, a)
	}
}

func foldedBase64(b []byte) string {
	s := base64.StdEncoding.EncodeToString(b)
	n := min(64, len(s))
	return s[:n] + `\n` + s[n:]
}

func (r *run) judgeMethods(ctx context.Context) {
	for _, c := range []struct{ method, path string }{
		{"GET", "ct/v1/add-chain"}, {"PUT", "ct/v1/add-chain"}, {"DELETE", "ct/v1/add-chain"},
		{"GET", "ct/v1/add-pre-chain"}, {"PATCH", "ct/v1/add-pre-chain"},
		{"POST", "ct/v1/get-roots"}, {"PUT", "ct/v1/get-roots"}, {"BREW", "ct/v1/get-roots"},
		{"POST", "ct/v1/add-chain/"}, {"POST", "/ct/v1/add-chain"}, {"POST", "ct/v1//add-chain"}, {"POST", "ct/v1/ADD-CHAIN"},
		{"POST", "ct/v1/"}, {"GET", "ct/v1/get-sth"}, {"GET", "ct/v2/get-roots"},
	} {
		a := r.sub.do(ctx, call{method: c.method, path: c.path, body: strings.NewReader(`{"chain":[]}`)})
		ok := a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed && a.header.Get("Allow") != ""
		r.rec.check(ok, "H06", "%s %s: %v, Allow %q; want 404, or 405 with Allow", c.method, c.path, a, a.header.Get("Allow"))
	}
	head := r.sub.do(ctx, call{method: http.MethodHead, path: "ct/v1/get-roots"})
	ok := head.status == http.StatusOK && len(head.body) == 0 || head.status == http.StatusMethodNotAllowed || head.status == http.StatusNotFound
	r.rec.check(ok, "H06", "HEAD get-roots: %v", head)
}

// endless is a body without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// judgeSizes sends bodies that are too large, and lengths that are not true.
func (r *run) judgeSizes(ctx context.Context) {
	large := func(n int64) io.Reader {
		return io.MultiReader(strings.NewReader(`{"chain":["`), io.LimitReader(endless{}, n-11))
	}
	path := endpoint(false)
	for _, n := range []int64{128 << 10, 512 << 10} {
		a := r.sub.do(ctx, call{method: "POST", path: path, body: large(n), length: n})
		r.rec.check(a.refused(), "H01", "a body of %d bytes: %v, want 4xx", n, a)
	}
	for what, n := range map[string]int64{"with its length": 10 << 20, "in chunks": -1} {
		a := r.sub.do(ctx, call{method: "POST", path: path, body: large(10 << 20), length: n})
		r.rec.check(a.status == 413 || a.status == 0 && !timedOut(a), "H01", "a body of 10 MiB %s: %v, want 413", what, a)
	}
	bounded, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	a := r.sub.do(bounded, call{method: "POST", path: path, body: endless{}, length: -1})
	r.rec.check(a.status == 413 || a.refused() || a.status == 0 && bounded.Err() == nil, "H01", "a body without end: %v, want 413", a)

	host, prefix := r.sub.parts()
	for what, head := range map[string]string{
		"a body shorter than its length": "Content-Length: 4000\r\n\r\n{\"chain\":[",
		"a length that is no number":     "Content-Length: many\r\n\r\n{}",
		"two lengths":                    "Content-Length: 2\r\nContent-Length: 4\r\n\r\n{}{}",
		"a huge length":                  "Content-Length: 99999999999\r\n\r\n{",
		"a broken chunk":                 "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
	} {
		a := r.sub.raw(ctx, fmt.Sprintf("POST %s/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s", prefix, path, host, head))
		r.rec.check(a.refused() || a.status == 0 && !timedOut(a), "H01", "%s: %v, want 4xx", what, a)
	}
	roots := r.sub.get(ctx, "ct/v1/get-roots")
	r.rec.check(roots.status == 200, "H01", "get-roots after these: %v", roots)
}

func timedOut(a answer) bool {
	t, ok := a.err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// judgeSubmissionCORS checks that scripts of web pages may submit.
func (r *run) judgeSubmissionCORS(ctx context.Context) {
	origin := http.Header{"Origin": {"https://page.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type"}}
	for _, path := range []string{"ct/v1/add-chain", "ct/v1/add-pre-chain", "ct/v1/get-roots"} {
		a := r.sub.do(ctx, call{method: http.MethodOptions, path: path, header: origin})
		method := "POST"
		if path == "ct/v1/get-roots" {
			method = "GET"
		}
		ok := (a.status == 200 || a.status == 204) && allowsAny(a) && strings.Contains(a.header.Get("Access-Control-Allow-Methods"), method)
		r.rec.check(ok, "X4", "OPTIONS %s: %v, Access-Control-Allow-Origin %q, -Methods %q", path, a,
			a.header.Get("Access-Control-Allow-Origin"), a.header.Get("Access-Control-Allow-Methods"))
		if method == "POST" {
			allowed := strings.ToLower(a.header.Get("Access-Control-Allow-Headers"))
			r.rec.check(strings.Contains(allowed, "content-type") || allowed == "*", "X4", "OPTIONS %s: Access-Control-Allow-Headers %q", path, allowed)
		}
	}
	for what, a := range map[string]answer{
		"get-roots":         r.sub.do(ctx, call{path: "ct/v1/get-roots", header: origin}),
		"a refused request": r.post(ctx, endpoint(false), []byte(`{}`)),
	} {
		r.rec.check(allowsAny(a), "X4", "%s: Access-Control-Allow-Origin %q", what, a.header.Get("Access-Control-Allow-Origin"))
	}
}

func allowsAny(a answer) bool { return a.header.Get("Access-Control-Allow-Origin") == "*" }
