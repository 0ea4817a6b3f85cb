// Package imports checks that the packages of the project import each other in
// one direction only (docs/design.md, section "Packages").
package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/daybook-ct/daybook/"

// allowed lists, for each package, what it may import of this project. A
// package that is missing here fails the test, so that a new one is thought about.
var allowed = map[string][]string{
	"tlog":                  {},
	"cert":                  {},
	"internal/durable":      {},
	"internal/faultpoint":   {},
	"internal/incident":     {},
	"internal/cases":        {},
	"internal/obs":          {},
	"internal/testca":       {},
	"internal/testlog":      {},
	"checkpoint":            {"tlog"},
	"storage":               {"tlog"},
	"storage/memory":        {"storage", "tlog"},
	"storage/storagetest":   {"storage", "storage/memory", "tlog"},
	"storage/posix":         {"storage", "tlog", "internal/durable", "internal/faultpoint"},
	"storage/sqlitelock":    {"storage", "internal/durable"},
	"cache":                 {"storage", "tlog", "internal/durable", "internal/incident"},
	"sequencer":             {"storage", "checkpoint", "tlog", "internal/faultpoint", "internal/incident"},
	"submission":            {"sequencer", "cert", "checkpoint", "tlog"},
	"submission/rootsource": {"submission", "cert", "storage", "internal/server/prefix"},
	"readpath":              {"sequencer", "storage", "tlog"},
	"monitor":               {"cert", "checkpoint", "storage", "tlog"},
	"internal/fsck":         {"cache", "cert", "checkpoint", "internal/durable", "monitor", "storage", "tlog"},
	"internal/load":         {"monitor", "internal/testca", "cert", "checkpoint", "tlog"},
	"internal/rounds":       {"sequencer"},
	"internal/tune": {"cache", "cert", "checkpoint", "internal/durable", "internal/rounds", "internal/testca", "sequencer", "storage", "storage/posix",
		"storage/sqlitelock", "submission", "tlog"},
	"config":                       {"checkpoint", "internal/server/prefix"},
	"internal/server/prefix":       {},
	"internal/durable/durabletest": {"internal/durable"},
	"internal/server": {"cache", "cert", "checkpoint", "internal/durable", "internal/faultpoint", "internal/fsck", "internal/obs", "internal/rounds", "internal/server/prefix", "readpath", "sequencer", "storage", "storage/posix",
		"storage/sqlitelock", "submission", "submission/rootsource", "tlog"},
	// Only the command knows the configuration, and it may know everything.
	"cmd/daybook": {"*"},
}

func TestImportDirection(t *testing.T) {
	root := "../.."
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			nested := path != root && exists(filepath.Join(path, "go.mod")) // another module
			if nested || d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return check(t, filepath.ToSlash(dir), path, seen)
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("package %s is listed here but does not exist", pkg)
		}
	}
}

func check(t *testing.T, pkg, path string, seen map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	isTest := strings.HasSuffix(path, "_test.go")
	if !isTest && !strings.HasPrefix(pkg, "test/") {
		seen[pkg] = true
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if imported == "golang.org/x/mod/sumdb/tlog" && pkg != "tlog" {
			t.Errorf("%s imports %s; only package tlog may", path, imported)
		}
		own, ok := strings.CutPrefix(imported, module)
		if !ok || isTest || strings.HasPrefix(pkg, "test/") {
			continue // tests look at everything
		}
		may, known := allowed[pkg]
		switch {
		case !known:
			t.Errorf("package %s is not in the table of this test", pkg)
		case !slices.Contains(may, "*") && !slices.Contains(may, own):
			t.Errorf("%s imports %s; package %s may import %v", path, own, pkg, may)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
