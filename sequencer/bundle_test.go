package sequencer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

func noBase(name string) ([]byte, error) { return nil, errors.New("no base " + name) }

// decodeBundle opens a bundle and decodes its objects.
func decodeBundle(b []byte, get func(string) ([]byte, error)) (before tlog.Tree, objects []storage.Object, err error) {
	before, encoded, err := openBundle(b)
	if err != nil {
		return before, nil, err
	}
	objects, err = decodeObjects(encoded, get)
	return before, objects, err
}

func TestBundleRoundTrip(t *testing.T) {
	base := bytes.Repeat([]byte("base"), 100)
	get := func(name string) ([]byte, error) {
		if name != "tile/data/000.p/1" {
			return nil, errors.New("no base " + name)
		}
		return base, nil
	}
	in := []storage.Object{{Name: "tile/0/000.p/1", Data: []byte("hash")}, {Name: "tile/data/000", Data: nil},
		{Name: "tile/data/000.p/2", Data: append(bytes.Clone(base[:300]), "and more"...), Base: "tile/data/000.p/1", Prefix: 300},
		{Name: "issuer/" + strings.Repeat("ab", 32), Data: bytes.Repeat([]byte{7}, 100_000)}}
	want := tlog.Tree{N: 4711, Hash: tlog.Hash{1, 31: 2}}
	b := encodeBundle(want, in)
	before, out, err := decodeBundle(b, get)
	if err != nil {
		t.Fatal(err)
	}
	if before != want {
		t.Errorf("it follows %v, want %v", before, want)
	}
	if len(out) != len(in) {
		t.Fatalf("%d objects", len(out))
	}
	for i := range in {
		if out[i].Name != in[i].Name || !bytes.Equal(out[i].Data, in[i].Data) {
			t.Errorf("object %d differs", i)
		}
	}
	for i := range b {
		if i > 600 && i < len(b)-100 {
			continue
		}
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x20
		if _, _, err := decodeBundle(damaged, get); err == nil {
			t.Fatalf("a flipped bit in byte %d goes unnoticed", i)
		}
	}
	for _, n := range []int{0, 10, len(b) / 2, len(b) - 1} {
		if _, _, err := decodeBundle(b[:n], get); err == nil {
			t.Errorf("%d of %d bytes were taken for a bundle", n, len(b))
		}
	}
	base[7] ^= 1
	if _, _, err := decodeBundle(b, get); err == nil || !strings.Contains(err.Error(), "does not continue") {
		t.Errorf("a changed base: %v", err)
	}
	base = base[:200]
	if _, _, err := decodeBundle(b, get); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a shortened base: %v", err)
	}
	if _, _, err := decodeBundle(b, noBase); err == nil || !strings.Contains(err.Error(), "no base") {
		t.Errorf("an unreadable base: %v", err)
	}
}

// TestBundleHoldsOnlyImmutables: a bundle can never replace the checkpoint.
func TestBundleHoldsOnlyImmutables(t *testing.T) {
	for _, name := range []string{"checkpoint", "log.v3.json", "_roots.pem", "../x", "", "staging/1-" + strings.Repeat("ab", 32)} {
		if _, _, err := decodeBundle(encodeBundle(tlog.Tree{}, []storage.Object{{Name: name}}), noBase); err == nil {
			t.Errorf("a bundle with %q was accepted", name)
		}
	}
	foreign := storage.Object{Name: "tile/0/000.p/2", Base: "checkpoint", Data: []byte("abc"), Prefix: 1}
	if _, _, err := decodeBundle(encodeBundle(tlog.Tree{}, []storage.Object{foreign}), func(string) ([]byte, error) { return []byte("a"), nil }); err == nil {
		t.Error("a tile that extends the checkpoint was accepted")
	}
}

func FuzzDecodeBundle(f *testing.F) {
	f.Add(encodeBundle(tlog.Tree{}, nil))
	f.Add(encodeBundle(tlog.Tree{}, []storage.Object{{Name: "tile/0/000.p/1", Data: []byte("hash")}}))
	f.Add(encodeBundle(tlog.Tree{}, []storage.Object{{Name: "tile/0/000.p/2", Data: []byte("hash"), Base: "tile/0/000.p/1", Prefix: 2}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum would keep the fuzzer out; it is not what is tested.
		if len(b) > sha256.Size {
			sum := sha256.Sum256(b[:len(b)-sha256.Size])
			b = append(b[:len(b)-sha256.Size:len(b)-sha256.Size], sum[:]...)
		}
		before, objects, err := decodeBundle(b, func(string) ([]byte, error) { return []byte("hash"), nil })
		if err == nil && !bytes.Equal(encodeBundle(before, objects), b) {
			t.Error("a decoded bundle encodes to other bytes")
		}
	})
}
