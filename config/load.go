package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxFile bounds the size of a configuration file.
const maxFile = 1 << 20

// Load reads a configuration file, sets the defaults and makes all paths
// absolute. Its error is [Problems] when the file could be read.
func Load(path string) (*Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading the configuration: %s is larger than %v: it is no configuration of Daybook", path, Size(maxFile))
	}
	return Parse(data, path)
}

// Parse reads the text of a configuration file. Relative paths become relative to the
// directory of filename. It reads and writes no files. Its error is [Problems].
func Parse(data []byte, filename string) (*Config, error) {
	d := &decoder{file: filename, lines: make(map[string]int), bad: make(map[string]bool)}
	c := new(Config)
	setDefaults(reflect.ValueOf(c).Elem())
	if root := d.document(data); root != nil {
		d.decodeStruct(root, reflect.ValueOf(c).Elem(), "")
		resolve(reflect.ValueOf(c).Elem(), filepath.Dir(filename))
		c.inherit()
		d.validate(c)
	}
	if len(d.problems) > 0 {
		d.problems.sort()
		return nil, d.problems
	}
	c.file, c.lines = filename, d.lines
	return c, nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)

// document returns the mapping that the text consists of, or nil when there is
// a problem.
func (d *decoder) document(data []byte) *yaml.Node {
	fail := func(line int, message string) *yaml.Node {
		d.problems = append(d.problems, Problem{File: d.file, Line: line, Message: message})
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	if err == nil {
		// A second document would be a second configuration.
		if err = dec.Decode(&next); err == nil {
			return fail(next.Line, "a second YAML document starts here: write one only")
		}
	} else if errors.Is(err, io.EOF) {
		return fail(0, "the file is empty: docs/examples/daybook.yaml is a start")
	}
	if !errors.Is(err, io.EOF) {
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ := strconv.Atoi(m[1]) // digits by the pattern
			return fail(line, "is not YAML: "+m[2])
		}
		return fail(0, "is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fail(root.Line, "must be a mapping of keys to values, like `listen: [\"127.0.0.1:8080\"]`")
	}
	return root
}

// resolve makes the file names below v relative to dir.
func resolve(v reflect.Value, dir string) {
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		if fv.Kind() == reflect.Pointer && !fv.IsNil() {
			fv = fv.Elem()
		}
		switch {
		case f.path && fv.Kind() == reflect.String:
			resolvePath(fv, dir)
		case fv.Kind() == reflect.Struct && !isScalar(fv.Type()):
			resolve(fv, dir)
		case fv.Kind() == reflect.Slice:
			for i := range fv.Len() {
				if item := fv.Index(i); f.path {
					resolvePath(item, dir)
				} else if !isScalar(item.Type()) {
					resolve(item, dir)
				}
			}
		}
	}
}

func resolvePath(v reflect.Value, dir string) {
	p := v.String()
	if p == "" {
		return // missing, which is reported elsewhere
	}
	if r, ok := v.Interface().(Report); ok && r.Remote() {
		return
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(dir, p)
	}
	v.SetString(filepath.Clean(p))
}

// inherit fills in what a log takes from other keys.
func (c *Config) inherit() {
	for i := range c.Logs {
		l := &c.Logs[i]
		if l.MonitoringPrefix == (Prefix{}) {
			l.MonitoringPrefix = l.SubmissionPrefix
		}
		if l.Lock == nil && c.Lock != nil {
			l.Lock = &Lock{Path: c.Lock.Path}
		}
		if l.Rounds.Path == "" && l.Cache.Path != "" {
			l.Rounds.Path = l.Cache.Path + ".rounds.jsonl"
		}
	}
}

// line returns the line of a key, or of the nearest thing around it.
func line(lines map[string]int, key string) int {
	for ; key != ""; key = parent(key) {
		if n := lines[key]; n > 0 {
			return n
		}
	}
	return 0
}

// parent returns the key around a key, "" at the top.
func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

// YAML returns the configuration in effect, with every default filled in and
// all paths as they are used. Parsing it again gives an equal configuration.
func (c *Config) YAML() []byte {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(c), enc.Close()); err != nil {
		panic(fmt.Sprintf("config: %v", err)) // the types of this package can all be written
	}
	return b.Bytes()
}

// Find returns the log with this name, nil if there is none.
func (c *Config) Find(name string) *Log {
	for i := range c.Logs {
		if c.Logs[i].Name == name {
			return &c.Logs[i]
		}
	}
	return nil
}
