package power

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// initramfs returns the first file system of the machine, a cpio archive in the
// format newc.
func initramfs(t testing.TB, program string) []byte {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join(*kernel, "modules", "*.ko"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("there are no modules of a kernel in %s: run test/power/setup.sh (%v)", *kernel, err)
	}
	slices.Sort(modules)
	var a archive
	for _, dir := range []string{"dev", "proc", "sys", "log", "modules", "tmp"} {
		a.add(dir, 0o040755, nil)
	}
	for name, path := range map[string]string{"init": agent.Path(t), "daybook": program} {
		a.add(name, 0o100755, contentOf(t, path))
	}
	for _, path := range modules {
		a.add("modules/"+filepath.Base(path), 0o100644, contentOf(t, path))
	}
	a.add("TRAILER!!!", 0, nil)
	return a.Bytes()
}

func contentOf(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// archive is a cpio archive that is being written.
type archive struct {
	bytes.Buffer
	files int
}

func (a *archive) add(name string, mode int, content []byte) {
	a.files++
	// inode, mode, uid, gid, links, time, size, four device numbers, length of the name, no checksum
	a.WriteString("070701")
	for _, v := range []int{a.files, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0} {
		fmt.Fprintf(&a.Buffer, "%08X", v)
	}
	a.WriteString(name + "\x00")
	a.pad()
	a.Write(content)
	a.pad()
}

func (a *archive) pad() { a.Write(make([]byte, -a.Len()&3)) }
