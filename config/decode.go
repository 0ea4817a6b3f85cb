package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// decoder fills structs from YAML nodes and notes every problem. Its recursion
// is bounded by the depth of the structs, whatever aliases a file has.
type decoder struct {
	file     string
	problems Problems
	lines    map[string]int  // line of each key that is there
	bad      map[string]bool // keys whose value could not be read
}

func (d *decoder) problem(n *yaml.Node, key, format string, args ...any) {
	d.bad[key] = true
	d.problems = append(d.problems, Problem{d.file, n.Line, key, fmt.Sprintf(format, args...)})
}

// decode sets v from the node. f describes the field that v belongs to.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, key string, f field) {
	if d.lines[key] == 0 {
		d.lines[key] = n.Line
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.problem(n, key, "has no value: write one, or remove the key")
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case isScalar(v.Type()):
		d.decodeScalar(n, v, key)
	case v.Kind() == reflect.Struct:
		if s, ok := shorthand(v.Type()); ok && n.Kind == yaml.SequenceNode {
			setDefaults(v)
			d.decode(n, v.Field(s.index), join(key, s.name), s)
			return
		}
		if n.Kind != yaml.MappingNode {
			d.problem(n, key, "must be a mapping%s", f.suggestion())
			return
		}
		setDefaults(v)
		d.decodeStruct(n, v, key)
	case v.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.problem(n, key, "must be a list%s", f.suggestion())
			return
		}
		if len(n.Content) == 0 {
			d.problem(n, key, "is an empty list: write an entry, or remove the key")
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			d.decode(item, v.Index(i), fmt.Sprintf("%s[%d]", key, i), field{})
		}
	}
}

func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value, key string) {
	fields := fieldsOf(v.Type())
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		path := join(key, name.Value)
		if first := seen[name.Value]; first > 0 {
			d.problem(name, path, "is here twice, first in line %d: remove one", first)
			continue
		}
		seen[name.Value] = name.Line
		j := slices.IndexFunc(fields, func(f field) bool { return f.name == name.Value })
		switch {
		case name.Kind != yaml.ScalarNode || name.Value == "<<":
			d.problem(name, path, "is no key: merge keys and keys that are not plain text are not supported")
			continue
		case j < 0:
			d.problem(name, path, "is not a key that Daybook knows%s", hint(name.Value, key, fields))
			continue
		}
		d.lines[path] = name.Line
		d.decode(value, v.Field(fields[j].index), path, fields[j])
	}
	for _, f := range fields {
		if f.required && seen[f.name] == 0 {
			d.problem(n, join(key, f.name), "is missing%s", f.suggestion())
		}
	}
}

func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, key, "must be a single value, not a %s", map[yaml.Kind]string{yaml.MappingNode: "mapping", yaml.SequenceNode: "list"}[n.Kind])
		return
	}
	if p := placeholder(n.Value); p != "" {
		d.problem(n, key, "still has the placeholder %s: write the real value", p)
		return
	}
	if err := setScalar(v, n.Value, n.ShortTag()); err != nil {
		d.problem(n, key, "%v", err)
	}
}

// setScalar sets v from text. tag is the type that YAML sees in the text.
func setScalar(v reflect.Value, text, tag string) error {
	if text != strings.TrimSpace(text) {
		return fmt.Errorf("%q has blanks at its start or end: remove them", text)
	}
	if s, ok := v.Addr().Interface().(scalar); ok {
		return s.parse(text)
	}
	switch v.Kind() {
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil || tag != "!!bool" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(b)
	case reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil || tag != "!!int" || strconv.Itoa(i) != text {
			return fmt.Errorf("%q is no whole number", text)
		}
		v.SetInt(int64(i))
	case reflect.String:
		if tag != "!!str" {
			return fmt.Errorf("%s is not text to YAML: write \"%s\", in quotes", text, text)
		}
		if text == "" {
			return fmt.Errorf("is empty: write a value, or remove the key")
		}
		v.SetString(text)
	}
	return nil
}

// field is what the tags of a struct field say.
type field struct {
	index    int
	name     string // key in the file
	def      string // default, as it would be written
	example  string
	required bool
	path     bool // a file name, relative to the configuration file
	short    bool // a list in place of the struct stands for this field
}

// shorthand returns the field of a struct that a list in its place stands for.
func shorthand(t reflect.Type) (field, bool) {
	fields := fieldsOf(t)
	i := slices.IndexFunc(fields, func(f field) bool { return f.short })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// suggestion is the end of a message that shows how the key may look.
func (f field) suggestion() string {
	example := f.example
	if example == "" {
		example = f.def
	}
	if example == "" {
		return ""
	}
	return fmt.Sprintf(": write for example `%s: %s`", f.name, example)
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		tag := t.Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("yaml"), ",")
		fields = append(fields, field{index: i, name: name, def: tag.Get("default"), example: tag.Get("example"),
			required: tag.Get("required") == "true", path: tag.Get("path") == "true", short: tag.Get("short") == "true"})
	}
	return fields
}

func isScalar(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[scalar]()) ||
		t.Kind() == reflect.String || t.Kind() == reflect.Int || t.Kind() == reflect.Bool
}

// setDefaults sets the fields that have a default. The defaults stand in this
// package, so one that cannot be read is a defect of it.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		switch {
		case fv.Kind() == reflect.Struct && !isScalar(fv.Type()):
			setDefaults(fv)
			continue
		case f.def == "":
			continue
		case fv.Kind() == reflect.Slice:
			fv.Set(reflect.MakeSlice(fv.Type(), 1, 1))
			fv = fv.Index(0)
		}
		tag := map[reflect.Kind]string{reflect.Int: "!!int", reflect.Bool: "!!bool"}[fv.Kind()]
		if tag == "" {
			tag = "!!str"
		}
		if err := setScalar(fv, f.def, tag); err != nil {
			panic(fmt.Sprintf("config: default of %s: %v", f.name, err))
		}
	}
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
