package conformance_test

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/readpath"
	"github.com/daybook-ct/daybook/test/conformance"
	"github.com/daybook-ct/daybook/tlog"
)

// TestLargeTree reads a tree in which tile numbers have two elements, such as
// x001/000, as daybook writes and serves it. Its entries are no certificates,
// so that they are made in no time.
func TestLargeTree(t *testing.T) {
	const size = 1001*256 + 7
	now := time.Now().UnixMilli()
	list := make([]tlog.Leaf, size)
	for i := range list {
		e, err := tlog.NewX509Entry(binary.BigEndian.AppendUint32(nil, uint32(i)), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		list[i] = tlog.Leaf{Entry: e, Position: tlog.Position{Index: int64(i), Timestamp: now}}
	}
	_, growth, err := tlog.NewEdge().Append(list)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, o := range growth.Objects {
		path := filepath.Join(dir, filepath.FromSlash(o.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, o.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tile", "0", "x001", "000")); err != nil {
		t.Fatal(err)
	}
	keys, err := checkpoint.KeysFromSeed(make([]byte, checkpoint.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := checkpoint.NewSigner("large.example/log", keys)
	if err != nil {
		t.Fatal(err)
	}
	reads, err := readpath.New(dir, readpath.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reads.Close() }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/checkpoint":
			note, err := signer.SignTreeHead(growth.Tree, now)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write(note)
		case strings.HasPrefix(r.URL.Path, "/ct/v1/"):
			_, _ = w.Write([]byte(`{"certificates":[]}`))
		default:
			reads.ServeHTTP(w, r)
		}
	}))
	defer server.Close()

	ids := "R1 R27 S6 S18 S19 S20 S21 S22 S23 S24 S26 S27 S30 S31 S36 T3 T4 T6 G01 G05"
	report, err := conformance.Run(t.Context(), conformance.Target{Submission: server.URL, Origin: signer.Origin(), PublicKey: signer.PublicKey()},
		conformance.Options{Strict: true, Only: strings.Fields(ids), Scan: 1024})
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range report.Results {
		if res.Status != conformance.OK {
			t.Errorf("%s is %v: %q %q", res.ID, res.Status, res.Faults, res.Notes)
		}
	}
	if !strings.Contains(report.Result("R1").Notes[0], "to 256263") {
		t.Errorf("%q", report.Result("R1").Notes)
	}
}
