package cert

import (
	"encoding/json"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"unicode/utf8"
)

// namesObject has the members of the names-tiles extension; encoding/json says
// how they are written.
type namesObject struct {
	Subject struct {
		Country            []string `json:",omitempty"`
		Organization       []string `json:",omitempty"`
		OrganizationalUnit []string `json:",omitempty"`
		Locality           []string `json:",omitempty"`
		Province           []string `json:",omitempty"`
		StreetAddress      []string `json:",omitempty"`
		PostalCode         []string `json:",omitempty"`
		CommonName         string   `json:",omitempty"`
	} `json:",omitzero"`
	DNS []string `json:",omitempty"`
	IP  []string `json:",omitempty"`
}

func sanWith(names ...[]byte) []byte { return extn("\x55\x1d\x11", seq(names...)) }

func TestNamesJSON(t *testing.T) {
	const cn, o = "\x55\x04\x03", "\x55\x04\x0a"
	utf16BE := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			b.Write([]byte{byte(r >> 8), byte(r)})
		}
		return b.String()
	}
	for _, c := range []struct {
		label      string
		subject    []byte
		extensions [][]byte
		want       string
	}{
		{"nothing", seq(), nil, `{}`},
		{"common name", name("a.example"), nil, `{"Subject":{"CommonName":"a.example"}}`},
		{"empty common name", name(""), nil, `{}`},
		{"last common name", seq(rdn(cn, 12, "a"), rdn(cn, 12, "b")), nil, `{"Subject":{"CommonName":"b"}}`},
		{"last common name is empty", seq(rdn(cn, 12, "a"), rdn(cn, 12, "")), nil, `{}`},
		{"empty organization", seq(rdn(o, 12, "")), nil, `{"Subject":{"Organization":[""]}}`},
		{"all members, in another order", seq(rdn(cn, 12, "cn"), rdn("\x55\x04\x11", 19, "pc"), rdn("\x55\x04\x09", 12, "street"),
			rdn("\x55\x04\x08", 12, "st"), rdn("\x55\x04\x07", 12, "l"), rdn("\x55\x04\x0b", 12, "ou"), rdn(o, 12, "o"), rdn("\x55\x04\x06", 19, "XX"), rdn(o, 12, "o2")),
			[][]byte{sanWith(tlv(0x87, []byte{192, 0, 2, 1}), tlv(0x82, []byte("d")))},
			`{"Subject":{"Country":["XX"],"Organization":["o","o2"],"OrganizationalUnit":["ou"],"Locality":["l"],"Province":["st"],` +
				`"StreetAddress":["street"],"PostalCode":["pc"],"CommonName":"cn"},"DNS":["d"],"IP":["192.0.2.1"]}`},
		{"two attributes in a set", seq(tlv(0x31, seq(tlv(6, []byte(o)), tlv(12, []byte("o"))), seq(tlv(6, []byte(cn)), tlv(12, []byte("c"))))), nil,
			`{"Subject":{"Organization":["o"],"CommonName":"c"}}`},
		{"unknown attribute", seq(rdn("\x55\x04\x05", 19, "42"), rdn(cn, 12, "c")), nil, `{"Subject":{"CommonName":"c"}}`},
		{"escapes", name("\x00\x01\b\f\n\r\t\x1f\x7f\"\\/<>&\u2028\u2029é\U0001f512\ufffd"), nil,
			`{"Subject":{"CommonName":"\u0000\u0001\b\f\n\r\t\u001f` + "\x7f" + `\"\\/\u003c\u003e\u0026\u2028\u2029é` + "\U0001f512\ufffd" + `"}}`},
		{"invalid UTF-8", name("a\xffb\xc3"), nil, `{"Subject":{"CommonName":"a` + "\ufffdb\ufffd" + `"}}`},
		{"Teletex", seq(rdn(cn, 20, "Z\xfcrich\x85")), nil, `{"Subject":{"CommonName":"Zürich` + "\u0085" + `"}}`},
		{"Teletex with UTF-8", seq(rdn(cn, 20, "Zürich")), nil, `{"Subject":{"CommonName":"Zürich"}}`},
		{"Printable with ISO 8859-1", seq(rdn(cn, 19, "Z\xfcrich")), nil, `{"Subject":{"CommonName":"Zürich"}}`},
		{"Printable with UTF-8", seq(rdn(cn, 19, "Zürich")), nil, `{"Subject":{"CommonName":"Zürich"}}`},
		{"BMP", seq(rdn(cn, 30, utf16BE("Zürich<"))), nil, `{"Subject":{"CommonName":"Zürich\u003c"}}`},
		{"BMP with a surrogate pair", seq(rdn(cn, 30, "\xd8\x3d\xdd\x12\x00a")), nil, `{"Subject":{"CommonName":"` + "\U0001f512" + `a"}}`},
		{"BMP with lone surrogates", seq(rdn(cn, 30, "\xdd\x12\xd8\x3d\x00a\xd8\x3d")), nil, `{"Subject":{"CommonName":"` + "\ufffd\ufffda\ufffd" + `"}}`},
		{"BMP of odd length", seq(rdn(cn, 30, "\x00a\x00")), nil, `{"Subject":{"CommonName":"a"}}`},
		{"Universal", seq(rdn(cn, 28, "\x00\x00\x00a\x00\x01\xf5\x12\xff\xff\xff\xff\x00\x11\x00\x00")), nil, `{"Subject":{"CommonName":"a` + "\U0001f512\ufffd\ufffd" + `"}}`},
		{"BIT STRING", seq(rdn(cn, 3, "\x00a")), nil, `{}`},
		{"BIT STRING after a string", seq(rdn(cn, 12, "a"), rdn(cn, 3, "\x00a")), nil, `{"Subject":{"CommonName":"a"}}`},
		{"cut off after a name", seq(rdn(cn, 12, "a"), []byte{0x31, 0x7f}), nil, `{"Subject":{"CommonName":"a"}}`},
		{"set in place of a name", seq(rdn(cn, 12, "a"), tlv(0x31, tlv(5))), nil, `{"Subject":{"CommonName":"a"}}`},
		{"attribute without value", seq(tlv(0x31, seq(tlv(6, []byte(cn))))), nil, `{}`},
		{"only DNS", seq(), [][]byte{sanWith(tlv(0x82, []byte("a")), tlv(0x82, []byte("*.b")))}, `{"DNS":["a","*.b"]}`},
		{"only IP", seq(), [][]byte{sanWith(tlv(0x87, net.ParseIP("2001:db8::1")), tlv(0x87, net.ParseIP("::ffff:192.0.2.1")), tlv(0x87, make([]byte, 16)))},
			`{"IP":["2001:db8::1","192.0.2.1","::"]}`},
		{"IP of 8 bytes", seq(), [][]byte{sanWith(tlv(0x87, make([]byte, 8)), tlv(0x82, []byte("a")))}, `{"DNS":["a"]}`},
		{"empty DNS name", seq(), [][]byte{sanWith(tlv(0x82))}, `{"DNS":[""]}`},
		{"raw bytes in a DNS name", seq(), [][]byte{sanWith(tlv(0x82, []byte("a\x00\xffé")))}, `{"DNS":["a\u0000` + "\ufffd" + `é"]}`},
		{"other general names", seq(), [][]byte{sanWith(tlv(0x81, []byte("a@b")), tlv(0x86, []byte("http://a")), tlv(0xa0, tlv(5)), tlv(0x82, []byte("a")))}, `{"DNS":["a"]}`},
		{"SAN cut off", seq(), [][]byte{sanWith(tlv(0x82, []byte("a")), []byte{0x82, 5})}, `{"DNS":["a"]}`},
		{"SAN with a tag of two octets", seq(), [][]byte{sanWith(tlv(0x82, []byte("a")), tlv(0x9f, []byte("bc")), tlv(0x82, []byte("d")))}, `{"DNS":["a"]}`},
		{"SAN no SEQUENCE", seq(), [][]byte{extn("\x55\x1d\x11", tlv(0x82, []byte("a")))}, `{}`},
		{"SAN twice", seq(), [][]byte{sanWith(tlv(0x82, []byte("a"))), extCA, sanWith(tlv(0x82, []byte("b")))}, `{"DNS":["a","b"]}`},
	} {
		s := leafSpec(t)
		s.subject, s.extensions = c.subject, c.extensions
		got := string(s.parse(t).NamesJSON())
		if got != c.want {
			t.Errorf("%s: %s, not %s", c.label, got, c.want)
			continue
		}
		var object namesObject
		if err := json.Unmarshal([]byte(got), &object); err != nil {
			t.Errorf("%s: %v", c.label, err)
		}
	}
}

