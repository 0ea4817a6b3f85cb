package submission

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

const (
	// maxBody is the longest request body, 512 KiB.
	maxBody = 512 << 10
	// maxCertificates is the longest chain in a request, leaf and root
	// included. Real ones have up to 5.
	maxCertificates = 100
	// maxDepth is how deep unknown JSON members may nest.
	maxDepth = 64

	// firstRead is what is set aside for a body before any of it has come, so
	// that memory follows the bytes received and not the length announced.
	firstRead = 16 << 10
	// maxPooled is the largest body buffer kept for the next request.
	maxPooled = 128 << 10
)

// scratch is the memory of one request, pooled: the body, decoded in place,
// and the chain's slices into it.
type scratch struct {
	body  []byte
	chain [][]byte
}

var scratches = sync.Pool{New: func() any {
	return &scratch{body: make([]byte, 0, firstRead), chain: make([][]byte, 0, 8)}
}}

func getScratch() *scratch { return scratches.Get().(*scratch) }

func putScratch(s *scratch) {
	if cap(s.body) > maxPooled {
		return
	}
	// The leaf is owned by its entry and must not be kept alive from here.
	clear(s.chain)
	s.body, s.chain = s.body[:0], s.chain[:0]
	scratches.Put(s)
}

// readBody reads the request's body into s.body. It returns errTooLarge for
// one over maxBody, without reading it if its length was announced.
func (s *scratch) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxBody {
		return errTooLarge
	}
	body := http.MaxBytesReader(w, r.Body, maxBody)
	b := s.body[:0]
	defer func() { s.body = b }()
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, new(*http.MaxBytesError)):
			return errTooLarge
		default:
			return errBody
		}
	}
}

// decode reads the chain of an add-chain or add-pre-chain request (RFC 6962
// sections 4.1 and 4.2) from s.body into s.chain. The first element has memory
// of its own, since the entry keeps it; the others alias s.body, which is
// overwritten.
//
// The body is one JSON object. Its member "chain", which must be there once,
// is an array of 1 to maxCertificates strings in padded standard base64, none
// empty; line breaks inside (as escapes) are skipped. Other members are
// ignored. Names are matched exactly, after unescaping.
func (s *scratch) decode() error {
	d := decoder{b: s.body}
	s.chain = s.chain[:0]
	if err := d.request(&s.chain); err != nil {
		return err
	}
	if d.space(); d.i < len(d.b) {
		return refuse(errJSON, "The request body has data after the JSON object, at byte "+strconv.Itoa(d.i)+".")
	}
	return nil
}

// decoder reads JSON (RFC 8259) from b, overwriting what it has read. Strings
// that are not UTF-8 are let pass: none of them is ever used as text.
type decoder struct {
	b []byte
	i int // next byte
}

func (d *decoder) request(chain *[][]byte) error {
	d.space()
	switch {
	case len(d.b) == 0:
		return refuse(errJSON, `The request body is empty; it must be a JSON object such as {"chain":["<base64>"]}.`)
	case d.peek() != '{':
		return refuse(errJSON, `The request body must be a JSON object such as {"chain":["<base64>"]}.`)
	}
	seen := false
	err := d.members(func() error {
		name, _, err := d.text()
		if err != nil {
			return err
		}
		isChain := string(name) == "chain"
		if err := d.colon(); err != nil {
			return err
		}
		if !isChain {
			return d.skip(1)
		}
		if seen {
			return refuse(errJSON, `The request has the member "chain" twice.`)
		}
		seen = true
		return d.chain(chain)
	})
	if err == nil && !seen {
		err = refuse(errJSON, `The request has no member "chain".`)
	}
	return err
}

func (d *decoder) chain(chain *[][]byte) error {
	if d.peek() != '[' {
		return refuse(errJSON, `The member "chain" must be an array of base64 strings.`)
	}
	err := d.elements(func() error {
		n := len(*chain)
		if n == maxCertificates {
			return refuse(errChainLength, "The chain has more than "+strconv.Itoa(maxCertificates)+" certificates.")
		}
		if d.peek() != '"' {
			if err := d.skip(2); err != nil {
				return err
			}
			return refuse(errJSON, "Element "+strconv.Itoa(n)+" of the chain is not a string.")
		}
		text, escaped, err := d.text()
		if err != nil {
			return err
		}
		if escaped {
			text = slices.DeleteFunc(text, func(c byte) bool { return c == '\n' || c == '\r' })
		}
		der := text
		if n == 0 {
			der = make([]byte, len(text)/4*3)
		}
		size, why := decodeBase64(der, text)
		switch {
		case why != "":
			return refuse(errBase64, "Element "+strconv.Itoa(n)+" of the chain "+why+".")
		case size == 0:
			return refuse(errBase64, "Element "+strconv.Itoa(n)+" of the chain is empty.")
		}
		*chain = append(*chain, der[:size:size])
		return nil
	})
	if err == nil && len(*chain) == 0 {
		err = refuse(errChainLength, "The chain is empty.")
	}
	return err
}

