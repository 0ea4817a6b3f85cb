package sequencer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// A staging bundle is one object that holds every object a round will write,
// so that a single durable Put makes the round repeatable (S2). It is a magic
// line, then per object the name (uint16 length) and the data (uint32 length),
// then the SHA-256 of all that. It is private to this package: another program
// that continues the log needs no bundle after a clean stop.

const bundleMagic = "daybook staging bundle 1\n"

var errBundle = errors.New("malformed staging bundle")

// bundleName identifies the tree that the bundle leads to.
func bundleName(t tlog.Tree) string { return fmt.Sprintf("staging/%d-%x", t.N, t.Hash[:]) }

func encodeBundle(objects []storage.Object) []byte {
	size := len(bundleMagic) + sha256.Size
	for _, o := range objects {
		size += 2 + len(o.Name) + 4 + len(o.Data)
	}
	b := append(make([]byte, 0, size), bundleMagic...)
	for _, o := range objects {
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Name)))
		b = append(b, o.Name...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(o.Data)))
		b = append(b, o.Data...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeBundle returns the objects of a bundle. Their data aliases b.
func decodeBundle(b []byte) ([]storage.Object, error) {
	if len(b) < len(bundleMagic)+sha256.Size || !bytes.HasPrefix(b, []byte(bundleMagic)) {
		return nil, errBundle
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return nil, fmt.Errorf("%w: its checksum does not match", errBundle)
	}
	var objects []storage.Object
	for s := body[len(bundleMagic):]; len(s) > 0; {
		name, rest, ok := cut(s, 2)
		if !ok {
			return nil, errBundle
		}
		data, rest, ok := cut(rest, 4)
		if !ok {
			return nil, errBundle
		}
		o := storage.Object{Name: string(name), Data: data}
		if k := storage.KindOf(o.Name); !k.Immutable() || k == storage.Staging {
			return nil, fmt.Errorf("%w: it holds %q, which no round writes", errBundle, o.Name)
		}
		objects, s = append(objects, o), rest
	}
	return objects, nil
}

// cut splits a length-prefixed field off s; the prefix has size bytes.
func cut(s []byte, size int) (field, rest []byte, ok bool) {
	if len(s) < size {
		return nil, nil, false
	}
	var n uint64
	for _, c := range s[:size] {
		n = n<<8 | uint64(c)
	}
	if s = s[size:]; n > uint64(len(s)) {
		return nil, nil, false
	}
	return s[:n], s[n:], true
}
