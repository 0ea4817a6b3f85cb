package sequencer

import (
	"bytes"
	"testing"

	"github.com/daybook-ct/daybook/storage"
)

func TestBundleRoundTrip(t *testing.T) {
	in := []storage.Object{{Name: "tile/0/000.p/1", Data: []byte("hash")}, {Name: "tile/data/000", Data: nil},
		{Name: "issuer/" + string(bytes.Repeat([]byte("ab"), 32)), Data: bytes.Repeat([]byte{7}, 100_000)}}
	b := encodeBundle(in)
	out, err := decodeBundle(b)
	if err != nil {
		t.Fatal(err)
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
		if i > 200 && i < len(b)-100 {
			continue
		}
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x20
		if _, err := decodeBundle(damaged); err == nil {
			t.Fatalf("a flipped bit in byte %d goes unnoticed", i)
		}
	}
	for _, n := range []int{0, 10, len(b) / 2, len(b) - 1} {
		if _, err := decodeBundle(b[:n]); err == nil {
			t.Errorf("%d of %d bytes were taken for a bundle", n, len(b))
		}
	}
}

// TestBundleHoldsOnlyImmutables: a bundle can never replace the checkpoint.
func TestBundleHoldsOnlyImmutables(t *testing.T) {
	for _, name := range []string{"checkpoint", "log.v3.json", "_roots.pem", "../x", "", "staging/1-" + string(bytes.Repeat([]byte("ab"), 32))} {
		if _, err := decodeBundle(encodeBundle([]storage.Object{{Name: name}})); err == nil {
			t.Errorf("a bundle with %q was accepted", name)
		}
	}
}

func FuzzDecodeBundle(f *testing.F) {
	f.Add(encodeBundle(nil))
	f.Add(encodeBundle([]storage.Object{{Name: "tile/0/000.p/1", Data: []byte("hash")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		objects, err := decodeBundle(b)
		if err == nil && !bytes.Equal(encodeBundle(objects), b) {
			t.Error("a decoded bundle encodes to other bytes")
		}
	})
}
