package cert

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/cases"
)

// row is a line of an INDEX.tsv, by column.
type row map[string]string

func readIndex(t testing.TB, path string) []row {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	columns := strings.Split(lines[0], "\t")
	var rows []row
	for _, line := range lines[1:] {
		r := row{}
		for i, field := range strings.Split(line, "\t") {
			r[columns[i]] = field
		}
		rows = append(rows, r)
	}
	return rows
}

// judgement is what this package alone can say about a submission.
type judgement struct {
	leaf          *Certificate
	signedEntry   []byte
	issuerKeyHash [32]byte // of precertificates
	refusal       string   // empty, or "step: why"
}

// judge is admission by this package alone: it follows the submitted chain up
// to an accepted root, and builds the signed entry. It leaves out the window
// and the extended key usage of the leaf.
func judge(ders, roots [][]byte, precert bool) judgement {
	refuse := func(step string, err error) judgement { return judgement{refusal: step + ": " + err.Error()} }
	var chain []*Certificate
	for _, der := range ders {
		c, err := Parse(der)
		if err != nil {
			return refuse("parse", err)
		}
		chain = append(chain, c)
	}
	leaf := chain[0]
	if err := leaf.PoisonProblem(); err != nil {
		return refuse("poison", err)
	}
	if precert != (leaf.Poison == ValidPoison) {
		return refuse("poison", errors.New("wrong endpoint"))
	}
	for i, issuer := range chain[1:] {
		if err := certifies(issuer, chain[i]); err != nil {
			return refuse("chain", err)
		}
	}
	issuers, err := anchor(chain, roots)
	if err != nil {
		return refuse("chain", err)
	}
	if !precert {
		return judgement{leaf: leaf, signedEntry: leaf.Raw}
	}
	var psc *Certificate
	issuer := issuers[0]
	if issuer.IsPrecertSigner() {
		psc, issuer = issuer, issuers[1]
	}
	tbs, err := leaf.PrecertTBS(psc)
	if err != nil {
		return refuse("tbs", err)
	}
	return judgement{leaf: leaf, signedEntry: tbs, issuerKeyHash: issuer.IssuerKeyHash()}
}

func certifies(issuer, c *Certificate) error {
	switch {
	case !c.IssuerIs(issuer):
		return errors.New("issuer name differs")
	case !issuer.IsCA:
		return errors.New("issuer is no CA")
	case issuer.HasKeyUsage && !issuer.KeyCertSign:
		return errors.New("issuer may not sign certificates")
	case issuer.Poison != NoPoison:
		return errors.New("issuer is a precertificate")
	}
	return c.CheckSignatureFrom(issuer)
}

// anchor returns the chain's issuers, with the accepted root at the end.
func anchor(chain []*Certificate, roots [][]byte) ([]*Certificate, error) {
	last := chain[len(chain)-1]
	for _, der := range roots {
		if bytes.Equal(der, last.Raw) {
			return chain[1:], nil
		}
	}
	for _, der := range roots {
		root, err := Parse(der)
		if err == nil && last.IssuerIs(root) && last.CheckSignatureFrom(root) == nil {
			return append(chain[1:], root), nil
		}
	}
	return nil, errors.New("no accepted root issued its last certificate")
}

