package conformance

import (
	"bytes"
	"encoding/binary"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// judgeCheckpointHeaders judges how a checkpoint is served.
func (r *run) judgeCheckpointHeaders(a answer) {
	got := a.header.Get("Content-Type")
	r.rec.check(sameType(got, "text/plain; charset=utf-8"), "S9 G06", "checkpoint has the Content-Type %q", got)
	cc := a.header.Get("Cache-Control")
	seconds, ok := maxAge(cc)
	fresh := hasDirective(cc, "no-store") || hasDirective(cc, "no-cache") || ok && seconds <= 5
	r.rec.check(fresh && !hasDirective(cc, "immutable"), "S10 G07", "checkpoint has the Cache-Control %q", cc)
	if age, err := strconv.Atoi(a.header.Get("Age")); err == nil {
		r.rec.check(age <= 10, "S10 G07", "checkpoint comes from a cache, %d s old", age)
	}
}

// sameType compares media types with their parameters.
func sameType(got, want string) bool {
	a, pa, err := mime.ParseMediaType(got)
	b, pb, _ := mime.ParseMediaType(want) // ours
	if err != nil || a != b || len(pa) != len(pb) {
		return false
	}
	for k, v := range pb {
		if !strings.EqualFold(pa[k], v) {
			return false
		}
	}
	return true
}

func hasDirective(cacheControl, name string) bool {
	for d := range strings.SplitSeq(cacheControl, ",") {
		if strings.EqualFold(strings.TrimSpace(d), name) {
			return true
		}
	}
	return false
}

var maxAgePattern = regexp.MustCompile(`(?i)(?:^|[,\s])max-age=([0-9]+)`)

func maxAge(cacheControl string) (seconds int, ok bool) {
	m := maxAgePattern.FindStringSubmatch(cacheControl)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// judgeCheckpoint judges the bytes of a checkpoint. It returns nil if they say
// nothing of a tree.
func (r *run) judgeCheckpoint(b []byte) *treeHead {
	rec := r.rec
	rec.noError(checkNoteBytes(b), "N2 K1", "checkpoint")
	rec.check(!bytes.HasPrefix(b, []byte("\ufeff")), "K1", "checkpoint begins with a byte order mark")
	note, err := readNote(b)
	signed := rec.noError(err, "N1 N4", "checkpoint")
	if note == nil {
		return nil
	}
	for _, s := range note.signatures {
		rec.noError(checkKeyName(s.name), "N3", "checkpoint")
	}
	rec.check(len(note.signatures) <= 16, "N7", "checkpoint has %d signatures", len(note.signatures))

	h := &treeHead{note: note}
	p := h.readText()
	rec.noError(p.lines, "K1", "checkpoint")
	rec.noError(p.size, "K3", "checkpoint")
	rec.noError(p.root, "K4", "checkpoint")
	if p.lines != nil || p.size != nil || p.root != nil {
		return nil
	}
	rec.check(len(h.extra) == 0, "S15 K5 D09", "checkpoint has extension lines: %q", h.extra)
	r.judgeOrigin(h)
	if h.size == 0 {
		rec.check(h.root == emptyRoot, "R2", "the empty tree has the root %x", h.root)
	}
	if !signed || !r.judgeTreeHeadSignature(h) {
		return nil
	}
	if r.vk != nil {
		r.judgeCosignature(h)
	}
	return h
}

func (r *run) judgeOrigin(h *treeHead) {
	r.rec.check(h.origin == r.t.Origin, "S11 T1 D08", "the origin is %q, want %q", h.origin, r.t.Origin)
	r.rec.check(!strings.Contains(h.origin, "://") && !strings.HasSuffix(h.origin, "/"), "T1", "the origin is %q", h.origin)
	r.rec.noError(checkKeyName(h.origin), "K2", "origin")
}

// judgeTreeHeadSignature looks for the one signature of the log's RFC 6962 key
// (static-ct-api, Checkpoints).
func (r *run) judgeTreeHeadSignature(h *treeHead) bool {
	rec := r.rec
	want := keyID(h.origin, noteTreeHead, r.key.logID[:])
	ecdsa := keyID(h.origin, noteECDSA, r.key.spki)
	var mine []noteSignature
	named := false
	for _, s := range h.note.signatures {
		named = named || s.name == h.origin
		rec.check(s.keyID != ecdsa, "N6", "there is a signature of type 0x02")
		if s.name == h.origin && s.keyID == want {
			mine = append(mine, s)
		}
	}
	rec.check(named, "S12 K7 D08", "no signature has the origin as its key name")
	if named {
		rec.check(len(mine) > 0, "S13 N5 D08", "no signature of %q has the key ID %08x", h.origin, want)
	}
	if !rec.check(len(mine) == 1, "S16 D09", "%s of the log's RFC 6962 key", plural(len(mine), "signature", "signatures")) {
		return false
	}
	body := mine[0].body
	if !rec.check(len(body) > 8, "S14", "the signature has %d bytes", len(body)) {
		return false
	}
	h.timestamp = int64(binary.BigEndian.Uint64(body))
	ds, err := readDigitallySigned(body[8:])
	if !rec.noError(err, "S14 D03", "the tree head's signature") || !rec.noError(r.key.form(ds), "S14 D03", "the tree head's signature") {
		return false
	}
	rec.pass("D03")
	if !rec.noError(r.key.verify(ds, h.treeHeadMessage()), "S14 R4", "the tree head's signature") {
		return false
	}
	// A clock that is ahead makes promises for a time that has not come.
	rec.check(time.UnixMilli(h.timestamp).Before(time.Now().Add(r.o.MergeDelay)), "R23", "the tree head's timestamp %d is in the future", h.timestamp)
	return true
}

// cacheable reports whether an answer may be kept for a day or more.
func cacheable(h http.Header) bool {
	cc := h.Get("Cache-Control")
	seconds, ok := maxAge(cc)
	return ok && seconds >= 86400 && !hasDirective(cc, "no-store") && !hasDirective(cc, "no-cache") && !hasDirective(cc, "private")
}
