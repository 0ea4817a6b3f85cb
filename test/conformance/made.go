package conformance

import (
	"context"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maker issues the chains of a run.
type maker struct {
	r           *run
	root, inter *Issuer
	other       *Issuer // a second intermediate
	leafSPKI    []byte
	nonce       string // in all names, so that no log has seen them
	notBefore   time.Time
	notAfter    time.Time
	units       []unit
}

// unit is a chain, or some that belong together: what to do, and the clauses
// that it says something of.
type unit struct {
	ids string
	do  func(ctx context.Context)
}

func newMaker(r *run) *maker {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	m := &maker{r: r, root: r.t.Issuer, nonce: hex.EncodeToString(b[:])}
	m.leafSPKI = spkiOf(newECKey(elliptic.P256()))
	m.notBefore = time.Now().Add(-time.Hour).Truncate(time.Second)
	m.notAfter = notAfterIn(r.t.WindowStart, r.t.WindowLimit)
	m.inter = m.root.authority("Conformance I1 "+m.nonce, newECKey(elliptic.P256()), nil)
	m.other = m.root.authority("Conformance I2 "+m.nonce, newECKey(elliptic.P256()), nil)
	return m
}

// notAfterIn returns a time in the log's window.
func notAfterIn(start, limit time.Time) time.Time {
	switch {
	case start.IsZero() && limit.IsZero():
		return time.Now().AddDate(0, 2, 0).Truncate(time.Second)
	case limit.IsZero():
		return start.AddDate(0, 0, 1)
	case start.IsZero():
		return limit.AddDate(0, 0, -1)
	}
	return start.Add(limit.Sub(start) / 2).Truncate(time.Second)
}

// leaf describes an ordinary leaf under an issuer.
func (m *maker) leaf(issuer *Issuer, label string) spec {
	host := label + "." + m.nonce + ".conformance.example"
	s := spec{
		serial: randomSerial(), subject: name(tagUTF8, label+" "+m.nonce), spki: m.leafSPKI,
		notBefore: m.notBefore, notAfter: m.notAfter,
		extensions: [][]byte{
			extend(oidEKU, false, sequence(oidServerAuth)),
			extend(oidSAN, false, sequence(der(0x82, []byte(host)))),
		},
	}
	if aki := issuer.authorityKeyID(); aki != nil {
		s.extensions = append(s.extensions, aki)
	}
	return s
}

var poison = extend(oidPoison, true, []byte{tagNull, 0})

// precert describes an ordinary precertificate.
func (m *maker) precert(issuer *Issuer, label string) spec {
	s := m.leaf(issuer, label)
	s.extensions = append(s.extensions, poison)
	return s
}

// add takes a unit of one chain.
func (m *maker) add(c chainCase) {
	c.fresh = true
	m.units = append(m.units, unit{c.ids + " " + c.entry, func(ctx context.Context) { m.r.judgeCase(ctx, c) }})
}

// lazy takes a unit of one chain that is made only if it is wanted.
func (m *maker) lazy(ids string, build func() chainCase) {
	m.units = append(m.units, unit{ids, func(ctx context.Context) {
		c := build()
		c.ids = ids
		m.judge(ctx, c)
	}})
}

// group takes a unit of several chains.
func (m *maker) group(ids string, do func(ctx context.Context)) {
	m.units = append(m.units, unit{ids, do})
}

// judge submits a chain of a group.
func (m *maker) judge(ctx context.Context, c chainCase) *promise {
	c.fresh = true
	return m.r.judgeCase(ctx, c)
}

// chain is leaf and issuers as they are submitted.
func chain(leaf []byte, issuers ...*Issuer) [][]byte {
	list := [][]byte{leaf}
	for _, i := range issuers {
		list = append(list, i.cert.raw)
	}
	return list
}

// simple adds a final certificate under the first intermediate.
func (m *maker) simple(label string, expect expectation, ids string, change func(*spec)) {
	m.lazy(ids, func() chainCase {
		s := m.leaf(m.inter, label)
		if change != nil {
			change(&s)
		}
		return chainCase{name: label, chain: chain(m.inter.issue(s), m.inter), expect: expect}
	})
}

// judgeChains submits the chains that are made with the issuer's key.
func (r *run) judgeChains(ctx context.Context) {
	if r.t.Issuer == nil {
		if r.t.Cases == "" && r.t.Resubmit {
			r.resubmit(ctx)
		}
		return
	}
	m := newMaker(r)
	m.ordinary()
	basic := len(m.units)
	m.paths()
	m.refusals()
	m.signatures()
	m.parsing()
	m.keys()
	m.precerts()
	m.signers()
	m.window()
	for _, u := range m.units[:basic] {
		u.do(ctx)
	}
	var rest []unit
	for _, u := range m.units[basic:] {
		if r.wants(strings.Fields(u.ids)...) {
			rest = append(rest, u)
		}
	}
	parallel(len(rest), func(i int) { rest[i].do(ctx) })
	r.judgeSignerPolicy()
}

// ordinary are the chains that all else stands on: they are always submitted.
func (m *maker) ordinary() {
	leaf := m.inter.issue(m.leaf(m.inter, "ordinary"))
	m.group("R5 E13 R12 R31 A01 A02", func(ctx context.Context) {
		p := m.judge(ctx, chainCase{name: "root left out", chain: chain(leaf, m.inter), ids: "R5 R12 R31", entry: "A01 A02"})
		q := m.judge(ctx, chainCase{name: "root included", chain: chain(leaf, m.inter, m.root), ids: "R31"})
		if p != nil && q != nil {
			m.r.rec.check(p.same(q), "E13", "with and without root, one certificate got entries %d and %d", p.index, q.index)
		}
	})
	m.group("C04 C15 R17 R19", m.pair)
}

// pair submits a precertificate, and then the final certificate with its SCT.
func (m *maker) pair(ctx context.Context) {
	s := m.precert(m.inter, "pair")
	p := m.judge(ctx, chainCase{name: "precertificate", precert: true, chain: chain(m.inter.issue(s), m.inter), ids: "R17 R19 C04", entry: "C11 C13"})
	if p == nil {
		return
	}
	embedded := p.sct.serialized()
	n := len(embedded)
	list := append([]byte{byte((n + 2) >> 8), byte(n + 2), byte(n >> 8), byte(n)}, embedded...)
	s.extensions[len(s.extensions)-1] = extend(oidSCTList, false, der(tagOctets, list))
	final := m.inter.issue(s)
	q := m.judge(ctx, chainCase{name: "final certificate with its SCT", chain: chain(final, m.inter), ids: "C15"})
	c, err := readCertificate(final)
	if err != nil {
		panic(err) // it was just made
	}
	tbs, err := c.without(oidSCTList, nil)
	if err == nil {
		ds, _ := readDigitallySigned(p.sct.signature) // was read before
		err = m.r.key.verify(ds, p.sct.message(signedEntry{precert: true, issuerKeyHash: m.inter.cert.issuerKeyHash(), data: tbs}))
	}
	m.r.rec.noError(err, "C04 R19", "the embedded SCT, verified over the final certificate")
	if q != nil {
		m.r.rec.check(p.index != q.index, "C15", "precertificate and final certificate are one entry, %d", p.index)
	}
}

// paths are chains of different lengths and to different roots.
func (m *maker) paths() {
	direct := m.root.issue(m.leaf(m.root, "issued-by-root"))
	m.add(chainCase{name: "issued by the root, root left out", chain: chain(direct), ids: "A08 R12"})
	m.add(chainCase{name: "issued by the root, with it", chain: chain(direct, m.root), ids: "A08"})
	m.add(chainCase{name: "the root alone", chain: chain(m.root.cert.raw), expect: either, ids: "A08"})
	m.long("chain of 11", 9, accept, "A17")
	m.long("chain of 43", 41, either, "A17 R16")

	again := selfSigned(m.root.cert.subject, m.root.key)
	m.add(chainCase{name: "the root issued again, in its place", expect: either, ids: "A13",
		chain: chain(m.inter.issue(m.leaf(m.inter, "root-again")), m.inter, again)})

	short := m.root.authority("Conformance pathlen "+m.nonce, newECKey(elliptic.P256()), func(s *spec) {
		s.extensions[0] = extend(oidBasic, true, sequence([]byte{tagBoolean, 1, 0xff, tagInteger, 1, 0}))
	})
	below := short.authority("Conformance below "+m.nonce, newECKey(elliptic.P256()), nil)
	m.add(chainCase{name: "path length exceeded", chain: chain(below.issue(m.leaf(below, "pathlen")), below, short), ids: "A22 R13"})
	bound := m.root.authority("Conformance names "+m.nonce, newECKey(elliptic.P256()), func(s *spec) {
		permitted := der(0xa0, sequence(der(0x82, []byte("elsewhere.example"))))
		s.extensions = append(s.extensions, extend(oidNames, true, sequence(permitted)))
	})
	m.add(chainCase{name: "name constraints violated", chain: chain(bound.issue(m.leaf(bound, "names")), bound), ids: "A22 R13"})
	expired := m.root.authority("Conformance expired "+m.nonce, newECKey(elliptic.P256()), func(s *spec) {
		s.notAfter = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)
	})
	m.add(chainCase{name: "expired intermediate", chain: chain(expired.issue(m.leaf(expired, "expired")), expired), ids: "A23 R13"})
	m.group("E14", m.crossSigned)
}

