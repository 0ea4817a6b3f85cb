package conformance

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
)

// flip changes one bit near the end, in a signature's value.
func flip(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-1] ^= 1
	return b
}

// refusals are chains that are no valid chains.
func (m *maker) refusals() {
	leaf := m.inter.issue(m.leaf(m.inter, "order"))
	unrelated := m.other
	order := []string{"order", "path", "chain", "certif", "issu", "verif"}
	for _, c := range []chainCase{
		{name: "reversed", chain: [][]byte{m.root.cert.raw, m.inter.cert.raw, leaf}, ids: "A06 R15 R31", words: order},
		{name: "root before intermediate", chain: chain(leaf, m.root, m.inter), ids: "A06 R15 R31", words: order},
		{name: "unrelated certificate at the end", chain: chain(leaf, m.inter, unrelated), ids: "A07 R15"},
		{name: "unrelated certificate in the middle", chain: chain(leaf, unrelated, m.inter), ids: "A07 R15"},
		{name: "unrelated certificate after the root", chain: chain(leaf, m.inter, m.root, unrelated), ids: "A07 R15"},
		{name: "intermediate twice", chain: chain(leaf, m.inter, m.inter), ids: "A07 R15"},
		{name: "intermediate missing", chain: chain(leaf), ids: "R10"},
	} {
		c.expect = refuse
		m.add(c)
	}

	// A leaf under something that may not issue.
	under := func(label, ids string, issuer *Issuer, above ...*Issuer) {
		path := append([]*Issuer{issuer}, above...)
		m.add(chainCase{name: label, expect: refuse, ids: ids, chain: chain(issuer.issue(m.leaf(issuer, "under")), path...)})
	}
	under("issuer with CA:FALSE", "A11", m.inter.authority("Conformance no CA "+m.nonce, newECKey(elliptic.P256()), func(s *spec) {
		s.extensions[0] = extend(oidBasic, true, sequence())
	}), m.inter)
	under("issuer without basicConstraints", "A12", m.inter.authority("Conformance no constraints "+m.nonce, newECKey(elliptic.P256()), func(s *spec) {
		s.extensions = s.extensions[1:]
	}), m.inter)
	under("issuer that is a precertificate", "R31", m.inter.authority("Conformance poisoned "+m.nonce, newECKey(elliptic.P256()), func(s *spec) {
		s.extensions = append(s.extensions, poison)
	}), m.inter)
	strange := selfSigned(name(tagUTF8, "Conformance strange root "+m.nonce), newECKey(elliptic.P256()))
	under("unknown root", "R10", strange)
	under("impostor with the root's name", "R10", selfSigned(m.root.cert.subject, newECKey(elliptic.P256())))
	bad := *m.inter
	broken, err := readCertificate(flip(m.inter.cert.raw))
	if err != nil {
		panic(err) // a flipped bit of the signature changes no structure
	}
	bad.cert = broken
	under("intermediate with a wrong signature", "R10", &bad)
}

// signatures are variants of signatures and encodings outside of what is
// signed.
func (m *maker) signatures() {
	m.simple("wrong signature", refuse, "R10", func(s *spec) { s.signature = flip })
	m.simple("signature with a byte more", refuse, "B12", func(s *spec) {
		s.signature = func(b []byte) []byte { return append(b, 0) }
	})
	m.simple("signature with an unused bit", refuse, "B11", func(s *spec) {
		s.unusedBits = 1
		s.signature = func(b []byte) []byte { // shifted left, so that some read the same signature
			out := make([]byte, len(b)+1)
			for i, c := range b {
				out[i] |= c >> 7
				out[i+1] = c << 1
			}
			return out
		}
	})
	m.simple("outer algorithm unlike the inner one", refuse, "B10", func(s *spec) { s.outer = algorithmOf(m.inter.key, crypto.SHA384) })

	ordinary := m.inter.issue(m.leaf(m.inter, "encoding"))
	parts, err := readOne(ordinary, tagSequence)
	if err != nil {
		panic(err) // it was just made
	}
	n := len(parts.content)
	long := append([]byte{tagSequence, 0x83, 0, byte(n >> 8), byte(n)}, parts.content...)
	for label, leaf := range map[string][]byte{"a byte after the certificate": append(bytes.Clone(ordinary), 0), "a length in BER": long} {
		m.add(chainCase{name: label, chain: chain(leaf, m.inter), expect: refuse, ids: "B12"})
	}
	m.add(chainCase{name: "a byte after the intermediate", expect: refuse, ids: "B12",
		chain: [][]byte{ordinary, append(bytes.Clone(m.inter.cert.raw), 0)}})

	m.group("B13", func(ctx context.Context) {
		s := m.leaf(m.inter, "negated")
		tbs := m.inter.tbs(s)
		p := m.judge(ctx, chainCase{name: "certificate", chain: chain(m.inter.sign(tbs, s), m.inter), ids: "B13"})
		s.signature = negated(elliptic.P256())
		q := m.judge(ctx, chainCase{name: "the same with n-s", chain: chain(m.inter.sign(tbs, s), m.inter), ids: "B13"})
		if p != nil && q != nil {
			m.r.rec.check(p.index != q.index, "B13", "two certificates with one TBSCertificate are one entry, %d", p.index)
		}
		s = m.precert(m.inter, "negated-precert")
		tbs = m.inter.tbs(s)
		p = m.judge(ctx, chainCase{name: "precertificate", precert: true, chain: chain(m.inter.sign(tbs, s), m.inter), ids: "B13"})
		s.signature = negated(elliptic.P256())
		q = m.judge(ctx, chainCase{name: "the same with n-s", precert: true, chain: chain(m.inter.sign(tbs, s), m.inter), ids: "B13"})
		if p != nil && q != nil {
			m.r.rec.check(p.same(q), "B13", "one TBSCertificate of a precertificate has entries %d and %d", p.index, q.index)
		}
	})
}

