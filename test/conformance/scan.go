package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// scan is what was read of the tree in the end.
type scan struct {
	*treeReader
	head    *treeHead
	from    int64       // the first entry read
	leaves  []*tileLeaf // from from on; nil where the tile could not be read
	issuers *issuerSet
}

func (s *scan) leaf(index int64) *tileLeaf {
	if index < s.from || index >= s.from+int64(len(s.leaves)) {
		return nil
	}
	return s.leaves[index-s.from]
}

// judgeTree reads the tree of the last checkpoint and holds it against all that
// was seen and promised.
func (r *run) judgeTree(ctx context.Context) {
	head := r.watch.newest()
	if head == nil {
		return
	}
	s := &scan{treeReader: newTreeReader(ctx, r, head.size), head: head, issuers: newIssuerSet(r)}
	root, err := rootAt(head.size, s.hash)
	if r.rec.noError(err, "R1", "reading the right edge of the tree") {
		r.rec.check(root == head.root, "R1 T3", "the tiles have the root %x, the checkpoint %x", root, head.root)
	}
	s.judgeConsistency()
	s.judgeUpperTiles()
	if !r.wantsPhase(phaseScan) && !r.wantsPhase(phaseChains) && !r.wantsPhase(phaseCases) && !r.wantsPhase(phaseDuplicates) && !r.wantsPhase(phaseOdd) {
		return // nothing depends on the entries
	}
	s.from = max(0, head.size-r.o.Scan)
	s.from -= s.from % tileWidth
	s.readEntries(ctx)
	if ctx.Err() != nil {
		return
	}
	s.judgeTimestamps()
	s.judgeEntries(ctx)
	s.judgePromises()
	s.judgeRefused()
	if head.size > 0 {
		_, err := s.entries(tileAt(head.size, dataLevel, 0))
		r.rec.noError(err, "T6", "the first entry")
	}
	r.rec.note("R1 S30 S31", "entries %d to %d", s.from, head.size)
}

// judgeConsistency compares all checkpoints with the tiles of the last one.
func (s *scan) judgeConsistency() {
	if !s.r.wants("K6", "D13") {
		return
	}
	heads := s.r.watch.seen()
	roots := make(map[int64][32]byte)
	for _, h := range heads {
		root, ok := roots[h.size]
		if !ok && h.size <= s.size {
			var err error
			root, err = rootAt(h.size, s.hash)
			if !s.r.rec.noError(err, "K6", "reading the tree at size %d", h.size) {
				continue
			}
			roots[h.size] = root
		}
		s.r.rec.check(h.size <= s.size && root == h.root, "K6 D13", "the checkpoint of size %d has the root %x, which the tree of size %d never had", h.size, h.root, s.size)
	}
	s.r.rec.note("K6", "%s", plural(len(heads), "checkpoint", "checkpoints"))
}

// maxUpper is how many tiles of a level are held against those below, from each
// end.
const maxUpper = 50

// judgeUpperTiles checks that the hashes above level 0 are those of the full
// tiles below.
func (s *scan) judgeUpperTiles() {
	for l := 1; l < levels(s.size); l++ {
		n := widthAt(s.size, l)
		for i := int64(0); i < n; i++ {
			if i == maxUpper {
				i = max(i, n-maxUpper)
			}
			got, err := s.hash(l, i)
			if err != nil {
				return
			}
			list := make([][32]byte, tileWidth)
			for j := range list {
				if list[j], err = s.hash(l-1, i*tileWidth+int64(j)); err != nil {
					return
				}
			}
			s.r.rec.check(merkle(list) == got, "S22", "hash %d of level %d is not that of the tile below", i, l)
		}
	}
}

// readEntries reads the data tiles and holds each entry against its leaf hash
// and position.
func (s *scan) readEntries(ctx context.Context) {
	s.leaves = make([]*tileLeaf, s.size-s.from)
	first := s.from / tileWidth
	tiles := int((s.size + tileWidth - 1) / tileWidth)
	parallel(tiles-int(first), func(i int) {
		t := tileAt(s.size, dataLevel, (first+int64(i))*tileWidth)
		list, err := s.entries(t)
		if err != nil && ctx.Err() == nil {
			s.r.rec.fail("S30 R1", "%v", err)
		}
		for j, leaf := range list {
			index := t.n*tileWidth + int64(j)
			s.leaves[index-s.from] = leaf
			s.judgePosition(index, leaf)
		}
	})
}

func (s *scan) judgePosition(index int64, leaf *tileLeaf) {
	at, _, err := readExtensionList(leaf.extensions)
	s.r.rec.check(err == nil && at == index, "S6", "entry %d has the extensions %x", index, leaf.extensions)
	want, err := s.hash(0, index)
	if err != nil {
		return // reported with its tile
	}
	s.r.rec.check(leafHash(leaf.leaf) == want, "R1 S30 D01 T3", "entry %d of tile/data does not have the hash in tile/0", index)
}

// judgeTimestamps checks that no checkpoint is older than an entry it covers.
func (s *scan) judgeTimestamps() {
	newest := make([]int64, len(s.leaves)+1) // up to and not including
	for i, l := range s.leaves {
		newest[i+1] = newest[i]
		if l != nil {
			newest[i+1] = max(newest[i], l.timestamp)
		}
	}
	for _, h := range s.r.watch.seen() {
		n := h.size - s.from
		if n <= 0 || n >= int64(len(newest)) {
			continue
		}
		s.r.rec.check(h.timestamp >= newest[n], "R27", "the checkpoint of size %d is of %d ms, and holds an entry of %d ms", h.size, h.timestamp, newest[n])
	}
}

