package conformance

import (
	"crypto/ed25519"
	"crypto/mldsa"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// verifierKey is a vkey of c2sp.org/signed-note: name, key ID, and base64 of a
// type and a key.
type verifierKey struct {
	name  string
	keyID uint32
	kind  byte
	key   []byte
}

func readVerifierKey(s string) (*verifierKey, error) {
	name, rest, ok := strings.Cut(s, "+")
	id, data, ok2 := strings.Cut(rest, "+")
	n, err := strconv.ParseUint(id, 16, 32)
	raw, err2 := base64.StdEncoding.DecodeString(data)
	if !ok || !ok2 || len(id) != 8 || err != nil || err2 != nil || len(raw) < 2 {
		return nil, errors.New("the verifier key is not name+ID+base64")
	}
	v := &verifierKey{name: name, keyID: uint32(n), kind: raw[0], key: raw[1:]}
	switch {
	case v.kind == noteMLDSA && len(v.key) == mldsa.MLDSA44PublicKeySize:
	case (v.kind == noteEd25519 || v.kind == noteCosignature) && len(v.key) == ed25519.PublicKeySize:
	default:
		return nil, fmt.Errorf("the verifier key has type %#x and %d bytes, which is none of Ed25519 (0x01, 0x04) and ML-DSA-44 (0x06)", v.kind, len(v.key))
	}
	return v, nil
}

// signatureSize is that of its signatures without timestamps.
func (v *verifierKey) signatureSize() int {
	if v.kind == noteMLDSA {
		return mldsa.MLDSA44SignatureSize
	}
	return ed25519.SignatureSize
}

// judgeCosignature looks for the signature of the log's other key.
func (r *run) judgeCosignature(h *treeHead) {
	v := r.vk
	r.rec.check(v.keyID == keyID(v.name, v.kind, v.key), "G1 N5 N10", "the verifier key has the ID %08x, derived is %08x", v.keyID, keyID(v.name, v.kind, v.key))
	r.rec.check(v.keyID != keyID(r.t.Origin, noteTreeHead, r.key.logID[:]), "N5", "two keys have one ID")
	r.rec.check(v.name == r.t.Origin, "N10", "the verifier key's name is %q, the origin %q", v.name, r.t.Origin)
	var body []byte
	for _, s := range h.note.signatures {
		if s.name == v.name && s.keyID == v.keyID {
			body = s.body
		}
	}
	if !r.rec.check(body != nil, "T2 N10", "no signature has the name %q and the ID %08x of the verifier key", v.name, v.keyID) {
		return
	}
	if v.kind == noteEd25519 {
		r.rec.check(len(body) == ed25519.SignatureSize && ed25519.Verify(v.key, []byte(h.note.text), body), "T2", "the Ed25519 signature does not verify")
		return
	}
	ok := len(body) == 8+v.signatureSize()
	if !r.rec.check(ok, "G3 T2", "the cosignature has %d bytes, want 8 and %d", len(body), v.signatureSize()) {
		return
	}
	seconds := binary.BigEndian.Uint64(body)
	r.rec.check(seconds < 1<<63, "G3", "the cosignature's timestamp is %d", seconds)
	r.rec.check(len(h.extra) == 0, "G6", "the cosigned text has extension lines: %q", h.extra)
	if v.kind == noteCosignature {
		message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", seconds, h.note.text)
		r.rec.check(ed25519.Verify(v.key, []byte(message), body[8:]), "G4 T2", "the Ed25519 cosignature does not verify")
		return
	}
	r.rec.noError(verifyMLDSA(v.key, h.cosignedMessage(v.name, seconds), body[8:]), "G5 T2", "the ML-DSA-44 cosignature")
}

func verifyMLDSA(key, message, signature []byte) error {
	pk, err := mldsa.NewPublicKey(mldsa.MLDSA44(), key)
	if err != nil {
		return err
	}
	return mldsa.Verify(pk, message, signature, nil)
}
