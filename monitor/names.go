package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/tlog"
)

// gzipMagic starts what is compressed (RFC 1952).
var gzipMagic = []byte{0x1f, 0x8b}

// checkNames compares names tile n with the names in the certificates. It
// reports whether the tile is there.
func (c *Checker) checkNames(ctx context.Context, n int64, slots []leafSlot, found Found) (bool, error) {
	t := c.leafTile(tlog.NamesLevel, n)
	b, name, err := readTile(ctx, c.src, t, maxNamesTile)
	if err != nil {
		return false, tell(err, found)
	}
	if bytes.HasPrefix(b, gzipMagic) {
		return true, found(fault(name, "is gzip-compressed but served without Content-Encoding: gzip"))
	}
	for i, s := range slots {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return true, found(fault(name, "ends early").values(fmt.Sprintf("%d lines", i), len(slots)))
		}
		b = rest
		if s.cert == nil { // a fault of it was told
			continue
		}
		if f := compareNames(name, s.leaf, s.cert, line); f != nil {
			if err := found(f); err != nil {
				return true, err
			}
		}
	}
	if len(b) > 0 && name == t.Path() {
		return true, found(fault(name, "goes on after %d lines, with %d bytes", len(slots), len(b)))
	}
	return true, nil
}

// compareNames compares one line. Other logs may write the same content in
// another way, so lines that differ are compared by what they say.
func compareNames(name string, leaf tlog.Leaf, c *cert.Certificate, line []byte) *Fault {
	want := fmt.Appendf(nil, `{"Timestamp":%d`, leaf.Timestamp)
	if names := c.NamesJSON(); len(names) > len("{}") {
		want = append(append(want, ','), names[1:]...)
	} else {
		want = append(want, '}')
	}
	if bytes.Equal(line, want) {
		return nil
	}
	got, err := readNames(line)
	if err != nil {
		return entryFault(name, leaf.Index, "line is not a JSON object of the right form: %v", err)
	}
	if got.Timestamp != leaf.Timestamp {
		return entryFault(name, leaf.Index, "timestamp is not the entry's").values(got.Timestamp, leaf.Timestamp)
	}
	if w, err := readNames(want); err != nil || !reflect.DeepEqual(got, w) {
		return entryFault(name, leaf.Index, "line is not what the certificate says").values(clip(line), clip(want))
	}
	return nil
}

// namesLine is a line of a names tile. Members that are empty may be left out.
type namesLine struct {
	Timestamp int64
	Subject   map[string]any
	DNS, IP   []string
}

func readNames(line []byte) (namesLine, error) {
	var n namesLine
	err := json.Unmarshal(line, &n)
	if len(n.DNS) == 0 {
		n.DNS = nil
	}
	if len(n.IP) == 0 {
		n.IP = nil
	}
	if len(n.Subject) == 0 {
		n.Subject = nil
	}
	return n, err
}

// clip shortens what may be long and comes from others, for an error message.
func clip(b []byte) string {
	const most = 300
	if len(b) > most {
		return fmt.Sprintf("%.*q... (%d bytes)", most, b, len(b))
	}
	return fmt.Sprintf("%q", b)
}
