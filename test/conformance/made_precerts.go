package conformance

import (
	"bytes"
	"context"
	"crypto/elliptic"
)

// precerts are precertificates, proper and not.
func (m *maker) precerts() {
	odd := func(label, ids string, extensions ...[]byte) {
		s := m.leaf(m.inter, "poison")
		s.extensions = append(s.extensions, extensions...)
		der := m.inter.issue(s)
		m.add(chainCase{name: label, precert: true, chain: chain(der, m.inter), expect: refuse, ids: ids})
		m.add(chainCase{name: label + ", at add-chain", chain: chain(der, m.inter), expect: refuse, ids: ids})
	}
	odd("poison not critical", "R17 C09", extend(oidPoison, false, []byte{tagNull, 0}))
	odd("poison empty", "R17 C09", extend(oidPoison, true, nil))
	odd("poison with a byte more", "R17 C09", extend(oidPoison, true, []byte{tagNull, 0, 0}))
	odd("poison twice", "R17", poison, poison)

	m.add(chainCase{name: "precertificate at add-chain", chain: chain(m.inter.issue(m.precert(m.inter, "endpoint")), m.inter),
		expect: refuse, ids: "R17 C10", words: []string{"add-pre-chain", "precert", "poison"}})
	m.add(chainCase{name: "certificate at add-pre-chain", precert: true, chain: chain(m.inter.issue(m.leaf(m.inter, "endpoint")), m.inter),
		expect: refuse, ids: "R17 C10", words: []string{"add-chain", "precert", "poison"}})

	// critical FALSE is not DER; a log that encodes again drops it.
	s := m.precert(m.inter, "non-der")
	s.extensions[0] = sequence(oidEKU, []byte{tagBoolean, 1, 0}, der(tagOctets, sequence(oidServerAuth)))
	m.add(chainCase{name: "critical FALSE in a precertificate", precert: true, chain: chain(m.inter.issue(s), m.inter), expect: either, ids: "C06 R19"})

	m.group("R21 R6", func(ctx context.Context) {
		twin := m.root.authority("", newECKey(elliptic.P256()), func(s *spec) { s.subject = m.inter.cert.subject })
		s := m.precert(m.inter, "twin")
		tbs := m.inter.tbs(s)
		p := m.judge(ctx, chainCase{name: "precertificate", precert: true, chain: chain(m.inter.sign(tbs, s), m.inter), ids: "R21"})
		q := m.judge(ctx, chainCase{name: "the same of another issuer's key", precert: true, chain: chain(twin.sign(tbs, s), twin), ids: "R21"})
		if p != nil && q != nil {
			m.r.rec.check(p.index != q.index, "R21 R6", "one TBSCertificate under two issuer keys is one entry, %d", p.index)
		}
	})
}

// signerClauses are those of proper chains by way of a Precertificate Signing
// Certificate.
const signerClauses = "R18 R20 R21 S3 C01 C02 C03 C04"

// signers are precertificates issued by a Precertificate Signing Certificate.
func (m *maker) signers() {
	usage := extend(oidEKU, true, sequence(oidPreSigning))
	signer := func(issuer *Issuer, label string, change func(*spec)) *Issuer {
		return issuer.authority("Conformance "+label+" "+m.nonce, newECKey(elliptic.P256()), func(s *spec) {
			s.extensions = append(s.extensions, usage)
			if change != nil {
				change(s)
			}
		})
	}
	withoutAKI := func(s *spec) {
		s.extensions = removeExtension(s.extensions, oidAKI)
	}
	psc := signer(m.inter, "PSC", nil)
	add := func(label, ids string, expect expectation, s spec, path ...*Issuer) {
		m.add(chainCase{name: "by a signing certificate, " + label, precert: true, chain: chain(path[0].issue(s), path...),
			expect: expect, ids: ids, entry: "D02", signer: ids == signerClauses})
	}
	add("under an intermediate", signerClauses, either, m.precert(psc, "psc"), psc, m.inter)
	bare := signer(m.inter, "PSC without AKI", withoutAKI)
	s := m.precert(bare, "psc-bare")
	withoutAKI(&s)
	add("without any AKI", signerClauses, either, s, bare, m.inter)
	if m.root.authorityKeyID() != nil { // else the precertificate alone would have one
		top := signer(m.root, "PSC of the root", nil)
		add("under the root, which is left out", signerClauses, either, m.precert(top, "psc-top"), top)
	}

	add("which lacks the AKI", "C05 R20", either, m.precert(bare, "psc-lacks"), bare, m.inter)
	deep := signer(psc, "PSC of a PSC", nil)
	add("below another one", "R18", either, m.precert(deep, "psc-deep"), deep, psc, m.inter)
	fake := signer(m.inter, "PSC without CA", func(s *spec) { s.extensions[0] = extend(oidBasic, true, sequence()) })
	add("which is no CA", "R18 C02", refuse, m.precert(fake, "psc-fake"), fake, m.inter)
	add("whose issuer is missing", "R18 C02", refuse, m.precert(psc, "psc-missing"), psc)
	m.add(chainCase{name: "final certificate of a signing certificate", chain: chain(psc.issue(m.leaf(psc, "psc-final")), psc, m.inter), ids: "C14"})
}

func removeExtension(list [][]byte, id []byte) [][]byte {
	var kept [][]byte
	for _, x := range list {
		if e, err := readOne(x, tagSequence); err != nil || !bytes.HasPrefix(e.content, id) {
			kept = append(kept, x)
		}
	}
	return kept
}

// judgeSignerPolicy checks that chains by way of a Precertificate Signing
// Certificate were all accepted or all refused.
func (r *run) judgeSignerPolicy() {
	if len(r.bySigner[true])+len(r.bySigner[false]) == 0 {
		return
	}
	r.rec.check(len(r.bySigner[true]) == 0 || len(r.bySigner[false]) == 0, "S3 C03",
		"chains with a Precertificate Signing Certificate: accepted %q, refused %q", r.bySigner[true], r.bySigner[false])
	for accepted, word := range map[bool]string{true: "accepted", false: "refused"} {
		if len(r.bySigner[accepted]) > 0 {
			r.rec.note("S3 C03", "they are %s", word)
		}
	}
}
