// Package cases finds the third-party test data: certificates, chains, tiles and a
// log of other makers, with the right answer for each. It is not part of the
// repository. DAYBOOK_CASES names its folder; by default it is shared/cases beside
// the checkout.
package cases

import (
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Dir returns a folder of the test data, or skips the test, which then says that
// it has tested nothing.
func Dir(tb testing.TB, folder ...string) string {
	tb.Helper()
	dir, err := Find(folder...)
	if err != nil {
		tb.Skipf("SKIPPED, NOTHING WAS TESTED: %v; set DAYBOOK_CASES to the folder of the test data", err)
	}
	return dir
}

// Find returns a folder of the test data, or an error if it is not there.
func Find(folder ...string) (string, error) {
	dir := os.Getenv("DAYBOOK_CASES")
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "..", "shared", "cases")
	}
	dir = filepath.Join(append([]string{dir}, folder...)...)
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// moduleRoot returns the nearest folder above the working directory that has a
// go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("there is no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// ReadPEM returns the certificates of a PEM file in its order, undecoded.
func ReadPEM(tb testing.TB, path string) (ders [][]byte) {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return ders
		}
		if b.Type == "CERTIFICATE" {
			ders = append(ders, b.Bytes)
		}
	}
}