// judgeEntries checks each entry by itself: its chain and its precertificate.
func (s *scan) judgeEntries(ctx context.Context) {
	parallel(len(s.leaves), func(i int) {
		if l := s.leaves[i]; l != nil && ctx.Err() == nil && s.r.wantsPhase(phaseScan) {
			s.judgeEntry(ctx, s.from+int64(i), l)
		}
	})
	if n := s.issuers.unchecked; n > 0 {
		s.r.rec.note("R15", "%s of kinds that are not known here", plural(n, "signature", "signatures"))
	}
}

func (s *scan) judgeEntry(ctx context.Context, index int64, l *tileLeaf) {
	rec := s.r.rec
	p := &chainPath{}
	for _, fp := range l.chain {
		c, served := s.issuers.get(ctx, fp)
		if ctx.Err() != nil {
			return
		}
		if !rec.check(served, "S34 A02", "entry %d names the issuer %x, which is not served", index, fp) || c == nil {
			return
		}
		p.issuers = append(p.issuers, c)
	}
	var err error
	if p.leaf, err = readCertificate(l.der()); err != nil {
		rec.fail("R15", "entry %d: the certificate cannot be read: %v", index, err)
		return
	}
	if s.r.wants("R15") {
		s.judgeLinks(index, p)
	}
	if !l.entry.precert {
		return
	}
	rec.check(p.leaf.isPrecert(), "R17 C13", "entry %d: pre_certificate has no proper poison extension", index)
	want, err := p.entry(true)
	if !rec.noError(err, "R19", "entry %d", index) {
		return
	}
	rec.check(want.issuerKeyHash == l.entry.issuerKeyHash, "R21", "entry %d: issuer_key_hash is %x, the issuer's is %x", index, l.entry.issuerKeyHash, want.issuerKeyHash)
	rec.check(bytes.Equal(want.data, l.entry.data), "R19 C13", "entry %d: signed_entry is not the TBSCertificate of pre_certificate", index)
}

// judgeLinks checks that each certificate certifies the one before, and that
// the last is an accepted root.
func (s *scan) judgeLinks(index int64, p *chainPath) {
	child := p.leaf
	for i, issuer := range p.issuers {
		err := s.issuers.link(child, issuer, i == 0)
		if !errors.Is(err, errUnknownAlgorithm) {
			s.r.rec.noError(err, "R15", "entry %d: certificate %d of the chain", index, i)
		}
		child = issuer
	}
	if index < s.r.watch.grown {
		return // the roots may have been others
	}
	root := slices.ContainsFunc(s.r.roots, func(b []byte) bool { return bytes.Equal(b, child.raw) })
	s.r.rec.check(root, "R15", "entry %d: the chain does not end in an accepted root", index)
}

// judgeRefused checks that no tile holds what was refused.
func (s *scan) judgeRefused() {
	accepted := make(map[[32]byte]bool)
	for _, p := range s.r.promises {
		accepted[sha256.Sum256(p.chain[0])] = true
	}
	in := make(map[[32]byte]int64)
	for i, l := range s.leaves {
		if l != nil {
			in[sha256.Sum256(l.der())] = s.from + int64(i)
		}
	}
	for _, der := range s.r.refusals {
		fp := sha256.Sum256(der)
		if accepted[fp] {
			continue // in another chain, or at the other endpoint
		}
		index, there := in[fp]
		s.r.rec.check(!there || index < s.r.watch.grown, "R11", "entry %d is a certificate that was refused, %x", index, fp)
	}
}

// issuerSet reads each issuer once. It is safe for concurrent use.
type issuerSet struct {
	r  *run
	mu sync.Mutex
	by map[[32]byte]*issuerCall
	// links are verified signatures between issuers.
	links     map[[2][32]byte]error
	unchecked int
}

type issuerCall struct {
	once   sync.Once
	cert   *certificate
	served bool
}

func newIssuerSet(r *run) *issuerSet {
	return &issuerSet{r: r, by: make(map[[32]byte]*issuerCall), links: make(map[[2][32]byte]error)}
}

// get returns the issuer with a fingerprint, and whether it is served.
func (s *issuerSet) get(ctx context.Context, fp [32]byte) (*certificate, bool) {
	s.mu.Lock()
	call := s.by[fp]
	if call == nil {
		call = new(issuerCall)
		s.by[fp] = call
	}
	s.mu.Unlock()
	call.once.Do(func() {
		name := fmt.Sprintf("issuer/%x", fp)
		a := s.r.mon.get(ctx, name)
		if call.served = a.status == 200; !call.served {
			return
		}
		b, err := a.decoded()
		s.r.rec.check(err == nil && sha256.Sum256(b) == fp, "S33 S34 A02", "%s does not hash to its name", name)
		s.r.rec.check(a.header.Get("Content-Type") == "application/pkix-cert", "S33 G06", "%s has the Content-Type %q", name, a.header.Get("Content-Type"))
		call.cert, err = readCertificate(b)
		s.r.rec.noError(err, "S33", "%s is not one DER certificate", name)
		if err != nil {
			call.cert = nil
		}
	})
	return call.cert, call.served
}

// link verifies that parent certifies child, once for each pair of issuers.
func (s *issuerSet) link(child, parent *certificate, isLeaf bool) error {
	pair := [2][32]byte{child.fingerprint(), parent.fingerprint()}
	s.mu.Lock()
	err, known := s.links[pair]
	s.mu.Unlock()
	if known {
		return err
	}
	err = child.checkSignature(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, errUnknownAlgorithm) {
		s.unchecked++
	}
	if !isLeaf {
		s.links[pair] = err
	}
	return err
}
