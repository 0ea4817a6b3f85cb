package cert

import "bytes"

// Object identifiers as they are encoded, without their header.
const (
	oidSubjectKeyID     = "\x55\x1d\x0e"                             // 2.5.29.14
	oidKeyUsage         = "\x55\x1d\x0f"                             // 2.5.29.15
	oidSubjectAltName   = "\x55\x1d\x11"                             // 2.5.29.17
	oidBasicConstraints = "\x55\x1d\x13"                             // 2.5.29.19
	oidAuthorityKeyID   = "\x55\x1d\x23"                             // 2.5.29.35
	oidExtKeyUsage      = "\x55\x1d\x25"                             // 2.5.29.37
	oidAnyExtKeyUsage   = "\x55\x1d\x25\x00"                         // 2.5.29.37.0
	oidServerAuth       = "\x2b\x06\x01\x05\x05\x07\x03\x01"         // 1.3.6.1.5.5.7.3.1
	oidSCTList          = "\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x02" // 1.3.6.1.4.1.11129.2.4.2
	oidPoison           = "\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x03" // 1.3.6.1.4.1.11129.2.4.3
	oidPrecertSigning   = "\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x04" // 1.3.6.1.4.1.11129.2.4.4
)

// extension is one Extension (RFC 5280 section 4.1). Elements after the value
// are tolerated, as other parsers do.
type extension struct {
	whole, oid, value element
	critical          bool // BER: any octet but zero is TRUE
	trailing          bool // there is something after the value
}

func readExtension(der []byte, cur *cursor, x *extension) bool {
	if !cur.readTag(der, tagSequence, &x.whole) {
		return false
	}
	in := x.whole.cursor()
	if !in.readTag(der, tagOID, &x.oid) {
		return false
	}
	x.critical = false
	if in.peek(der) == tagBoolean {
		var e element
		if !in.read(der, &e) {
			return false
		}
		x.critical = e.end-e.body == 1 && der[e.body] != 0
	}
	if !in.readTag(der, tagOctetString, &x.value) {
		return false
	}
	x.trailing = !in.empty()
	return true
}

func (c *Certificate) parseExtensions() error {
	der, cur := c.Raw, c.lay.explicit.cursor()
	if !cur.readTag(der, tagSequence, &c.lay.extensions) || !cur.empty() {
		return malformed("the extensions are not one SEQUENCE")
	}
	cur = c.lay.extensions.cursor()
	hasSCTList := false
	for !cur.empty() {
		var x extension
		if !readExtension(der, &cur, &x) {
			return malformed("an extension is not a SEQUENCE of OBJECT IDENTIFIER, BOOLEAN and OCTET STRING")
		}
		c.lay.count++
		value := der[x.value.body:x.value.end]
		switch string(der[x.oid.body:x.oid.end]) {
		case oidPoison:
			c.notePoison(&x)
		case oidSCTList:
			hasSCTList = true
		case oidBasicConstraints:
			isCA := readBasicConstraints(value)
			c.IsCA = isCA && (c.IsCA || !c.HasBasicConstraints)
			c.HasBasicConstraints = true
		case oidKeyUsage:
			certSign := readKeyCertSign(value)
			c.KeyCertSign = certSign && (c.KeyCertSign || !c.HasKeyUsage)
			c.HasKeyUsage = true
		case oidExtKeyUsage:
			c.HasEKU = true
			c.readExtKeyUsage(value)
		case oidAuthorityKeyID:
			if c.lay.akis == 0 {
				c.lay.akiExtension, c.lay.aki = x.whole, x.value
			}
			c.lay.akis++
		case oidSubjectAltName:
			if c.lay.sans == 0 {
				c.lay.san = x.value
			}
			c.lay.sans++
		case oidSubjectKeyID:
			if c.lay.ski.tag == 0 {
				c.lay.ski = x.value
			}
		}
	}
	c.HasSCTList = hasSCTList && c.Poison == NoPoison
	return nil
}

// notePoison judges a poison extension by RFC 6962 section 3.1: critical, and
// its value is NULL (05 00).
func (c *Certificate) notePoison(x *extension) {
	c.lay.poisons++
	switch {
	case c.lay.poisons > 1:
		c.lay.poisonProblem = "the poison extension is there more than once"
	case !x.critical:
		c.lay.poisonProblem = "the poison extension is not critical"
	case !bytes.Equal(c.Raw[x.value.body:x.value.end], []byte{tagNull, 0}):
		c.lay.poisonProblem = "the value of the poison extension is not NULL (05 00)"
	case x.trailing:
		c.lay.poisonProblem = "the poison extension has elements after its value"
	}
	c.lay.poison = x.whole
	c.Poison = ValidPoison
	if c.lay.poisonProblem != "" {
		c.Poison = InvalidPoison
	}
}

// readBasicConstraints reports whether the value is a BasicConstraints with cA
// TRUE.
func readBasicConstraints(value []byte) bool {
	var seq, e element
	if !whole(value, tagSequence, &seq) {
		return false
	}
	cur := seq.cursor()
	return cur.readTag(value, tagBoolean, &e) && e.end-e.body == 1 && value[e.body] != 0
}

// readKeyCertSign reports whether the value is a KeyUsage with keyCertSign,
// bit 5.
func readKeyCertSign(value []byte) bool {
	var e element
	if !whole(value, tagBitString, &e) || e.end-e.body < 2 {
		return false
	}
	unused := value[e.body]
	if unused > 7 {
		return false
	}
	const keyCertSign = 0x80 >> 5
	octet := value[e.body+1]
	if e.end-e.body == 2 {
		octet &= 0xff << unused
	}
	return octet&keyCertSign != 0
}

// readExtKeyUsage notes the purposes that can be read.
func (c *Certificate) readExtKeyUsage(value []byte) {
	var seq, e element
	if cur := (cursor{end: len(value)}); !cur.readTag(value, tagSequence, &seq) {
		return
	}
	for cur := seq.cursor(); cur.read(value, &e); {
		if e.tag != tagOID {
			continue
		}
		switch string(value[e.body:e.end]) {
		case oidServerAuth:
			c.ServerAuth, c.AnyEKUOnly = true, false
		case oidAnyExtKeyUsage:
			c.AnyEKUOnly = !c.ServerAuth || c.AnyEKUOnly
			c.ServerAuth = true
		case oidPrecertSigning:
			c.PrecertSigning = true
		}
	}
}
