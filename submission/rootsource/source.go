package rootsource

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/daybook-ct/daybook/internal/server/prefix"
)

// Source is a place where roots are listed. It is comparable: equal sources are
// read once. The zero value is none.
type Source struct {
	kind     kind
	location string // path or URL
}

type kind int

const (
	builtin   kind = iota + 1
	pemFile        // file or directory
	ccadbFile      // CSV
	ccadbURL       // CSV
)

// PEM is a PEM file, or a directory whose files *.pem and *.crt are read.
func PEM(path string) Source { return Source{pemFile, path} }

// MergeDelayMonitor is the root of Chrome's merge delay monitor, which is part
// of this program.
func MergeDelayMonitor() Source { return Source{builtin, "merge delay monitor root"} }

// CCADB is a CSV report of the Common CA Database, in a file or at a URL. A
// location with "://" is a URL, which must be https, or http of a loopback host.
func CCADB(location string) (Source, error) {
	if !strings.Contains(location, "://") {
		return Source{ccadbFile, location}, nil
	}
	u, err := url.Parse(location)
	if err != nil {
		return Source{}, fmt.Errorf("the root list %q is no URL: %w", location, errors.Unwrap(err))
	}
	if err := checkURL(u, true); err != nil {
		return Source{}, fmt.Errorf("the root list %s cannot be used: %w", u.Redacted(), err)
	}
	return Source{ccadbURL, location}, nil
}

// String names the source in the log and in metrics.
func (s Source) String() string { return s.location }

// remote reports whether the source is read over the network.
func (s Source) remote() bool { return s.kind == ccadbURL }

// checkURL refuses URLs over which anybody on the way could add roots.
func checkURL(u *url.URL, plainLoopback bool) error {
	switch {
	case u.Host == "":
		return errors.New("it has no host")
	case u.User != nil:
		return errors.New("it has a user name, which would be shown in metrics and log lines")
	case u.Scheme == "https", u.Scheme == "http" && plainLoopback && prefix.Loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("its scheme is %q, and only https is possible (http for loopback hosts)", u.Scheme)
}
