package cert

// Tags of the ASN.1 elements that are looked for.
const (
	tagBoolean         = 0x01
	tagInteger         = 0x02
	tagBitString       = 0x03
	tagOctetString     = 0x04
	tagNull            = 0x05
	tagOID             = 0x06
	tagUTF8String      = 0x0c
	tagNumericString   = 0x12
	tagPrintableString = 0x13
	tagTeletexString   = 0x14
	tagIA5String       = 0x16
	tagUTCTime         = 0x17
	tagGeneralizedTime = 0x18
	tagVisibleString   = 0x1a
	tagUniversalString = 0x1c
	tagBMPString       = 0x1e
	tagSequence        = 0x30
	tagSet             = 0x31
)

// maxLengthOctets bounds the long form of lengths. Four octets are enough for
// any certificate an entry can hold.
const maxLengthOctets = 4

// element is where an ASN.1 element stands: its header at start, its content
// at [body, end). The zero element, which is empty, has tag zero.
type element struct {
	start, body, end int
	tag              byte
	// minimal says that the length is as short as DER wants it. Longer ones
	// are read, too, as they occur inside signed bytes.
	minimal bool
}

func (e element) cursor() cursor { return cursor{pos: e.body, end: e.end} }

// cursor walks over consecutive elements in [pos, end) of some bytes.
type cursor struct{ pos, end int }

func (c *cursor) empty() bool { return c.pos == c.end }

// read reads the next element. It reports false, without moving, if there is
// none, it does not fit, its length is indefinite or its tag takes several
// octets (which nothing in a certificate that we look at has).
func (c *cursor) read(b []byte, e *element) bool {
	if c.end-c.pos < 2 {
		return false
	}
	tag, length := b[c.pos], int(b[c.pos+1])
	body, minimal := c.pos+2, true
	if tag&0x1f == 0x1f {
		return false
	}
	if length >= 0x80 {
		n := length - 0x80
		if n == 0 || n > maxLengthOctets || n > c.end-body {
			return false
		}
		length = 0
		for _, octet := range b[body : body+n] {
			length = length<<8 | int(octet)
		}
		minimal = length >= 0x80 && b[body] != 0
		body += n
	}
	if length < 0 || length > c.end-body {
		return false
	}
	*e = element{start: c.pos, body: body, end: body + length, tag: tag, minimal: minimal}
	c.pos = e.end
	return true
}

// readTag is read for an element that must have the given tag.
func (c *cursor) readTag(b []byte, tag byte, e *element) bool {
	return c.peek(b) == tag && c.read(b, e)
}

// peek returns the next element's tag, zero at the end.
func (c *cursor) peek(b []byte) byte {
	if c.empty() {
		return 0
	}
	return b[c.pos]
}

// whole reads b as one element with the given tag and nothing after it.
func whole(b []byte, tag byte, e *element) bool {
	c := cursor{end: len(b)}
	return c.readTag(b, tag, e) && c.empty()
}

// headerSize returns the size of a DER header for content of n bytes.
func headerSize(n int) int {
	size := 2
	if n >= 0x80 {
		for ; n > 0; n >>= 8 {
			size++
		}
	}
	return size
}

// appendHeader appends a DER header.
func appendHeader(b []byte, tag byte, n int) []byte {
	b = append(b, tag)
	if n < 0x80 {
		return append(b, byte(n))
	}
	octets := headerSize(n) - 2
	b = append(b, 0x80|byte(octets))
	for i := octets - 1; i >= 0; i-- {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}
