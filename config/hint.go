package config

import (
	"fmt"
	"regexp"
	"strings"
)

// placeholders are the forms in which templates leave a value to be filled in.
var placeholders = regexp.MustCompile(
	`(?i:(change|replace|fill)[-_ ]?(me|this|it)\b)|` + // CHANGE_ME, changeme
		`(^|[^A-Za-z0-9])(TODO|FIXME|TBD|XXX+)($|[^A-Za-z0-9])|` +
		`<[^<>]*>|` + // <your host>
		`\$\{[^}]*\}|\$\([^)]*\)|\$[A-Za-z_]+|` + // ${VAR}, $(command), $VAR
		`\{\{.*?\}\}|\{%.*?%\}|` + // {{ value }}, {% if %}
		`%[A-Z_]{2,}%|@[A-Z_]{2,}@|__[A-Z_]{2,}__|` + // %VAR%, @VAR@, __VAR__
		`(?i:\byour[-_ ])|` + // your-log
		`^(\.\.\.|…)$`)

// placeholder returns the part of a value that looks like a placeholder that
// nobody filled in, or "".
func placeholder(value string) string {
	return strings.TrimSpace(placeholders.FindString(value))
}

// elsewhere tells users of Sunlight, whose files on disk are the same, which
// key takes the place of theirs.
var elsewhere = map[string]string{
	"checkpoints":    "lock: {path: ...} at the top of the file",
	"shortname":      "name",
	"period":         "interval, with its unit",
	"secret":         "key",
	"seed":           "key",
	"localdirectory": "storage: {directory: ...}",
	"directory":      "storage: {directory: ...}",
	"notafterstart":  "window: {start: ..., limit: ...}",
	"notafterlimit":  "window: {start: ..., limit: ...}",
	"ccadbroots":     "roots: {ccadb: [included]}, or [applicants] for testing",
	"extraroots":     "roots: {files: [...]}",
	"origin":         "submission_prefix, of which the origin is made",
}

// hint is the end of the message about an unknown key.
func hint(name, parent string, fields []field) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	for _, f := range fields {
		if plain(f.name) == plain(name) {
			return fmt.Sprintf(": write %s", f.name)
		}
	}
	if plain(name) == "inception" {
		return ": remove it, and create the log with `daybook init`"
	}
	if there := elsewhere[plain(name)]; there != "" {
		return ": write " + there
	}
	best, least := "", 3
	for _, f := range fields {
		if d := distance(f.name, plain(name)); d < least {
			best, least = f.name, d
		}
	}
	if best != "" {
		return fmt.Sprintf(": did you mean %s?", best)
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	where := "at the top"
	if parent != "" {
		where = "in " + parent
	}
	return fmt.Sprintf("; the keys %s are %s", where, strings.Join(names, ", "))
}

// distance is the number of letters to insert, delete or replace between two
// keys, at most 40 letters of each.
func distance(a, b string) int {
	a, b = a[:min(len(a), 40)], b[:min(len(b), 40)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
