package conformance

import (
	"bytes"
	"encoding/asn1"
	"errors"
)

// The tags that certificates are made of.
const (
	tagBoolean    = 0x01
	tagInteger    = 0x02
	tagBitString  = 0x03
	tagOctets     = 0x04
	tagNull       = 0x05
	tagOID        = 0x06
	tagUTF8       = 0x0c
	tagPrintable  = 0x13
	tagUTCTime    = 0x17
	tagTime       = 0x18
	tagSequence   = 0x30
	tagSet        = 0x31
	tagVersion    = 0xa0 // [0] in a TBSCertificate
	tagExtensions = 0xa3 // [3]
)

var errDER = errors.New("not DER")

// element is a DER element: its tag, all its bytes and those of its content.
type element struct {
	tag          byte
	raw, content []byte
}

// readElement reads the first element of b. Lengths that are longer than they
// need to be are taken, since what is read may be any log's entry.
func readElement(b []byte) (e element, rest []byte, err error) {
	if len(b) < 2 || b[0]&0x1f == 0x1f {
		return e, nil, errDER
	}
	length, header := int(b[1]), 2
	if length >= 0x80 {
		n := length & 0x7f
		if n == 0 || n > 4 || len(b) < 2+n {
			return e, nil, errDER
		}
		length = 0
		for _, c := range b[2 : 2+n] {
			length = length<<8 | int(c)
		}
		header += n
	}
	if length > len(b)-header {
		return e, nil, errDER
	}
	end := header + length
	return element{tag: b[0], raw: b[:end:end], content: b[header:end:end]}, b[end:], nil
}

// readAll reads the elements that b consists of.
func readAll(b []byte) (list []element, err error) {
	for len(b) > 0 {
		var e element
		if e, b, err = readElement(b); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// readOne reads the one element that b is, which must have the tag.
func readOne(b []byte, tag byte) (element, error) {
	e, rest, err := readElement(b)
	if err == nil && (e.tag != tag || len(rest) > 0) {
		err = errDER
	}
	return e, err
}

// der encodes an element.
func der(tag byte, contents ...[]byte) []byte {
	content := bytes.Join(contents, nil)
	n := len(content)
	var b []byte
	switch {
	case n < 0x80:
		b = []byte{tag, byte(n)}
	case n < 1<<8:
		b = []byte{tag, 0x81, byte(n)}
	case n < 1<<16:
		b = []byte{tag, 0x82, byte(n >> 8), byte(n)}
	default:
		b = []byte{tag, 0x83, byte(n >> 16), byte(n >> 8), byte(n)}
	}
	return append(b, content...)
}

func sequence(contents ...[]byte) []byte { return der(tagSequence, contents...) }

// oid encodes an object identifier.
func oid(arcs ...int) []byte {
	b, err := asn1.Marshal(asn1.ObjectIdentifier(arcs))
	if err != nil {
		panic(err) // all of them stand in this package
	}
	return b
}

// bitString encodes a BIT STRING with a number of unused bits at its end.
func bitString(unused byte, b []byte) []byte { return der(tagBitString, []byte{unused}, b) }

// The object identifiers that certificates in a log are judged by.
var (
	oidPoison     = oid(1, 3, 6, 1, 4, 1, 11129, 2, 4, 3)
	oidSCTList    = oid(1, 3, 6, 1, 4, 1, 11129, 2, 4, 2)
	oidPreSigning = oid(1, 3, 6, 1, 4, 1, 11129, 2, 4, 4)
	oidServerAuth = oid(1, 3, 6, 1, 5, 5, 7, 3, 1)
	oidClientAuth = oid(1, 3, 6, 1, 5, 5, 7, 3, 2)
	oidAnyEKU     = oid(2, 5, 29, 37, 0)
	oidSKI        = oid(2, 5, 29, 14)
	oidKeyUsage   = oid(2, 5, 29, 15)
	oidSAN        = oid(2, 5, 29, 17)
	oidBasic      = oid(2, 5, 29, 19)
	oidNames      = oid(2, 5, 29, 30)
	oidAKI        = oid(2, 5, 29, 35)
	oidEKU        = oid(2, 5, 29, 37)
	oidAIA        = oid(1, 3, 6, 1, 5, 5, 7, 1, 1)
	oidCommonName = oid(2, 5, 4, 3)
	oidUniqueID   = oid(2, 5, 4, 45)
)
