package storage

import (
	"strings"

	"github.com/daybook-ct/daybook/tlog"
)

// Kind says what an object is. It is a function of the object's name.
type Kind int

// The kinds of objects. Their names are used in metrics, logs and fault plans.
const (
	Invalid    Kind = iota
	Checkpoint      // "checkpoint": the signed tree head, replaced every round
	HashTile        // "tile/<L>/<N>[.p/<W>]"
	DataTile        // "tile/data/<N>[.p/<W>]", gzip
	NamesTile       // "tile/names/<N>[.p/<W>]", gzip
	Issuer          // "issuer/<sha256 hex>", DER
	Staging         // "staging/<size>-<root hex>": a round's bundle, private
	LogInfo         // "log.v3.json"
	Roots           // "_roots.pem"
)

var kindNames = [...]string{"invalid", "checkpoint", "hash_tile", "data_tile", "names_tile",
	"issuer", "staging", "log_info", "roots"}

func (k Kind) String() string { return kindNames[k] }

// Immutable reports whether objects of this kind never change bytes (S7).
func (k Kind) Immutable() bool {
	switch k {
	case HashTile, DataTile, NamesTile, Issuer, Staging:
		return true
	}
	return false
}

// Public reports whether monitors may read objects of this kind.
func (k Kind) Public() bool { return k != Invalid && k != Staging }

// Gzip reports whether objects of this kind are stored gzip-compressed and are
// served with Content-Encoding: gzip.
func (k Kind) Gzip() bool { return k == DataTile || k == NamesTile }

// ContentType is the media type of the static-ct-api monitoring interface.
func (k Kind) ContentType() string {
	switch k {
	case Checkpoint:
		return "text/plain; charset=utf-8"
	case NamesTile:
		return "application/jsonl; charset=utf-8"
	case Issuer:
		return "application/pkix-cert"
	case LogInfo:
		return "application/json"
	case Roots:
		return "application/x-pem-file"
	}
	return "application/octet-stream"
}

// CacheControl is the Cache-Control value monitors get. Immutable objects may
// be kept for a week, the checkpoint not at all.
func (k Kind) CacheControl() string {
	switch {
	case k == Checkpoint:
		return "no-store"
	case k.Immutable() && k.Public():
		return "public, max-age=604800, immutable"
	}
	return "no-cache"
}

// KindOf returns the kind of the object with this name, Invalid if a log has
// no such object. Only canonical names are valid, so a valid name is also a
// safe relative path.
func KindOf(name string) Kind {
	switch name {
	case "checkpoint":
		return Checkpoint
	case "log.v3.json":
		return LogInfo
	case "_roots.pem":
		return Roots
	}
	if fp, ok := strings.CutPrefix(name, "issuer/"); ok {
		if len(fp) == 64 && isLowerHex(fp) {
			return Issuer
		}
		return Invalid
	}
	if b, ok := strings.CutPrefix(name, "staging/"); ok {
		size, root, ok := strings.Cut(b, "-")
		if ok && isDecimal(size) && len(root) == 64 && isLowerHex(root) {
			return Staging
		}
		return Invalid
	}
	t, err := tlog.ParseTilePath(name)
	switch {
	case err != nil:
		return Invalid
	case t.L == tlog.DataLevel:
		return DataTile
	case t.L == tlog.NamesLevel:
		return NamesTile
	}
	return HashTile
}

func isLowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isDecimal(s string) bool {
	if s == "" || len(s) > 13 || (len(s) > 1 && s[0] == '0') {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
