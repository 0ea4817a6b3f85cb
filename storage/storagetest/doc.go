// Package storagetest holds the contract suites of package storage, which
// every implementation and every fake passes, and wrappers that inject faults
// into implementations by a deterministic plan.
//
// A suite is a list of cases. Each case gets a new, empty instance from the
// factory it is given, and only uses the methods of the contract.
package storagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/storage"
)

// cancelled returns a context that has ended.
func cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// wantErr fails the test unless err is target.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: got error %v, want %v", what, err, target)
	}
}

// noErr ends the test if err is not nil.
func noErr(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// wantBytes compares without printing megabytes.
func wantBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got %s, want %s", what, brief(got), brief(want))
	}
}

func brief(b []byte) string {
	if len(b) <= 40 {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%d bytes starting %q", len(b), b[:20])
}

// pattern returns n bytes that depend on seed and differ from place to place,
// so that a truncated, shifted or mixed copy is not equal to it.
func pattern(seed string, n int) []byte {
	b := make([]byte, 0, n+sha256.Size)
	for h := sha256.Sum256([]byte(seed)); len(b) < n; h = sha256.Sum256(h[:]) {
		b = append(b, h[:]...)
	}
	return b[:n]
}

func hexOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func issuerName(s string) string { return "issuer/" + hexOf(s) }

func stagingName(size int) string {
	return fmt.Sprintf("staging/%d-%s", size, hexOf(fmt.Sprint("root", size)))
}

// immutableNames has names of all immutable kinds, with the shapes that a
// hierarchical store may confuse: a full tile beside its partials, an index
// with more than one element.
var immutableNames = []string{
	"tile/0/000", "tile/0/000.p/5", "tile/0/x001/000", "tile/0/x001/x234/067.p/255", "tile/5/000.p/1",
	"tile/data/000", "tile/data/000.p/1", "tile/data/x001/234.p/7",
	"tile/names/000", "tile/names/000.p/1", "tile/names/x001/234.p/7",
	issuerName("a"), issuerName("b"), stagingName(0), stagingName(1000),
}

var mutableNames = []string{"checkpoint", "log.v3.json", "_roots.pem"}

func allNames() []string {
	return append(append([]string(nil), immutableNames...), mutableNames...)
}

// invalidNames are names that no log object has.
var invalidNames = []string{
	"", ".", "..", "/", "//", "/checkpoint", "./checkpoint", "../checkpoint", "checkpoint/", "checkpoint/.",
	"checkpoint\x00", "checkpoint ", " checkpoint", "Checkpoint", "CHECKPOINT", "checkpoint.tmp", ".checkpoint",
	".tmp-checkpoint", ".tmp-0123456789abcdef", "tile/0/.tmp-0123456789abcdef", "issuer/.tmp-0123456789abcdef",
	".git/config", ".htaccess", "tile/.hidden", "etc/passwd", "/etc/passwd", "../../etc/passwd", "lock.db", "cache.db-wal",
	"tile", "tile/", "tile/0", "tile/0/", "tile//000", "tile/0//000", "tile/0/000/", "tile/0/0", "tile/0/00", "tile/0/0000",
	"tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0", "tile/0/000.p/00", "tile/0/000.p/01", "tile/0/000.p/256", "tile/0/000.p/-1",
	"tile/0/x000/000", "tile/0/001/000", "tile/0/x001", "tile/00/000", "tile/6/000", "tile/-1/000", "tile/x/000", "tile/Data/000",
	"tile/../checkpoint", "tile/0/../0/000", "tile/0/000.p/../5", "tile/0/%2e%2e/checkpoint", "tile\\0\\000", "tile/0/000?x",
	"tile/0/x999/x999/x999/x999/999", "issuer", "issuer/", "issuer/x", "issuer/../checkpoint",
	"issuer/" + strings.Repeat("0", 63), "issuer/" + strings.Repeat("0", 65), "issuer/" + strings.Repeat("A", 64),
	"staging", "staging/", "staging/0", "staging/0-", "staging/-" + strings.Repeat("0", 64), "staging/01-" + strings.Repeat("0", 64),
	"staging/0-" + strings.Repeat("F", 64), "staging/../0-" + strings.Repeat("0", 64), "staging/00/" + strings.Repeat("0", 64),
	"log.v3.json/", "log.v2.json", "_roots.pem.bak", "roots.pem",
}

func object(name string, data []byte) storage.Object { return storage.Object{Name: name, Data: data} }
