package readpath

import (
	"strconv"
	"strings"
)

// acceptsGzip reports whether a client takes gzip (RFC 9110 section 12.5.3),
// given its Accept-Encoding header fields. Without any, every coding may be
// sent, and static-ct-api asks clients to support gzip.
func acceptsGzip(fields []string) bool {
	if len(fields) == 0 {
		return true
	}
	gzip, any := undecided, undecided
	for _, field := range fields {
		for item := range strings.SplitSeq(field, ",") {
			coding, params, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(coding)) {
			case "gzip", "x-gzip":
				gzip = weight(params)
			case "*":
				any = weight(params)
			}
		}
	}
	if gzip == undecided {
		gzip = any
	}
	return gzip == yes
}

type verdict int

const (
	undecided verdict = iota
	yes
	no
)

// weight tells whether a coding with these parameters may be sent. A weight
// that cannot be read refuses, since identity is always understood.
func weight(params string) verdict {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil || !(q > 0 && q <= 1) {
			return no
		}
	}
	return yes
}
