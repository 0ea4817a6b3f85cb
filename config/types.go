package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/internal/server/prefix"
)

// scalar is a value that is written as one word of text. parse tells in its
// error what to write instead.
type scalar interface {
	parse(s string) error
	String() string
	kind() string // for the reference
}

// Duration is written with a unit, like 200ms, 1.5s or 2m.
type Duration time.Duration

func (d *Duration) parse(s string) error {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return fmt.Errorf("%s has no unit: write %sms or %ss", s, s, s)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is no duration: write a number with its unit, like 200ms or 1.5s", s)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string {
	s := time.Duration(d).String()
	// 30m0s and 1h0m0s are exact but not what a person writes.
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (Duration) kind() string { return "duration" }

// Size is a number of bytes, written with a unit, like 512MiB or 1GiB.
type Size int64

var sizeUnits = []struct {
	name string
	size Size
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

func (z *Size) parse(s string) error {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.TrimSpace(s[len(digits):])
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no size: write a whole number with its unit, like 512MiB or 1GiB", s)
	}
	if unit == "" {
		return fmt.Errorf("%s has no unit: write %sMiB or %sGiB", s, s, s)
	}
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if v > math.MaxInt64/int64(u.size) {
			return fmt.Errorf("%s is too large", s)
		}
		*z = Size(v) * u.size
		return nil
	}
	return fmt.Errorf("the unit %q is not known: write B, KiB, MiB, GiB or TiB (1 KiB is 1024 bytes)", unit)
}

func (z Size) String() string {
	for _, u := range sizeUnits {
		if z >= u.size && z%u.size == 0 {
			return strconv.FormatInt(int64(z/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(z), 10) + "B"
}

func (Size) kind() string { return "size" }

// Time is a point in time, written as RFC 3339.
type Time struct{ time.Time }

func (t *Time) parse(s string) error {
	v, err := time.Parse(time.RFC3339, s)
	if err == nil {
		*t = Time{v.UTC()}
		return nil
	}
	if _, err := time.Parse(time.DateOnly, s); err == nil {
		return fmt.Errorf("%s has no time of day: write %sT00:00:00Z", s, s)
	}
	return fmt.Errorf("%q is no RFC 3339 time: write it like 2027-01-01T00:00:00Z", s)
}

func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

func (Time) kind() string { return "RFC 3339 time" }

// Prefix is the URL of a submission or monitoring interface.
type Prefix struct{ prefix.Prefix }

func (p *Prefix) parse(s string) error {
	v, err := prefix.Parse(s)
	if err == nil {
		p.Prefix = v
	}
	return err
}

func (Prefix) kind() string { return "URL" }

// Report is where a report of the Common CA Database is: an absolute URL, or
// the name of a file.
type Report string

// The reports that CCADB makes for CT logs (https://www.ccadb.org/resources).
const (
	reportIncluded   Report = "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesIncludedByRSReportCSV"
	reportApplicants Report = "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesInclusionReportCSV"
)

func (r *Report) parse(s string) error {
	switch s {
	case "":
		return errors.New("is empty: write `included`, `applicants`, a URL or a file")
	case "included":
		*r = reportIncluded
		return nil
	case "applicants":
		*r = reportApplicants
		return nil
	}
	*r = Report(s)
	if !r.Remote() {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "":
		return fmt.Errorf("%q is no URL: write it like %s", s, reportIncluded)
	case u.User != nil:
		return errors.New("a user name in a URL is not possible here: it would be shown in metrics")
	case u.Scheme == "https", u.Scheme == "http" && prefix.Loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("the scheme %q is not possible here: write https://, as anybody on the way could add roots", u.Scheme)
}

func (r Report) String() string { return string(r) }
func (Report) kind() string     { return "CCADB report" }

// Remote reports whether the report is at a URL.
func (r Report) Remote() bool { return strings.Contains(string(r), "://") }

// Network is a set of IP addresses, written as CIDR or as one address.
type Network struct{ netip.Prefix }

func (n *Network) parse(s string) error {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		n.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	v, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("%q is no network: write it like 10.1.0.0/16, 2001:db8::/32 or 127.0.0.1", s)
	}
	if v.Masked() != v {
		return fmt.Errorf("%s has bits set behind its length: write %s", s, v.Masked())
	}
	n.Prefix = v
	return nil
}

func (Network) kind() string { return "network" }

// OnHalt says what a process does when one of its logs halts.
type OnHalt string

// The values of OnHalt.
const (
	Stay OnHalt = "stay"
	Exit OnHalt = "exit"
)

func (o *OnHalt) parse(s string) error { return parseWord(o, s, Stay, Exit) }
func (o OnHalt) String() string        { return string(o) }
func (OnHalt) kind() string            { return "word" }

// Format is a format of log lines.
type Format string

// The values of Format.
const (
	Text Format = "text"
	JSON Format = "json"
)

func (f *Format) parse(s string) error { return parseWord(f, s, Text, JSON) }
func (f Format) String() string        { return string(f) }
func (Format) kind() string            { return "word" }

// Level is the least level that is logged.
type Level string

// The values of Level.
const (
	Debug Level = "debug"
	Info  Level = "info"
	Warn  Level = "warn"
	Error Level = "error"
)

func (l *Level) parse(s string) error { return parseWord(l, s, Debug, Info, Warn, Error) }
func (l Level) String() string        { return string(l) }
func (Level) kind() string            { return "word" }

// Slog returns the level as package slog has it.
func (l Level) Slog() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l)); err != nil {
		return slog.LevelInfo // only for a Level that was not read from a file
	}
	return level
}

// parseWord sets *p to s if s is one of the words.
func parseWord[T ~string](p *T, s string, words ...T) error {
	names := make([]string, len(words))
	for i, w := range words {
		if string(w) == s {
			*p = w
			return nil
		}
		names[i] = string(w)
	}
	last := len(names) - 1
	return errors.New(strconv.Quote(s) + " is not possible here: write " + strings.Join(names[:last], ", ") + " or " + names[last])
}

// MarshalYAML writes the duration as it is read.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// MarshalYAML writes the size as it is read.
func (z Size) MarshalYAML() (any, error) { return z.String(), nil }

// MarshalYAML writes the time as it is read.
func (t Time) MarshalYAML() (any, error) { return t.String(), nil }

// MarshalYAML writes the prefix as it is read.
func (p Prefix) MarshalYAML() (any, error) { return p.String(), nil }

// MarshalYAML writes the network as it is read.
func (n Network) MarshalYAML() (any, error) { return n.String(), nil }
