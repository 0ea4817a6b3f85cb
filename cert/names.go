package cert

import (
	"net/netip"
	"unicode/utf16"
	"unicode/utf8"
)

// subjectMembers are the members of Subject in the names-tiles extension, in
// the order in which they are written.
var subjectMembers = [...]struct{ name, oid string }{
	{"Country", "\x55\x04\x06"},            // 2.5.4.6
	{"Organization", "\x55\x04\x0a"},       // 2.5.4.10
	{"OrganizationalUnit", "\x55\x04\x0b"}, // 2.5.4.11
	{"Locality", "\x55\x04\x07"},           // 2.5.4.7
	{"Province", "\x55\x04\x08"},           // 2.5.4.8
	{"StreetAddress", "\x55\x04\x09"},      // 2.5.4.9
	{"PostalCode", "\x55\x04\x11"},         // 2.5.4.17
}

const oidCommonName = "\x55\x04\x03" // 2.5.4.3

// Tags of the GeneralNames (RFC 5280 section 4.2.1.6) that are listed.
const (
	tagDNSName   = 0x82
	tagIPAddress = 0x87
)

// NamesJSON returns the JSON object of the names-tiles extension, without its
// Timestamp: {"Subject":{...},"DNS":[...],"IP":[...]}, empty members omitted.
//
// It is what encoding/json makes of these members, and always valid JSON in
// valid UTF-8: bytes that are no text become U+FFFD, values of types that are
// no strings and addresses that are none are left out, and what follows after
// a place that cannot be read is, too. Of several common names the last
// counts; of several SubjectAltName extensions all do.
func (c *Certificate) NamesJSON() []byte {
	b := make([]byte, 0, c.namesSize())
	b = append(b, '{')
	b = c.appendSubject(b)
	b = c.appendAltNames(b, "DNS", tagDNSName)
	b = c.appendAltNames(b, "IP", tagIPAddress)
	return append(b, '}')
}

// namesSize guesses the length of the JSON, so that it seldom grows.
func (c *Certificate) namesSize() int {
	size := 64 + len(c.RawSubject)
	c.eachAltName(func(e element) { size += e.end - e.body + 3 })
	return size
}

func (c *Certificate) appendSubject(b []byte) []byte {
	start := len(b)
	b = append(b, `"Subject":{`...)
	empty := len(b)
	for i := range subjectMembers {
		b = c.appendAttributes(b, subjectMembers[i].name, subjectMembers[i].oid)
	}
	var commonName element
	c.eachAttribute(oidCommonName, func(e element) { commonName = e })
	if commonName.end > commonName.body {
		b = appendMember(b, "CommonName")
		b = c.appendText(b, commonName)
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b, '}')
}

// appendAttributes appends the list of the subject's attributes of one type.
func (c *Certificate) appendAttributes(b []byte, name, oid string) []byte {
	first := true
	c.eachAttribute(oid, func(e element) {
		if first {
			b = append(appendMember(b, name), '[')
		} else {
			b = append(b, ',')
		}
		first = false
		b = c.appendText(b, e)
	})
	if first {
		return b
	}
	return append(b, ']')
}

func (c *Certificate) appendAltNames(b []byte, name string, tag byte) []byte {
	first := true
	c.eachAltName(func(e element) {
		var ip netip.Addr
		if e.tag != tag {
			return
		}
		value := c.Raw[e.body:e.end]
		if tag == tagIPAddress {
			var ok bool
			if ip, ok = netip.AddrFromSlice(value); !ok {
				return
			}
		}
		if first {
			b = append(appendMember(b, name), '[')
		} else {
			b = append(b, ',')
		}
		first = false
		if tag == tagIPAddress {
			b = append(b, '"')
			b = append(ip.Unmap().AppendTo(b), '"')
		} else {
			b = appendString(b, value)
		}
	})
	if first {
		return b
	}
	return append(b, ']')
}