// TestNamesJSONIsEncodingJSON compares with encoding/json over random text.
func TestNamesJSONIsEncodingJSON(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "Z", "0", ".", "é", "\u2028", "\u2029", "\u2027", "<", ">", "&", "\"", "\\", "/", "\x00", "\x1f", "\x7f", "\x80", "\xff",
		"\xed\xa0\x80", "\xf0\x9f\x94", "\xf4\x90\x80\x80", "\U0010ffff", "\ufffd", "\n", "\t", "\b", "\f", "\r"}
	text := func() string {
		var b strings.Builder
		for range rnd.IntN(6) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		return b.String()
	}
	for range 5000 {
		var want namesObject
		var rdns, names [][]byte
		for range rnd.IntN(6) {
			value := text()
			switch rnd.IntN(4) {
			case 0:
				want.Subject.CommonName = value
				rdns = append(rdns, rdn("\x55\x04\x03", 12, value))
			case 1:
				want.Subject.StreetAddress = append(want.Subject.StreetAddress, value)
				rdns = append(rdns, rdn("\x55\x04\x09", 12, value))
			case 2:
				want.DNS = append(want.DNS, value)
				names = append(names, tlv(0x82, []byte(value)))
			case 3:
				ip := make(net.IP, []int{4, 16}[rnd.IntN(2)])
				for i := range ip {
					ip[i] = byte(rnd.IntN(3))
				}
				want.IP = append(want.IP, ip.String())
				names = append(names, tlv(0x87, ip))
			}
		}
		s := leafSpec(t)
		s.signature = bitString(nil)
		s.subject, s.extensions = seq(rdns...), [][]byte{sanWith(names...)}
		got := s.parse(t).NamesJSON()
		encoded, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(encoded) {
			t.Fatalf("%s, not %s", got, encoded)
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q is no UTF-8", got)
		}
	}
}