// long adds a chain with n intermediates below the first.
func (m *maker) long(label string, n int, expect expectation, ids string) {
	m.group(ids, func(ctx context.Context) {
		path := []*Issuer{m.inter}
		for i := range n - 1 {
			path = append(path, path[i].authority(fmt.Sprintf("Conformance %s %d %s", label, i, m.nonce), newECKey(elliptic.P256()), nil))
		}
		slices.Reverse(path)
		host := fmt.Sprintf("long-%d", n)
		start := time.Now()
		m.judge(ctx, chainCase{name: label, chain: chain(path[0].issue(m.leaf(path[0], host)), path...), expect: expect, ids: ids})
		m.r.rec.check(time.Since(start) < 20*time.Second, ids, "%s: the answer took %v", label, time.Since(start))
	})
}

// crossSigned submits a precertificate by two intermediates with one name and
// key.
func (m *maker) crossSigned(ctx context.Context) {
	again := m.root.authority("", m.inter.key, func(s *spec) { s.subject = m.inter.cert.subject })
	leaf := m.inter.issue(m.precert(m.inter, "cross-signed"))
	p := m.judge(ctx, chainCase{name: "by one intermediate", precert: true, chain: chain(leaf, m.inter), ids: "E14"})
	q := m.judge(ctx, chainCase{name: "by the other intermediate", precert: true, chain: chain(leaf, again), ids: "E14"})
	if p != nil && q != nil {
		m.r.rec.check(p.same(q), "E14", "one precertificate by two paths got entries %d and %d", p.index, q.index)
	}
}

// window are leaves at the borders of the log's window.
func (m *maker) window() {
	at := func(label string, t time.Time, expect expectation) {
		m.simple("NotAfter "+label, expect, "H07", func(s *spec) { s.notAfter = t })
	}
	if start := m.r.t.WindowStart; !start.IsZero() {
		at("at the start", start, accept)
		at("a second before the start", start.Add(-time.Second), refuse)
	}
	if limit := m.r.t.WindowLimit; !limit.IsZero() {
		at("a second before the limit", limit.Add(-time.Second), accept)
		at("at the limit", limit, refuse)
		at("in 9999", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), refuse)
	}
	for label, usage := range map[string][]byte{"clientAuth alone": oidClientAuth, "any alone": oidAnyEKU, "nothing": nil} {
		m.simple("EKU of "+label, either, "H08", func(s *spec) { s.extensions[0] = extend(oidEKU, false, sequence(usage)) })
	}
	m.simple("EKU of serverAuth and clientAuth", accept, "H08", func(s *spec) {
		s.extensions[0] = extend(oidEKU, false, sequence(oidClientAuth, oidServerAuth))
	})
}
