package fsck

import (
	"maps"
	"testing"
)

// TestClean: a log with nothing wrong has no findings, all of it was looked at,
// and nothing was changed.
func TestClean(t *testing.T) {
	l := makeLog(t, t.TempDir())
	l.write(t, "lost+found/something", nil) // of the file system
	before := snapshot(t, l.place)
	o := l.options()
	o.Signatures = true
	r := check(t, o)
	for _, f := range r.Findings {
		t.Error(f)
	}
	want := Counts{DataTiles: 3, NamesTiles: 3, Entries: testSize, Precerts: 400, Signatures: r.Signatures, Matched: testSize}
	if r.Count != 0 || r.Counts != want || r.HashTiles != 4 || r.Issuers != 3 || r.StoredIssuers != 3 || r.Rows != testSize || r.NewerRows != 0 ||
		!r.Locked || r.Tree != l.edge.Tree() || r.Timestamp != l.time || r.Origin != testOrigin || r.LogID != l.signer.LogID() {
		t.Errorf("report %+v", r)
	}
	// Of data, names and hash tiles the widths 1, 255 and 100; 256 is full. At
	// level 1 the width 1.
	if r.EarlierPartials != 3*3+1 || r.Files != 3+3+3*6+2 {
		t.Errorf("%d files, %d of earlier sizes", r.Files, r.EarlierPartials)
	}
	if r.Signatures < testSize {
		t.Errorf("%d signatures", r.Signatures)
	}
	if after := snapshot(t, l.place); !maps.Equal(before, after) {
		t.Error("the log was changed")
	}
}