func (d *decoder) malformed() error {
	if d.i >= len(d.b) {
		return refuse(errJSON, "The JSON of the request ends early.")
	}
	return refuse(errJSON, "The JSON of the request is malformed at byte "+strconv.Itoa(d.i)+".")
}

// peek returns the next byte, or 0, which never is one that JSON allows.
func (d *decoder) peek() byte {
	if d.i < len(d.b) {
		return d.b[d.i]
	}
	return 0
}

func (d *decoder) space() {
	for d.i < len(d.b) {
		switch d.b[d.i] {
		case ' ', '\t', '\n', '\r':
			d.i++
		default:
			return
		}
	}
}

func (d *decoder) colon() error {
	if d.space(); d.peek() != ':' {
		return d.malformed()
	}
	d.i++
	d.space()
	return nil
}

// members reads an object, with one call of member at the start of each name.
func (d *decoder) members(member func() error) error {
	return d.list('}', func() error {
		if d.peek() != '"' {
			return d.malformed()
		}
		return member()
	})
}

// elements reads an array, with one call of element at the start of each.
func (d *decoder) elements(element func() error) error { return d.list(']', element) }

func (d *decoder) list(end byte, item func() error) error {
	d.i++ // the bracket
	if d.space(); d.peek() == end {
		d.i++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		d.space()
		switch d.peek() {
		case end:
			d.i++
			return nil
		case ',':
			d.i++
			d.space()
		default:
			return d.malformed()
		}
	}
}

// skip reads a value of any type. depth is the number of objects and arrays it
// stands in.
func (d *decoder) skip(depth int) error {
	if depth > maxDepth {
		return refuse(errJSON, "The JSON of the request nests more than "+strconv.Itoa(maxDepth)+" levels deep.")
	}
	switch d.peek() {
	case '{':
		return d.members(func() error {
			if _, _, err := d.text(); err != nil {
				return err
			}
			if err := d.colon(); err != nil {
				return err
			}
			return d.skip(depth + 1)
		})
	case '[':
		return d.elements(func() error { return d.skip(depth + 1) })
	case '"':
		_, _, err := d.text()
		return err
	case 't':
		return d.literal("true")
	case 'f':
		return d.literal("false")
	case 'n':
		return d.literal("null")
	default:
		return d.number()
	}
}

func (d *decoder) literal(s string) error {
	for i := range len(s) {
		if d.peek() != s[i] {
			return d.malformed()
		}
		d.i++
	}
	return nil
}

func (d *decoder) number() error {
	if d.peek() == '-' {
		d.i++
	}
	if d.peek() == '0' {
		d.i++
	} else if !d.digits() {
		return d.malformed()
	}
	if d.peek() == '.' {
		if d.i++; !d.digits() {
			return d.malformed()
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.i++
		if c := d.peek(); c == '+' || c == '-' {
			d.i++
		}
		if !d.digits() {
			return d.malformed()
		}
	}
	return nil
}

func (d *decoder) digits() bool {
	start := d.i
	for c := d.peek(); '0' <= c && c <= '9'; c = d.peek() {
		d.i++
	}
	return d.i > start
}

// text reads a string and returns its content, unescaped in place, and whether
// there was anything to unescape.
func (d *decoder) text() (s []byte, escaped bool, err error) {
	d.i++ // the quote
	start := d.i
	n := bytes.IndexByte(d.b[start:], '"')
	if n < 0 {
		d.i = len(d.b)
		return nil, false, d.malformed()
	}
	s = d.b[start : start+n]
	if bytes.IndexByte(s, '\\') >= 0 {
		s, err = d.escapedText()
		return s, true, err
	}
	for i, c := range s {
		if c < ' ' {
			d.i = start + i
			return nil, false, d.malformed()
		}
	}
	d.i = start + n + 1
	return s, false, nil
}

func (d *decoder) escapedText() ([]byte, error) {
	out := d.b[d.i:d.i]
	for {
		c := d.peek()
		switch {
		case c < ' ':
			return nil, d.malformed()
		case c == '"':
			d.i++
			return out, nil
		case c != '\\':
			d.i++
			out = append(out, c)
			continue
		}
		d.i++
		r, ok := d.escape()
		if !ok {
			return nil, d.malformed()
		}
		// Beyond ASCII nothing is compared or decoded: one byte that matches
		// nothing stands for the character.
		out = append(out, byte(min(r, 0xff)))
	}
}

// escape reads the rest of an escape sequence, after its backslash. Each half
// of a surrogate pair counts as a character.
func (d *decoder) escape() (r rune, ok bool) {
	c := d.peek()
	if c != 'u' {
		const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		i := bytes.IndexByte([]byte(from), c)
		if i < 0 {
			return 0, false
		}
		d.i++
		return rune(to[i]), true
	}
	for range 4 {
		d.i++
		switch c := d.peek(); {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	d.i++
	return r, true
}
