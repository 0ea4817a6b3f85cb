package submission

import (
	"encoding/binary"
	"testing"
)

func numbered(n int) (f [32]byte) {
	binary.BigEndian.PutUint64(f[:], uint64(n))
	return f
}

// TestLeafMemory: what is used stays, the rest is forgotten within bounds.
func TestLeafMemory(t *testing.T) {
	var m leafMemory
	parent := numbered(-1)
	if m.verified(signatureOf(numbered(0), parent)) {
		t.Error("an empty memory remembers")
	}
	for i := range 4 * maxLeaves {
		m.remember(signatureOf(numbered(i), parent))
		if !m.verified(signatureOf(numbered(0), parent)) {
			t.Fatalf("a leaf in use is forgotten after %d others", i)
		}
		if len(m.young) > maxLeaves || len(m.old) > maxLeaves {
			t.Fatalf("%d and %d leaves are kept", len(m.young), len(m.old))
		}
	}
	if m.verified(signatureOf(numbered(1), parent)) {
		t.Error("a leaf that nobody uses is never forgotten")
	}
	last := numbered(4*maxLeaves - 1)
	if !m.verified(signatureOf(last, parent)) {
		t.Error("the latest leaf is forgotten")
	}
	if m.verified(signatureOf(last, numbered(-2))) || m.verified(signatureOf(parent, last)) {
		t.Error("another signature is taken for verified")
	}
}
