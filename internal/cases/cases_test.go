package cases

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DAYBOOK_CASES", dir)
	if got, err := Find(); err != nil || got != dir {
		t.Errorf("Find() = %q, %v", got, err)
	}
	if got, err := Find("open"); err == nil {
		t.Errorf("a folder that is not there was found at %q", got)
	}
	if err := os.Mkdir(filepath.Join(dir, "open"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := Dir(t, "open"); got != filepath.Join(dir, "open") {
		t.Errorf("Dir = %q", got)
	}
	t.Setenv("DAYBOOK_CASES", "")
	if root, err := moduleRoot(); err != nil || filepath.Base(filepath.Dir(mustGetwd(t))) != "internal" || root != filepath.Dir(filepath.Dir(mustGetwd(t))) {
		t.Errorf("moduleRoot() = %q, %v", root, err)
	}
}

func mustGetwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
