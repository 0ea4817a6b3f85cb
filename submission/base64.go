package submission

import "bytes"

// sextets maps the characters of standard base64 (RFC 4648 section 4) to their
// values, and all others to 0xff.
var sextets = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = byte(i)
	}
	return t
}()

// decodeBase64 decodes padded standard base64 and returns the number of bytes
// written, or in words what is wrong with src. dst must have room for three
// quarters of src; it may be src itself. Unused bits before the padding are
// not looked at, as in encoding/base64.
func decodeBase64(dst, src []byte) (n int, wrong string) {
	if len(src)%4 != 0 {
		return 0, whyNotBase64(src)
	}
	i := 0
	for ; i+4 < len(src); i += 4 { // the last four may hold padding
		s := src[i : i+4 : i+4]
		a, b, c, e := sextets[s[0]], sextets[s[1]], sextets[s[2]], sextets[s[3]]
		if (a|b|c|e)&0xc0 != 0 {
			return 0, whyNotBase64(s)
		}
		d := dst[n : n+3 : n+3]
		d[0], d[1], d[2] = a<<2|b>>4, b<<4|c>>2, c<<6|e
		n += 3
	}
	if i == len(src) {
		return n, ""
	}
	s := src[i : i+4]
	padding := 0
	for padding < 2 && s[3-padding] == '=' {
		padding++
	}
	var v [4]byte
	for j, c := range s[:4-padding] {
		if v[j] = sextets[c]; v[j] == 0xff {
			return 0, whyNotBase64(s)
		}
	}
	n += copy(dst[n:], []byte{v[0]<<2 | v[1]>>4, v[1]<<4 | v[2]>>2, v[2]<<6 | v[3]}[:3-padding])
	return n, ""
}

// whyNotBase64 completes "Element 1 of the chain ...". s is all or a part of
// the text that could not be decoded.
func whyNotBase64(s []byte) string {
	switch {
	case bytes.HasPrefix(s, []byte("----")):
		return "looks like PEM; send the DER bytes in standard base64"
	case bytes.ContainsAny(s, "-_"):
		return "is in URL-safe base64; use the standard alphabet with + and /"
	case len(s)%4 != 0:
		return "is not valid base64: it is cut short or lacks the padding with ="
	}
	return "is not valid base64"
}
