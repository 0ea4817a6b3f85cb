package submission

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

func decode(body string) ([][]byte, error) {
	s := &scratch{body: []byte(body)}
	err := s.decode()
	return s.chain, err
}

// TestDecodeAccepts: what RFC 8259 allows is understood, and RFC 6962 section 4
// has unknown fields ignored.
func TestDecodeAccepts(t *testing.T) {
	nest := func(n int) string {
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	}
	for name, body := range map[string]string{
		"plain":                  `{"chain":["AAEC","/+8="]}`,
		"whitespace":             " \t\r\n{ \"chain\" :\n[ \"AAEC\" ,\t\"/+8=\" ] } \r\n",
		"escaped slash":          `{"chain":["AAEC","\/+8="]}`,
		"unicode escapes":        `{"chain":["\u0041A\u0045C","\u002f\u002B8\u003D"]}`,
		"escaped name":           `{"\u0063hai\u006E":["AAEC","/+8="]}`,
		"line breaks":            `{"chain":["AA\nEC\n","/+\r\n8=\r\n"]}`,
		"unknown before":         `{"x":{"chain":null,"y":[1,{"chain":["AA"]}]},"chain":["AAEC","/+8="]}`,
		"unknown after":          `{"chain":["AAEC","/+8="],"x":"\"\\\/\b\f\n\r\t\u12aB","y":[true,false,null,{}]}`,
		"unknown twice":          `{"x":1,"x":2,"chain":["AAEC","/+8="]}`,
		"numbers":                `{"x":[0,-0,10,1.5,-1e5,1E+5,0.1e-7,123456789012345678901234567890],"chain":["AAEC","/+8="]}`,
		"other case":             `{"Chain":["AAAA"],"CHAIN":5,"chain":["AAEC","/+8="]}`,
		"other name":             `{"chain\n":1,"\nchain":2,"chain\u0000":3,"chai":4,"":5,"chain":["AAEC","/+8="]}`,
		"not UTF-8 elsewhere":    "{\"\xff\":\"\xc0\x80\",\"chain\":[\"AAEC\",\"/+8=\"]}",
		"lone surrogate":         `{"x":"\ud800","chain":["AAEC","/+8="]}`,
		"as deep as is allowed":  `{"x":` + nest(maxDepth) + `,"chain":["AAEC","/+8="]}`,
		"spare bits not zero":    `{"chain":["AAEC","/+9="]}`,
		"key that is a long one": `{"` + strings.Repeat("k", 10000) + `":0,"chain":["AAEC","/+8="]}`,
	} {
		chain, err := decode(body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := [][]byte{{0, 1, 2}, {0xff, 0xef}}; len(chain) != 2 || !bytes.Equal(chain[0], want[0]) || !bytes.Equal(chain[1], want[1]) {
			t.Errorf("%s: chain is %x, want %x", name, chain, want)
		}
	}
}

// TestDecodeRefuses covers the odd bodies that other logs met.
func TestDecodeRefuses(t *testing.T) {
	long := func(n int) string {
		return `{"chain":["AAEC"` + strings.Repeat(`,"AAEC"`, n-1) + `]}`
	}
	for _, c := range []struct {
		name, body string
		reason     error
		says       string
	}{
		{"empty", ``, errJSON, "body is empty"},
		{"blank", " \n", errJSON, "must be a JSON object"},
		{"not JSON", `chain=AAEC`, errJSON, "must be a JSON object"},
		{"byte order mark", "\ufeff{}", errJSON, "must be a JSON object"},
		{"array", `[]`, errJSON, "must be a JSON object"},
		{"null", `null`, errJSON, "must be a JSON object"},
		{"string", `"AAEC"`, errJSON, "must be a JSON object"},
		{"no chain", `{}`, errJSON, `no member "chain"`},
		{"other case only", `{"Chain":["AAEC"]}`, errJSON, `no member "chain"`},
		{"chain null", `{"chain":null}`, errJSON, "must be an array"},
		{"chain string", `{"chain":"AAEC"}`, errJSON, "must be an array"},
		{"chain object", `{"chain":{"0":"AAEC"}}`, errJSON, "must be an array"},
		{"chain number", `{"chain":1}`, errJSON, "must be an array"},
		{"chain empty", `{"chain":[]}`, errChainLength, "is empty"},
		{"element null", `{"chain":[null]}`, errJSON, "Element 0 of the chain is not a string"},
		{"element number", `{"chain":["AAEC",5]}`, errJSON, "Element 1 of the chain is not a string"},
		{"element array", `{"chain":["AAEC",["AAEC"]]}`, errJSON, "Element 1 of the chain is not a string"},
		{"element object", `{"chain":[{"a":[1]}]}`, errJSON, "Element 0 of the chain is not a string"},
		{"element malformed", `{"chain":[nul]}`, errJSON, "malformed at byte 13"},
		{"element empty", `{"chain":[""]}`, errBase64, "Element 0 of the chain is empty"},
		{"second element empty", `{"chain":["AAEC",""]}`, errBase64, "Element 1 of the chain is empty"},
		{"element of line breaks", `{"chain":["\n\r\n"]}`, errBase64, "Element 0 of the chain is empty"},
		{"not base64", `{"chain":["AA*C"]}`, errBase64, "is not valid base64"},
		{"not base64 at the end", `{"chain":["AAECAAE*"]}`, errBase64, "is not valid base64"},
		{"blank inside", `{"chain":["AA C"]}`, errBase64, "is not valid base64"},
		{"not ASCII", `{"chain":["AAé="]}`, errBase64, "is not valid base64"},
		{"escape beyond ASCII", `{"chain":["AA\u0141C"]}`, errBase64, "is not valid base64"},
		{"URL-safe minus", `{"chain":["AA-C"]}`, errBase64, "URL-safe"},
		{"URL-safe underscore", `{"chain":["AAAA","AAAAAA_C"]}`, errBase64, "URL-safe"},
		{"URL-safe without padding", `{"chain":["_-8"]}`, errBase64, "URL-safe"},
		{"no padding", `{"chain":["/+8"]}`, errBase64, "padding"},
		{"cut short", `{"chain":["AAECA"]}`, errBase64, "cut short"},
		{"padding inside", `{"chain":["/+8=AAEC"]}`, errBase64, "is not valid base64"},
		{"padding before the end", `{"chain":["AA=C"]}`, errBase64, "is not valid base64"},
		{"too much padding", `{"chain":["A==="]}`, errBase64, "is not valid base64"},
		{"padding only", `{"chain":["===="]}`, errBase64, "is not valid base64"},
		{"PEM", `{"chain":["-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"]}`, errBase64, "PEM"},
		{"chain twice", `{"chain":["AAEC"],"chain":["AAEC"]}`, errJSON, "twice"},
		{"chain twice, escaped", `{"chain":["AAEC"],"\u0063hain":null}`, errJSON, "twice"},
		{"data after", `{"chain":["AAEC"]}x`, errJSON, "after the JSON object, at byte 18"},
		{"object after", `{"chain":["AAEC"]} {}`, errJSON, "after the JSON object"},
		{"NUL after", "{\"chain\":[\"AAEC\"]}\x00", errJSON, "after the JSON object"},
		{"ends early", `{"chain":["AAEC"]`, errJSON, "ends early"},
		{"ends in a string", `{"chain":["AAEC`, errJSON, "ends early"},
		{"ends in an escape", `{"chain":["AAEC\`, errJSON, "ends early"},
		{"ends in an escaped string", `{"chain":["AA\/C`, errJSON, "ends early"},
		{"ends in a name", `{"cha`, errJSON, "ends early"},
		{"comma before the end", `{"chain":["AAEC",]}`, errJSON, "malformed at byte 17"},
		{"comma after the chain", `{"chain":["AAEC"],}`, errJSON, "malformed at byte 18"},
		{"comma first", `{"chain":[,"AAEC"]}`, errJSON, "malformed"},
		{"no comma", `{"chain":["AAEC" "AAEC"]}`, errJSON, "malformed at byte 17"},
		{"no colon", `{"chain" ["AAEC"]}`, errJSON, "malformed at byte 9"},
		{"name without quotes", `{chain:["AAEC"]}`, errJSON, "malformed at byte 1"},
		{"single quotes", `{'chain':['AAEC']}`, errJSON, "malformed at byte 1"},
		{"line break in a string", "{\"chain\":[\"AA\nEC\"]}", errJSON, "malformed at byte 13"},
		{"control in an escaped string", "{\"chain\":[\"AA\\/\x01EC\"]}", errJSON, "malformed"},
		{"control in an unknown string", "{\"x\":\"\x1f\",\"chain\":[\"AAEC\"]}", errJSON, "malformed"},
		{"unknown escape", `{"x":"\x41","chain":["AAEC"]}`, errJSON, "malformed"},
		{"short escape", `{"x":"\u12","chain":["AAEC"]}`, errJSON, "malformed"},
		{"leading zero", `{"x":01,"chain":["AAEC"]}`, errJSON, "malformed"},
		{"plus sign", `{"x":+1,"chain":["AAEC"]}`, errJSON, "malformed"},
		{"bare minus", `{"x":-,"chain":["AAEC"]}`, errJSON, "malformed"},
		{"no fraction", `{"x":1.,"chain":["AAEC"]}`, errJSON, "malformed"},
		{"no exponent", `{"x":1e,"chain":["AAEC"]}`, errJSON, "malformed"},
		{"wrong literal", `{"x":True,"chain":["AAEC"]}`, errJSON, "malformed"},
		{"comment", `{/**/"chain":["AAEC"]}`, errJSON, "malformed"},
		{"100 kB of arrays", `{"x":` + strings.Repeat("[", 100000), errJSON, "nests more than"},
		{"100 kB of arrays in the chain", `{"chain":` + strings.Repeat("[", 100000), errJSON, "nests more than"},
		{"100 kB of objects", `{"x":` + strings.Repeat(`{"x":`, 20000), errJSON, "nests more than"},
		{"one level too deep", `{"x":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `,"chain":["AAEC"]}`, errJSON, "nests more than"},
		{"too long", long(maxCertificates + 1), errChainLength, "more than 100"},
	} {
		_, err := decode(c.body)
		if !errors.Is(err, c.reason) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: error %v, want %q (%v)", c.name, err, c.says, c.reason)
			continue
		}
		checkSentence(t, c.name, err.Error()+"\n")
	}
	if chain, err := decode(long(maxCertificates)); err != nil || len(chain) != maxCertificates {
		t.Errorf("a chain of %d: %d certificates, %v", maxCertificates, len(chain), err)
	}
}

// TestDecodeLeafIsOwned: the entry keeps the leaf, so it must not change when
// the buffer serves the next request.
func TestDecodeLeafIsOwned(t *testing.T) {
	s := &scratch{body: []byte(`{"chain":["AAE=","/+8="]}`)}
	if err := s.decode(); err != nil {
		t.Fatal(err)
	}
	leaf := s.chain[0]
	clear(s.body[:cap(s.body)])
	if !bytes.Equal(leaf, []byte{0, 1}) {
		t.Errorf("the leaf became %x with its buffer", leaf)
	}
	if n := cap(leaf); n > len(leaf) {
		t.Errorf("the leaf can be appended to: cap %d, len %d", n, len(leaf))
	}
}

// TestBase64 compares with encoding/base64 at every length around the ends.
func TestBase64(t *testing.T) {
	src := make([]byte, 64)
	for i := range src {
		src[i] = byte(i*37 + 11)
	}
	for n := range len(src) {
		text := []byte(base64.StdEncoding.EncodeToString(src[:n]))
		got, why := decodeBase64(text, text)
		if why != "" || !bytes.Equal(text[:got], src[:n]) {
			t.Errorf("length %d: %x %q, want %x", n, text[:got], why, src[:n])
		}
	}
}

func readBody(r *http.Request) ([]byte, error) {
	s := &scratch{}
	err := s.readBody(httptest.NewRecorder(), r)
	return s.body, err
}

func TestReadBody(t *testing.T) {
	request := func(body io.Reader, length int64) *http.Request {
		r := httptest.NewRequest("POST", "/", body)
		r.ContentLength = length
		return r
	}
	full := bytes.Repeat([]byte("x"), maxBody)
	for _, length := range []int64{-1, maxBody, 5} {
		got, err := readBody(request(iotest.HalfReader(bytes.NewReader(full)), length))
		if err != nil || !bytes.Equal(got, full) {
			t.Errorf("%d bytes, announced as %d: %d, %v", maxBody, length, len(got), err)
		}
	}
	if _, err := readBody(request(bytes.NewReader(append(full, 'x')), -1)); !errors.Is(err, errTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := readBody(request(iotest.ErrReader(errors.New("was read")), maxBody+1)); !errors.Is(err, errTooLarge) {
		t.Errorf("a large body that was announced: %v, want it not read", err)
	}
	if _, err := readBody(request(iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(full))), -1)); !errors.Is(err, errBody) {
		t.Errorf("a body that breaks off: %v", err)
	}
}

// referenceDecode is decode by encoding/json, with the rules that it has no
// words for added.
func referenceDecode(body []byte) (chain [][]byte, ok bool) {
	if !json.Valid(body) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return nil, false
	}
	seen := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		if name != "chain" {
			continue
		}
		var elements []json.RawMessage
		if seen || value[0] != '[' || json.Unmarshal(value, &elements) != nil {
			return nil, false
		}
		seen = true
		for _, e := range elements {
			var der []byte
			if e[0] != '"' || json.Unmarshal(e, &der) != nil || len(der) == 0 {
				return nil, false
			}
			chain = append(chain, der)
		}
	}
	return chain, len(chain) > 0 && len(chain) <= maxCertificates
}

// depth is how deep the brackets of valid JSON nest.
func depth(body []byte) (deepest int) {
	n, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			n++
			deepest = max(deepest, n)
		case c == '}' || c == ']':
			n--
		}
	}
	return deepest
}

// FuzzDecodeRequest: decode accepts what encoding/json accepts, with the same
// bytes, but for deep nesting.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"chain":["AAEC","/+8="]}`, ` {"x":[{"y":-1.5e+7}],"chain":["\/+8\u003d","AA\nEC"],"z":null} `,
		`{"chain":["AAEC"],"chain":["AAEC"]}`, `{"chain":[""]}`, `{"chain":[null]}`, `{"chain":["AA=="]}`,
		`{"\u0063hain":["AAE="]}`, `{"chain":["A-_="]}`, "{\"\xff\":\"\x7f\",\"chain\":[\"AAEC\"]}", `[]`, `{"x":[[[]]]}`,
		`{"chain":["AAEC"]}}`, `{"chain":["AAEC",]}`, `{"x":"\ud83d\ude00\ud800","chain":["AAEC"]}`, `{"Chain":["AAEC"]}`,
		`{"x":tru,"chain":["AAEC"]}`, `{"x":00,"chain":["AAEC"]}`, `{"chain":["AAEC"` + strings.Repeat(`,"AAEC"`, maxCertificates) + `]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, ok := referenceDecode(bytes.Clone(body))
		got, err := decode(string(body))
		if ok && depth(body) > maxDepth {
			if err == nil && depth(body) > maxDepth+2 {
				t.Fatalf("%q nests too deep and is accepted", body)
			}
			return
		}
		if ok != (err == nil) {
			t.Fatalf("%q: error %v, encoding/json accepts: %v", body, err, ok)
		}
		if err != nil {
			checkSentence(t, "fuzz", err.Error()+"\n")
			return
		}
		for i := range want {
			if len(got) != len(want) || !bytes.Equal(got[i], want[i]) {
				t.Fatalf("%q: %x, encoding/json has %x", body, got, want)
			}
		}
	})
}
