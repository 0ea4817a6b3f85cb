package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
)

// readRoots reads get-roots (RFC 6962 section 4.7), which all else needs.
func (r *run) readRoots(ctx context.Context) error {
	a := r.sub.get(ctx, "ct/v1/get-roots")
	if a.err != nil {
		return fmt.Errorf("conformance: reading get-roots below %s: %w", r.sub.prefix, a.err)
	}
	const ids = "R9 R32 S2 H14"
	if !r.rec.check(a.status == 200, ids, "get-roots: %v", a) {
		return nil
	}
	r.rec.check(sameType(a.header.Get("Content-Type"), "application/json") || sameType(a.header.Get("Content-Type"), "application/json; charset=utf-8"),
		"H14", "get-roots has the Content-Type %q", a.header.Get("Content-Type"))
	var list struct {
		Certificates []string `json:"certificates"`
	}
	if !r.rec.noError(json.Unmarshal(a.body, &list), ids, "get-roots") {
		return nil
	}
	for i, s := range list.Certificates {
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if r.rec.noError(err, "R32 H14", "get-roots, certificate %d", i) {
			r.roots = append(r.roots, b)
		}
	}
	r.rec.check(len(r.roots) > 0, "R9", "get-roots lists nothing")
	return nil
}

// judgeRoots judges what get-roots lists. That what is listed is accepted, and
// what is not is refused, shows with the chains.
func (r *run) judgeRoots(context.Context) {
	rec := r.rec
	listed := unique(r.roots)
	rec.check(len(listed) == len(r.roots), "H14", "get-roots lists %d certificates, of which %d differ", len(r.roots), len(listed))
	for _, b := range listed {
		e, rest, err := readElement(b)
		rec.check(err == nil && len(rest) == 0 && e.tag == tagSequence, "R32 H14", "get-roots lists %x, which is no certificate", b[:min(len(b), 16)])
	}
	if r.t.Roots == nil {
		rec.note("R32", "the configured roots are not known here")
		return
	}
	want := unique(r.t.Roots)
	for _, b := range want {
		rec.check(slices.ContainsFunc(listed, func(l []byte) bool { return bytes.Equal(l, b) }), "R32 H14", "get-roots lacks the accepted root %x", fingerprintOf(b))
	}
	for _, b := range listed {
		rec.check(slices.ContainsFunc(want, func(l []byte) bool { return bytes.Equal(l, b) }), "R32 H14", "get-roots lists %x, which is not among the accepted roots", fingerprintOf(b))
	}
}

// UsableRoots returns the certificates of a PEM file that can be accepted
// roots: those that can be read and are CAs, or at least self-issued where they
// do not say.
func UsableRoots(path string) ([][]byte, error) {
	list, err := ReadRoots(path)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(b []byte) bool {
		c, err := readCertificate(b)
		if err != nil || c.extension(oidPoison) != nil {
			return true
		}
		basic := c.extension(oidBasic)
		if basic == nil {
			return !bytes.Equal(c.issuer, c.subject)
		}
		return !bytes.Contains(basic.value, []byte{tagBoolean, 1, 0xff})
	}), nil
}