// keys are issuers and leaves with different keys and algorithms.
func (m *maker) keys() {
	under := func(label, ids string, hash crypto.Hash, key func() crypto.Signer) {
		m.lazy(ids, func() chainCase {
			issuer := m.inter.authority("Conformance "+label+" "+m.nonce, key(), nil)
			s := m.leaf(issuer, "keys")
			s.hash = hash
			return chainCase{name: label, chain: chain(issuer.issue(s), issuer, m.inter)}
		})
	}
	under("ECDSA with SHA-1", "A20", crypto.SHA1, func() crypto.Signer { return newECKey(elliptic.P256()) })
	under("P-384", "B17", crypto.SHA384, func() crypto.Signer { return newECKey(elliptic.P384()) })
	under("P-521", "B17", crypto.SHA512, func() crypto.Signer { return newECKey(elliptic.P521()) })
	under("RSA with SHA-1", "A20", crypto.SHA1, func() crypto.Signer { return newRSAKey() })
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	under("Ed25519", "B17", crypto.SHA256, func() crypto.Signer { return ed })

	unknown := sequence(sequence(oid(1, 3, 6, 1, 4, 1, 55555, 1)), bitString(0, []byte("a key of a kind that nobody knows")))
	m.simple("leaf key of an unknown kind", accept, "B17", func(s *spec) { s.spki = unknown })
	m.simple("leaf key on P-224", accept, "B17", func(s *spec) { s.spki = spkiOf(newECKey(elliptic.P224())) })
	m.simple("leaf key Ed25519", accept, "B17", func(s *spec) { s.spki = spkiOf(ed) })
}

// parsing are leaves that strict parsers refuse.
func (m *maker) parsing() {
	m.simple("negative serial number", accept, "B01", func(s *spec) { s.serial = der(tagInteger, []byte{0x81, 2, 3, 4, 5, 6, 7, 8}) })
	m.simple("serial number with a zero in front", accept, "B05", func(s *spec) { s.serial = der(tagInteger, append([]byte{0, 0x11}, m.nonce...)) })
	m.simple("BIT STRING in the subject", accept, "B02", func(s *spec) {
		s.subject = sequence(der(tagSet, sequence(oidUniqueID, bitString(0, []byte(m.nonce)))))
	})
	m.simple("subjectAltName twice", accept, "B06", func(s *spec) { s.extensions = append(s.extensions, s.extensions[1]) })
	m.simple("critical authorityInfoAccess", accept, "B06", func(s *spec) {
		ocsp := sequence(oid(1, 3, 6, 1, 5, 5, 7, 48, 1), der(0x86, []byte("http://o.conformance.example/")))
		s.extensions = append(s.extensions, extend(oidAIA, true, sequence(ocsp)))
	})
	m.simple("UTCTime without seconds", either, "B07", func(s *spec) {
		s.validity = sequence(derTime(s.notBefore), der(tagUTCTime, []byte(s.notAfter.UTC().Format("0601021504Z"))))
	})
	m.simple("GeneralizedTime before 2050", accept, "B07", func(s *spec) {
		s.validity = sequence(derTime(s.notBefore), der(tagTime, []byte(s.notAfter.UTC().Format("20060102150405Z"))))
	})
	m.simple("UTCTime with garbage", either, "B07", func(s *spec) {
		s.validity = sequence(derTime(s.notBefore), der(tagUTCTime, []byte("soon or late")))
	})
	m.simple("NUL in names", accept, "B08", func(s *spec) {
		s.subject = name(tagUTF8, "www.bank.example\x00."+m.nonce)
		s.extensions[1] = extend(oidSAN, false, sequence(der(0x82, []byte("www.bank.example\x00."+m.nonce+".example"))))
	})
	m.simple("markup in names", accept, "B08", func(s *spec) { s.subject = name(tagUTF8, "<script>alert(1)</script>\r\n"+m.nonce) })
	m.simple("45 kB of names", accept, "H02", func(s *spec) {
		var names [][]byte
		for i := range 1400 {
			names = append(names, der(0x82, fmt.Appendf(nil, "host-%04d.%s.conformance.example", i, m.nonce)))
		}
		s.extensions[1] = extend(oidSAN, false, sequence(names...))
	})
	printable := m.root.authority("", newECKey(elliptic.P256()), func(s *spec) { s.subject = name(tagPrintable, "Conformance name "+m.nonce) })
	s := m.leaf(printable, "names")
	s.issuer = name(tagUTF8, "Conformance name "+m.nonce)
	m.add(chainCase{name: "issuer's name in another string type", chain: chain(printable.issue(s), printable), expect: either, ids: "A15"})
}
