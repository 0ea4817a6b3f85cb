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
// line, the size and root of the tree before, the objects, then the SHA-256 of all
// that. It is private to this package: another program that continues the log
// needs no bundle after a clean stop.
//
// A bundle stays until its objects are durable in their places and its keys are
// in the dedup cache, so several may be there, each leading to the tree before
// the next. Those that do not lead to the tree in the lock are of rounds that failed.
//
// An object is its name, the name of its base, the length of the prefix that it
// shares with its base, what follows the prefix, and, if it has a base, the
// SHA-256 of the whole. A base is a partial tile of the tree before, which is
// durable or can be made again from the bundle before. So a bundle is as large as what a
// round adds, not as the tiles that it rewrites.

const bundleMagic = "daybook staging bundle 2\n"

// bundleHead is how long a bundle is before its objects.
const bundleHead = len(bundleMagic) + 8 + sha256.Size

var errBundle = errors.New("malformed staging bundle")

// bundleName identifies the tree that the bundle leads to.
func bundleName(t tlog.Tree) string { return fmt.Sprintf("staging/%d-%x", t.N, t.Hash[:]) }

func encodeBundle(before tlog.Tree, objects []storage.Object) []byte {
	size := bundleHead + sha256.Size
	for _, o := range objects {
		size += 2 + len(o.Name) + 2 + len(o.Base) + 4 + 4 + len(o.Data) - o.Prefix + sha256.Size
	}
	b := append(make([]byte, 0, size), bundleMagic...)
	b = append(binary.BigEndian.AppendUint64(b, uint64(before.N)), before.Hash[:]...)
	for _, o := range objects {
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Name)))
		b = append(b, o.Name...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(o.Base)))
		b = append(b, o.Base...)
		b = binary.BigEndian.AppendUint32(b, uint32(o.Prefix))
		b = binary.BigEndian.AppendUint32(b, uint32(len(o.Data)-o.Prefix))
		b = append(b, o.Data[o.Prefix:]...)
		if o.Base != "" {
			sum := sha256.Sum256(o.Data)
			b = append(b, sum[:]...)
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// openBundle checks a bundle, and returns the tree before its round and its
// objects, encoded.
func openBundle(b []byte) (before tlog.Tree, objects []byte, err error) {
	if len(b) < bundleHead+sha256.Size || !bytes.HasPrefix(b, []byte(bundleMagic)) {
		return before, nil, errBundle
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return before, nil, fmt.Errorf("%w: its checksum does not match", errBundle)
	}
	before.N = int64(binary.BigEndian.Uint64(body[len(bundleMagic):]))
	copy(before.Hash[:], body[len(bundleMagic)+8:])
	return before, body[bundleHead:], nil
}

// decodeObjects decodes the objects of a bundle. get returns a base; its errors are
// passed on.
func decodeObjects(s []byte, get func(name string) ([]byte, error)) (objects []storage.Object, err error) {
	for len(s) > 0 {
		o, rest, err := decodeObject(s, get)
		if err != nil {
			return nil, err
		}
		objects, s = append(objects, o), rest
	}
	return objects, nil
}

func decodeObject(s []byte, get func(name string) ([]byte, error)) (o storage.Object, rest []byte, err error) {
	name, s, ok1 := cut(s, 2)
	base, s, ok2 := cut(s, 2)
	if !ok1 || !ok2 || len(s) < 4 {
		return o, nil, errBundle
	}
	prefix := int(binary.BigEndian.Uint32(s))
	data, s, ok := cut(s[4:], 4)
	if !ok {
		return o, nil, errBundle
	}
	o = storage.Object{Name: string(name), Data: data, Base: string(base), Prefix: prefix}
	if k := storage.KindOf(o.Name); !k.Immutable() || k == storage.Staging {
		return o, nil, fmt.Errorf("%w: it holds %q, which no round writes", errBundle, o.Name)
	}
	if o.Base == "" {
		if prefix != 0 {
			return o, nil, errBundle
		}
		return o, s, nil
	}
	if len(s) < sha256.Size || storage.KindOf(o.Base) != storage.KindOf(o.Name) {
		return o, nil, errBundle
	}
	sum, rest := s[:sha256.Size], s[sha256.Size:]
	whole, err := get(o.Base)
	if err != nil {
		return o, nil, fmt.Errorf("reading %s, which %s extends: %w", o.Base, o.Name, err)
	}
	if prefix > len(whole) {
		return o, nil, fmt.Errorf("%w: %s is shorter than what %s has of it", errBundle, o.Base, o.Name)
	}
	o.Data = append(whole[:prefix:prefix], data...)
	if sha256.Sum256(o.Data) != [sha256.Size]byte(sum) {
		return o, nil, fmt.Errorf("%w: %s does not continue %s as it should", errBundle, o.Name, o.Base)
	}
	return o, rest, nil
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
