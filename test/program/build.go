package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const module = "github.com/daybook-ct/daybook/"

// Build is a program of this module, which is made when it is first asked for.
type Build struct {
	Dir     string   // where it is put
	Package string   // relative to the module
	Tags    string   // a part of its name, too
	Flags   []string // further ones of go build
	Env     []string // further variables of go build

	once sync.Once
	err  error
}

// Path returns where the program is.
func (b *Build) Path(t testing.TB) string {
	t.Helper()
	path := filepath.Join(b.Dir, filepath.Base(b.Package)+b.Tags)
	b.once.Do(func() {
		args := append([]string{"build", "-tags", b.Tags, "-o", path}, b.Flags...)
		cmd := exec.Command("go", append(args, module+b.Package)...)
		cmd.Env = append(os.Environ(), b.Env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("building %s: %w\n%s", b.Package, err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return path
}
