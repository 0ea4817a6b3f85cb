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
	altNames := c.lay.san.end - c.lay.san.body
	b := make([]byte, 0, 64+len(c.RawSubject)+altNames+altNames/8)
	b = append(b, '{')
	b = c.appendSubject(b)
	b = c.appendAltNames(b)
	return append(b, '}')
}

// list is a JSON array that grows, and is left out while it is empty.
type list struct {
	name string
	used bool
}

func (l *list) next(b []byte) []byte {
	if l.used {
		return append(b, ',')
	}
	l.used = true
	return append(appendMember(b, l.name), '[')
}

func (l *list) close(b []byte) []byte {
	if l.used {
		return append(b, ']')
	}
	return b
}

func (c *Certificate) appendSubject(b []byte) []byte {
	var present [len(subjectMembers)]bool
	var commonName element
	c.eachAttribute(func(oid []byte, value element) {
		for i := range subjectMembers {
			if string(oid) == subjectMembers[i].oid {
				present[i] = true
			}
		}
		if string(oid) == oidCommonName {
			commonName = value
		}
	})
	start := len(b)
	b = append(b, `"Subject":{`...)
	empty := len(b)
	for i, member := range subjectMembers {
		if !present[i] {
			continue
		}
		values := list{name: member.name}
		c.eachAttribute(func(oid []byte, value element) {
			if string(oid) == member.oid {
				b = c.appendText(values.next(b), value)
			}
		})
		b = values.close(b)
	}
	if commonName.end > commonName.body {
		b = c.appendText(appendMember(b, "CommonName"), commonName)
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b, '}')
}

func (c *Certificate) appendAltNames(b []byte) []byte {
	dns, ips := list{name: "DNS"}, list{name: "IP"}
	hasIP := false
	c.eachAltName(func(name element) {
		switch name.tag {
		case tagDNSName:
			b = appendString(dns.next(b), c.Raw[name.body:name.end])
		case tagIPAddress:
			hasIP = true
		}
	})
	b = dns.close(b)
	if !hasIP {
		return b
	}
	c.eachAltName(func(name element) {
		if name.tag != tagIPAddress {
			return
		}
		if ip, ok := netip.AddrFromSlice(c.Raw[name.body:name.end]); ok {
			b = append(ips.next(b), '"')
			b = append(ip.Unmap().AppendTo(b), '"')
		}
	})
	return ips.close(b)
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

// eachAttribute calls f with type and value of each attribute of the subject
// whose value is a string.
func (c *Certificate) eachAttribute(f func(oid []byte, value element)) {
	b := c.Raw
	rdns := c.lay.subject.cursor()
	var rdn, attribute, oid, value element
	for rdns.readTag(b, tagSet, &rdn) {
		for set := rdn.cursor(); set.readTag(b, tagSequence, &attribute); {
			cur := attribute.cursor()
			if cur.readTag(b, tagOID, &oid) && cur.read(b, &value) && isText(value.tag) {
				f(b[oid.body:oid.end], value)
			}
		}
	}
}

// eachAltName calls f with each GeneralName of each SubjectAltName extension.
func (c *Certificate) eachAltName(f func(name element)) {
	if c.lay.sans <= 1 {
		c.eachGeneralName(c.lay.san, f)
		return
	}
	var x extension
	for extensions := c.lay.extensions.cursor(); readExtension(c.Raw, &extensions, &x); {
		if string(c.Raw[x.oid.body:x.oid.end]) == oidSubjectAltName {
			c.eachGeneralName(x.value, f)
		}
	}
}

func (c *Certificate) eachGeneralName(san element, f func(name element)) {
	var names, name element
	value := san.cursor()
	if !value.readTag(c.Raw, tagSequence, &names) {
		return
	}
	for cur := names.cursor(); cur.read(c.Raw, &name); {
		f(name)
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

// appendText appends a string of a name as a JSON string. Of the types with one
// octet a character only UTF8String says which characters it means; the others
// hold, as CAs have used them, UTF-8 or ISO 8859-1.
func (c *Certificate) appendText(b []byte, e element) []byte {
	value := c.Raw[e.body:e.end]
	switch e.tag {
	case tagUTF8String:
		return appendString(b, value)
	case tagUniversalString:
		return appendRunes(b, len(value)/4, func(i int) rune {
			return rune(value[4*i])<<24 | rune(value[4*i+1])<<16 | rune(value[4*i+2])<<8 | rune(value[4*i+3])
		})
	case tagBMPString:
		return appendBMP(b, value)
	}
	if utf8.Valid(value) {
		return appendString(b, value)
	}
	return appendRunes(b, len(value), func(i int) rune { return rune(value[i]) })
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
