// Package monitor is a client of a Static CT log's monitoring interface
// (c2sp.org/static-ct-api). [Verify] downloads a log through its monitoring
// prefix alone and checks all that can be checked there: signatures, hashes,
// entries, chains, issuers, names tiles, and the promises made in SCTs.
//
// It is stricter than a browser and kinder than a test suite: whatever makes
// the log's data wrong is a [Fault]; headers and style are not judged.
package monitor

import (
	"errors"
	"fmt"
)

// ErrUnavailable means that the log could not be read; nothing is known to be
// wrong with its data.
var ErrUnavailable = errors.New("log cannot be read")

// ErrNotFound means that the log answered that an object does not exist.
var ErrNotFound = errors.New("not served (404)")

// Fault is something wrong with a log's data.
type Fault struct {
	Object string // name of the object below the monitoring prefix
	Entry  int64  // leaf index, or -1 where it is not about one entry
	What   string // what is wrong
	Got    string // the value found and the value wanted, where there are
	Want   string // such values

	cause error
}

// Unwrap returns ErrNotFound for an object that is missing.
func (f *Fault) Unwrap() error { return f.cause }

func (f *Fault) Error() string {
	s := f.Object
	if f.Entry >= 0 {
		s += fmt.Sprintf(", entry %d", f.Entry)
	}
	s += ": " + f.What
	if f.Got != "" {
		s += ": got " + f.Got
	}
	if f.Want != "" {
		s += ", want " + f.Want
	}
	return s
}

// fault returns a Fault that is not about one entry.
func fault(object, format string, args ...any) *Fault {
	return &Fault{Object: object, Entry: -1, What: fmt.Sprintf(format, args...)}
}

// entryFault returns a Fault about the entry with the given leaf index.
func entryFault(object string, index int64, format string, args ...any) *Fault {
	return &Fault{Object: object, Entry: index, What: fmt.Sprintf(format, args...)}
}

// missing returns the Fault of an object that must be served and is not.
func missing(object, also string) *Fault {
	f := fault(object, "%v%s", ErrNotFound, also)
	f.cause = ErrNotFound
	return f
}

// values adds the value found and the value wanted.
func (f *Fault) values(got, want any) *Fault {
	f.Got, f.Want = fmt.Sprint(got), fmt.Sprint(want)
	return f
}