// refused are the chains that judge refuses, and why; all others it accepts.
var refused = map[string]string{
	"o12-precert-via-psc-missing-issuer":         "chain: no accepted root issued its last certificate",
	"o14-misordered":                             "chain: issuer name differs",
	"o16-extraneous-at-end":                      "chain: issuer name differs",
	"o17-extraneous-in-middle":                   "chain: issuer name differs",
	"o18-intermediate-missing":                   "chain: no accepted root issued its last certificate",
	"o19-unknown-root":                           "chain: no accepted root issued its last certificate",
	"o26-issuer-not-ca":                          "chain: issuer is no CA",
	"o27-intermediate-without-basic-constraints": "chain: issuer is no CA",
	"o31-reissued-root-same-key":                 "chain: issuer name differs",
	"o32-precert-to-add-chain":                   "poison: wrong endpoint",
	"o33-final-to-add-pre-chain":                 "poison: wrong endpoint",
	"o34-duplicate-intermediate":                 "chain: issuer name differs",
	"o36-md2-chain":                              "chain: no accepted root issued its last certificate",
	"sa08-reversed":                              "chain: issuer name differs",
	"sa09-root-before-intermediate":              "chain: issuer name differs",
	"sa10-swarm-same-name-key":                   "chain: issuer name differs",
	"sa13-issuer-not-ca":                         "chain: issuer is no CA",
	"sa14-issuer-without-keycertsign":            "chain: issuer may not sign certificates",
	"sa15-intermediate-bad-signature":            "chain: no accepted root issued its last certificate",
	"sa16-leaf-bad-signature":                    "chain: signature does not verify: it was not made with the issuer's key over this certificate",
	"sa18-issuer-dn-string-type-differs":         "chain: issuer name differs",
	"sa21-unrelated-appended":                    "chain: issuer name differs",
	"sa22-intermediate-trailing-byte":            "parse: malformed certificate: trailing data after the certificate",
	"sa23-leaf-trailing-data":                    "parse: malformed certificate: trailing data after the certificate",
	"sa24-leaf-ber-long-length":                  "parse: malformed certificate: the length of the outer SEQUENCE is not DER",
	"sa25-unknown-root":                          "chain: no accepted root issued its last certificate",
	"sa26-impostor-root-same-name":               "chain: no accepted root issued its last certificate",
	"sa31-signature-1-unused-bit":                "parse: malformed certificate: the signature BIT STRING has unused bits",
	"sa33-signature-trailing-byte":               "chain: signature does not verify: the ECDSA signature is not DER",
	"sb22-sigalg-mismatch":                       "parse: malformed certificate: the outer signatureAlgorithm differs from the signed one in the TBSCertificate",
	"sb52b-rsa-md5-signature":                    "chain: unsupported signature algorithm or key: signatures with MD5 prove nothing and are not accepted",
	"sb64-not-a-cert-deep":                       "parse: malformed certificate: the outer signatureAlgorithm is missing or its header is not DER",
	"sb65-not-a-cert-empty":                      "parse: malformed certificate: the TBSCertificate is missing or its header is not DER",
	"sb66-csr-instead":                           "parse: malformed certificate: the outer signatureAlgorithm differs from the signed one in the TBSCertificate",
	"sb67-tbs-instead":                           "parse: malformed certificate: the TBSCertificate is missing or its header is not DER",
	"sc06-psc-no-aki-precert-has":                "tbs: precertificate cannot be logged: it has an AuthorityKeyIdentifier, but its Precertificate Signing Certificate has none to replace it (RFC 6962 section 3.2)",
	"sc09-psc-not-ca":                            "chain: issuer is no CA",
	"sc12-poison-not-critical":                   "poison: bad precertificate poison: the poison extension is not critical",
	"sc13-poison-wrong-value":                    "poison: bad precertificate poison: the value of the poison extension is not NULL (05 00)",
	"sc13b-poison-extra-bytes":                   "poison: bad precertificate poison: the value of the poison extension is not NULL (05 00)",
	"sc14-poison-twice":                          "poison: bad precertificate poison: the poison extension is there more than once",
	"sc16-no-poison":                             "poison: wrong endpoint",
	"sc17-poison-at-add-chain":                   "poison: wrong endpoint",
	"sc18-poison-only-extension":                 "tbs: precertificate cannot be logged: the poison is its only extension, so there is no final certificate to it",
}

func TestIndex(t *testing.T) {
	root := cases.Dir(t, "open")
	ids := map[string]bool{}
	for _, folder := range []string{"chains", "synthetic"} {
		dir := filepath.Join(root, folder)
		for _, r := range readIndex(t, filepath.Join(dir, "INDEX.tsv")) {
			ids[r["id"]] = true
			t.Run(r["id"], func(t *testing.T) {
				checkRow(t, r, cases.ReadPEM(t, filepath.Join(dir, r["id"]+".pem")), cases.ReadPEM(t, filepath.Join(dir, r["accepted_roots"])))
			})
		}
	}
	for id := range refused {
		if !ids[id] {
			t.Errorf("there is no chain %s", id)
		}
	}
}

func checkRow(t *testing.T, r row, ders, roots [][]byte) {
	j := judge(ders, roots, r["endpoint"] == "add-pre-chain")
	if j.refusal != refused[r["id"]] {
		t.Fatalf("refusal %q, not %q", j.refusal, refused[r["id"]])
	}
	if r["expect"] == "reject" && j.refusal == "" {
		t.Errorf("accepted, and %q is expected", r["expect"])
	}
	// sc18 says in its remark that it may be refused.
	if strings.HasPrefix(r["expect"], "accept") && j.refusal != "" && r["id"] != "sc18-poison-only-extension" {
		t.Errorf("refused, and %q is expected", r["expect"])
	}
	if j.refusal != "" {
		return
	}
	// A value may have a remark around it: "byte-exact <hash> (...)".
	want := r["sha256_of_signed_entry_cert_or_tbs"]
	sum := sha256.Sum256(j.signedEntry)
	if got := hex.EncodeToString(sum[:]); want != "" && !strings.Contains(want, got) {
		t.Errorf("signed entry hashes to %s, not %s", got, want)
	}
	if j.leaf.Poison == ValidPoison {
		if got := hex.EncodeToString(j.issuerKeyHash[:]); got != r["issuer_key_hash"] {
			t.Errorf("issuer_key_hash is %s, not %s", got, r["issuer_key_hash"])
		}
	}
	if got := j.leaf.NotAfter.Format(time.RFC3339); got != r["leaf_notAfter"] && !peersCannotTell[r["id"]] {
		t.Errorf("NotAfter is %s, not %s", got, r["leaf_notAfter"])
	}
	// The peers' serverAuth filter takes the purpose itself alone.
	if r["sunlight_noeku"] != "refuse" {
		if got, want := j.leaf.ServerAuth && !j.leaf.AnyEKUOnly, r["sunlight_eku"] != "refuse"; got != want {
			t.Errorf("serverAuth is listed: %v, not %v", got, want)
		}
	}
}

// peersCannotTell are chains with a placeholder for NotAfter in the index, as
// the strict parser that wrote it refuses them.
var peersCannotTell = map[string]bool{"sb04-nonminimal-serial": true, "sb18-invalid-utf8-cn": true}
