package config

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestReference makes docs/config.md of the comments and tags in config.go and
// fails when the file on disk is another one.
func TestReference(t *testing.T) {
	example, err := os.ReadFile("../docs/examples/daybook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{t: t, comments: comments(t)}
	r.printf(`# Configuration

<!-- Made by "go generate ./config" of the comments in config/config.go. Edit those. -->

Daybook reads one YAML file, usually `+"`daybook.yaml`"+`. It is read strictly: unknown and repeated keys, values without
their unit, placeholders that nobody filled in and prefixes or files that contradict each other are errors, all of
which are reported together with their lines. `+"`daybook check -c daybook.yaml`"+` shows them, the warnings, and the
configuration in effect with all defaults; it starts and creates nothing.

- A **duration** has a unit: `+"`200ms`, `1.5s`, `2m`"+`. A **size** has one, too: `+"`512MiB`, `1GiB`"+` (1 KiB is 1024 bytes).
- A **time** is RFC 3339: `+"`2027-01-01T00:00:00Z`"+`.
- A **file** or **directory** that is not absolute is relative to the directory of the configuration file.
- A key that is missing has its default; keys without one are required unless it says "optional".

A small complete file (docs/examples/daybook.yaml):

`+"```yaml\n%s```\n", example)
	r.printf("\n## The file\n")
	r.fields(reflect.TypeFor[Config](), "", 3)
	golden(t, "../docs/config.md", r.Bytes())
}

// The examples in the tags stand in error messages: they must be right.
func TestExamplesOfKeys(t *testing.T) {
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for _, f := range fieldsOf(typ) {
			ft := typ.Field(f.index).Type
			if f.example != "" && f.name != "logs" {
				var n yaml.Node
				if err := yaml.Unmarshal([]byte(f.example), &n); err != nil {
					t.Fatalf("example of %s: %v", f.name, err)
				}
				d := &decoder{lines: make(map[string]int), bad: make(map[string]bool)}
				d.decode(n.Content[0], reflect.New(ft).Elem(), f.name, f)
				if len(d.problems) > 0 {
					t.Errorf("example of %s: %v", f.name, d.problems)
				}
			}
			for ft.Kind() == reflect.Slice || ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct && !isScalar(ft) {
				walk(ft)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

type reference struct {
	bytes.Buffer
	t        *testing.T
	comments map[string]string // "Type" and "Type.Field"
}

func (r *reference) printf(format string, args ...any) { fmt.Fprintf(&r.Buffer, format, args...) }

// fields prints all keys of a struct, in the order of the file.
func (r *reference) fields(typ reflect.Type, parent string, depth int) {
	for _, f := range fieldsOf(typ) {
		sf := typ.Field(f.index)
		key := join(parent, f.name)
		comment := r.comments[typ.Name()+"."+sf.Name]
		if comment == "" {
			r.t.Errorf("%s.%s has no comment: it is the reference of %s", typ.Name(), sf.Name, key)
		}
		r.printf("\n%s `%s`\n\n%s\n\n%s", strings.Repeat("#", min(depth, 4)), key, describe(f, sf.Type), comment)
		elem := sf.Type
		if elem.Kind() == reflect.Slice {
			key += "[]"
			elem = elem.Elem()
		}
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		if elem.Kind() == reflect.Struct && !isScalar(elem) {
			r.fields(elem, key, depth+1)
		}
	}
}

// describe returns the line with the type, the default and an example.
func describe(f field, typ reflect.Type) string {
	parts := []string{kindOf(typ, f)}
	switch {
	case f.required:
		parts = append(parts, "required")
	case f.def != "":
		parts = append(parts, "default `"+f.def+"`")
	case typ.Kind() == reflect.Struct && !isScalar(typ):
		parts = append(parts, "all its keys have defaults")
	default:
		parts = append(parts, "optional")
	}
	if f.example != "" && f.example != f.def {
		parts = append(parts, "for example `"+f.name+": "+f.example+"`")
	}
	return "*" + strings.Join(parts, "; ") + "*"
}

func kindOf(typ reflect.Type, f field) string {
	if s, ok := reflect.New(typ).Interface().(scalar); ok {
		return s.kind()
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return kindOf(typ.Elem(), f)
	case reflect.Slice:
		return "list of " + kindOf(typ.Elem(), f) + "s"
	case reflect.Struct:
		return "block"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "number"
	}
	switch {
	case f.path && f.name == "directory":
		return "directory"
	case f.path:
		return "file"
	}
	return "text"
}

// comments returns the doc comments of all structs and their fields.
func comments(t *testing.T) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, name := range f.Names {
				found[spec.Name.Name+"."+name.Name] = f.Doc.Text()
			}
		}
		return false
	})
	return found
}
