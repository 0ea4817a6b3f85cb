package storage_test

import (
	"path"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

var hex64 = strings.Repeat("0123456789abcdef", 4)

func TestKindOf(t *testing.T) {
	for name, want := range map[string]storage.Kind{
		"checkpoint":                       storage.Checkpoint,
		"log.v3.json":                      storage.LogInfo,
		"_roots.pem":                       storage.Roots,
		"tile/0/000":                       storage.HashTile,
		"tile/0/000.p/255":                 storage.HashTile,
		"tile/5/x001/x234/067.p/1":         storage.HashTile,
		"tile/data/000":                    storage.DataTile,
		"tile/data/x001/234.p/7":           storage.DataTile,
		"tile/names/000":                   storage.NamesTile,
		"tile/names/000.p/9":               storage.NamesTile,
		"issuer/" + hex64:                  storage.Issuer,
		"staging/0-" + hex64:               storage.Staging,
		"staging/1099511627775-" + hex64:   storage.Staging,
		"staging/10995116277760-" + hex64:  storage.Invalid, // 14 digits, more than 2^40 has
		"staging/01-" + hex64:              storage.Invalid,
		"staging/-" + hex64:                storage.Invalid,
		"staging/+1-" + hex64:              storage.Invalid,
		"staging/1" + hex64:                storage.Invalid,
		"staging/1-" + hex64 + "0":         storage.Invalid,
		"staging/1-" + hex64[1:]:           storage.Invalid,
		"issuer/" + hex64 + "0":            storage.Invalid,
		"issuer/" + hex64[1:]:              storage.Invalid,
		"issuer/" + strings.ToUpper(hex64): storage.Invalid,
		"issuer/" + hex64[1:] + "g":        storage.Invalid,
		"issuer/../checkpoint":             storage.Invalid,
		"":                                 storage.Invalid,
		".":                                storage.Invalid,
		"/checkpoint":                      storage.Invalid,
		"checkpoint/":                      storage.Invalid,
		"checkpoint\n":                     storage.Invalid,
		"Checkpoint":                       storage.Invalid,
		"tile/0/000.p/0":                   storage.Invalid,
		"tile/0/000.p/256":                 storage.Invalid,
		"tile/0/000.p/01":                  storage.Invalid,
		"tile/0/x000/000":                  storage.Invalid,
		"tile/6/000":                       storage.Invalid,
		"tile/0/../data/000":               storage.Invalid,
		"tile/0/.tmp-000":                  storage.Invalid,
		".tmp-checkpoint":                  storage.Invalid,
	} {
		if got := storage.KindOf(name); got != want {
			t.Errorf("KindOf(%q) is %v, want %v", name, got, want)
		}
	}
}

// TestTilesHaveKinds: every path that tiles are written under is valid.
func TestTilesHaveKinds(t *testing.T) {
	for _, level := range []int{tlog.NamesLevel, tlog.DataLevel, 0, 1, 5} {
		want := storage.HashTile
		switch level {
		case tlog.DataLevel:
			want = storage.DataTile
		case tlog.NamesLevel:
			want = storage.NamesTile
		}
		for _, n := range []int64{0, 1, 999, 1000, 1234067, 1<<32 - 1} {
			for _, w := range []int{1, 255, 256} {
				if name := (tlog.Tile{L: level, N: n, W: w}).Path(); storage.KindOf(name) != want {
					t.Errorf("KindOf(%q) is %v, want %v", name, storage.KindOf(name), want)
				}
			}
		}
	}
}

// TestKindProperties is what the read path and the stores rest on.
func TestKindProperties(t *testing.T) {
	type properties struct {
		immutable, public, gzip bool
		contentType, cache      string
	}
	const forever, never = "public, max-age=604800, immutable", "no-cache"
	for kind, want := range map[storage.Kind]properties{
		storage.Invalid:    {false, false, false, "application/octet-stream", never},
		storage.Checkpoint: {false, true, false, "text/plain; charset=utf-8", "no-store"},
		storage.HashTile:   {true, true, false, "application/octet-stream", forever},
		storage.DataTile:   {true, true, true, "application/octet-stream", forever},
		storage.NamesTile:  {true, true, true, "application/jsonl; charset=utf-8", forever},
		storage.Issuer:     {true, true, false, "application/pkix-cert", forever},
		storage.Staging:    {true, false, false, "application/octet-stream", never},
		storage.LogInfo:    {false, true, false, "application/json", never},
		storage.Roots:      {false, true, false, "application/x-pem-file", never},
	} {
		got := properties{kind.Immutable(), kind.Public(), kind.Gzip(), kind.ContentType(), kind.CacheControl()}
		if got != want {
			t.Errorf("%v: %+v, want %+v", kind, got, want)
		}
	}
	seen := make(map[string]bool)
	for k := storage.Invalid; k <= storage.Roots; k++ {
		if s := k.String(); s == "" || seen[s] || strings.ToLower(s) != s || strings.ContainsAny(s, " -/") {
			t.Errorf("kind %d is called %q, which is no metric label of its own", int(k), s)
		}
		seen[k.String()] = true
	}
}

// FuzzKindOf: a valid name is a safe relative path.
func FuzzKindOf(f *testing.F) {
	for _, name := range []string{"checkpoint", "tile/0/000", "tile/data/x001/234.p/7", "issuer/" + hex64, "staging/12-" + hex64,
		"tile/0/../000", "tile/0//000", "/checkpoint", ".tmp-1", "issuer/..", "tile/0/000.p/..", "tile/0/000\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if storage.KindOf(name) == storage.Invalid {
			return
		}
		if path.Clean(name) != name || path.IsAbs(name) {
			t.Errorf("%q is valid, but not clean and relative", name)
		}
		for elem := range strings.SplitSeq(name, "/") {
			if elem == "" || elem[0] == '.' || len(elem) > 100 {
				t.Errorf("%q is valid, but has the element %q", name, elem)
			}
		}
		for _, c := range []byte(name) {
			if c <= ' ' || c >= 0x7f || strings.ContainsRune(`\%?#*"'<>|:`, rune(c)) {
				t.Errorf("%q is valid, but has the byte %#x", name, c)
			}
		}
		if len(name) > 128 {
			t.Errorf("valid name has %d bytes", len(name))
		}
		if t2, err := tlog.ParseTilePath(name); err == nil && t2.Path() != name {
			t.Errorf("%q is valid, but %q is the name of the tile", name, t2.Path())
		}
	})
}