// appendMember appends a member's name, after a comma if it is not the first.
func appendMember(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// eachAttribute calls f with the value of each attribute of the subject that
// has the given type and is a string.
func (c *Certificate) eachAttribute(oid string, f func(value element)) {
	b := c.Raw
	rdns := c.lay.subject.cursor()
	var rdn, attribute, typ, value element
	for rdns.readTag(b, tagSet, &rdn) {
		for set := rdn.cursor(); set.readTag(b, tagSequence, &attribute); {
			cur := attribute.cursor()
			if cur.readTag(b, tagOID, &typ) && string(b[typ.body:typ.end]) == oid &&
				cur.read(b, &value) && isText(value.tag) {
				f(value)
			}
		}
	}
}

// eachAltName calls f with each GeneralName of each SubjectAltName extension.
func (c *Certificate) eachAltName(f func(name element)) {
	b := c.Raw
	var x extension
	var names, name element
	for extensions := c.lay.extensions.cursor(); readExtension(b, &extensions, &x); {
		if string(b[x.oid.body:x.oid.end]) != oidSubjectAltName {
			continue
		}
		value := x.value.cursor()
		if !value.readTag(b, tagSequence, &names) {
			continue
		}
		for cur := names.cursor(); cur.read(b, &name); {
			f(name)
		}
	}
}

func isText(tag byte) bool {
	switch tag {
	case tagUTF8String, tagNumericString, tagPrintableString, tagTeletexString, tagIA5String,
		tagVisibleString, tagUniversalString, tagBMPString:
		return true
	}
	return false
}

// appendText appends a string of a name as a JSON string. TeletexString is read
// as ISO 8859-1, which is what CAs have put there.
func (c *Certificate) appendText(b []byte, e element) []byte {
	value := c.Raw[e.body:e.end]
	switch e.tag {
	case tagTeletexString:
		return appendRunes(b, len(value), func(i int) rune { return rune(value[i]) })
	case tagUniversalString:
		return appendRunes(b, len(value)/4, func(i int) rune {
			return rune(value[4*i])<<24 | rune(value[4*i+1])<<16 | rune(value[4*i+2])<<8 | rune(value[4*i+3])
		})
	case tagBMPString:
		return appendBMP(b, value)
	default:
		return appendString(b, value)
	}
}

func appendRunes(b []byte, n int, at func(int) rune) []byte {
	b = append(b, '"')
	for i := range n {
		b = appendRune(b, at(i))
	}
	return append(b, '"')
}

// appendBMP reads UTF-16, since characters beyond the BMP occur.
func appendBMP(b, value []byte) []byte {
	unit := func(i int) rune { return rune(value[i])<<8 | rune(value[i+1]) }
	b = append(b, '"')
	for i := 0; i+1 < len(value); i += 2 {
		r := unit(i)
		if utf16.IsSurrogate(r) && i+3 < len(value) {
			if pair := utf16.DecodeRune(r, unit(i+2)); pair != utf8.RuneError {
				r = pair
				i += 2
			}
		}
		b = appendRune(b, r)
	}
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"

// appendString appends UTF-8 text as a JSON string, escaped the way
// encoding/json does by default. Each octet that is not UTF-8 becomes U+FFFD.
func appendString(b, s []byte) []byte {
	b = append(b, '"')
	start := 0 // of what stands for itself and is yet to be copied
	for i := 0; i < len(s); {
		if isPlain(s[i]) {
			i++
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if size > 1 && r != '\u2028' && r != '\u2029' {
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		b = appendRune(b, r)
		i += size
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// isPlain reports whether an ASCII octet stands for itself in a JSON string.
func isPlain(octet byte) bool {
	return ' ' <= octet && octet < utf8.RuneSelf && octet != '"' && octet != '\\' && octet != '<' && octet != '>' && octet != '&'
}

// appendRune appends one character of a JSON string; U+FFFD for what is none.
func appendRune(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	case '<', '>', '&', '\u2028', '\u2029':
		// Harmless in JSON, but not in HTML or JavaScript around it.
	default:
		if r < 0 || r >= ' ' {
			return utf8.AppendRune(b, r)
		}
	}
	return append(b, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}
