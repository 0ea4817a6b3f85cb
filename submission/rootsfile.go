package submission

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/daybook-ct/daybook/cert"
)

// pemCertificate is the type of a PEM block with a certificate (RFC 7468
// section 5.1). Others are passed over.
const pemCertificate = "CERTIFICATE"

// Reasons for which ParseRootsPEM skips a block.
var (
	errTruncated = errors.New("the PEM block has no END line")
	errPEMBase64 = errors.New("the PEM block is not valid base64")
)

// ErrEndEntity means that a certificate must not be an accepted root, as it is
// not that of a certificate authority.
var ErrEndEntity = errors.New("it is the certificate of an end entity, not of a certificate authority")

// ParseRoot parses a certificate that is meant as an accepted root, and keeps
// der. With ErrEndEntity it returns the certificate all the same, so that it can
// be named.
func ParseRoot(der []byte) (*cert.Certificate, error) {
	c, err := cert.Parse(der)
	if err != nil {
		return nil, err
	}
	if !mayBeRoot(c) {
		return c, ErrEndEntity
	}
	return c, nil
}

// RootError says why a certificate of a root file was skipped.
type RootError struct {
	Block int // counting all PEM blocks of the file from 1
	Line  int // of its BEGIN line, counted from 1
	// Fingerprint is the SHA-256 of the block's bytes, zero if they could not
	// be decoded.
	Fingerprint [32]byte
	// Names is the subject and its names as JSON, empty if they could not be
	// parsed. It is valid UTF-8 with all control characters escaped.
	Names string
	Err   error
}

// Error names the certificate and what is wrong with it.
func (e *RootError) Error() string {
	s := fmt.Sprintf("root certificate skipped (PEM block %d, line %d", e.Block, e.Line)
	if e.Fingerprint != [32]byte{} {
		s += fmt.Sprintf(", SHA-256 %x", e.Fingerprint)
	}
	if e.Names != "" {
		s += ", " + e.Names
	}
	return s + "): " + e.Err.Error()
}

func (e *RootError) Unwrap() error { return e.Err }

// ParseRootsPEM reads the accepted roots from PEM text. Text around the blocks,
// blocks of other types, line breaks of any kind and blanks at the ends of
// lines are passed over. A block that is cut off, cannot be parsed or holds the
// certificate of an end entity is skipped with an error of its own; it never
// stops the rest from being read. Each certificate is returned once.
//
// It returns ErrNoRoots, wrapped, if nothing is left, which must not be taken
// for an empty set.
func ParseRootsPEM(text []byte) (roots []*cert.Certificate, skipped []*RootError, err error) {
	return ParseRootsPEMWith(text, ParseRoot)
}

// ParseRootsPEMWith is ParseRootsPEM with another function in place of
// ParseRoot, such as one that knows certificates which were parsed before.
func ParseRootsPEMWith(text []byte, parse func(der []byte) (*cert.Certificate, error)) (roots []*cert.Certificate, skipped []*RootError, err error) {
	seen := make(map[[32]byte]bool)
	blocks := 0
	eachPEMBlock(text, func(b pemBlock) {
		blocks++
		if b.typ != pemCertificate {
			return
		}
		e := &RootError{Block: blocks, Line: b.line, Err: b.err}
		if e.Err == nil {
			e.Fingerprint = sha256.Sum256(b.der)
			if seen[e.Fingerprint] {
				return
			}
			seen[e.Fingerprint] = true
			var c *cert.Certificate
			if c, e.Err = parse(b.der); e.Err == nil {
				roots = append(roots, c)
				return
			}
			if c != nil {
				e.Names = string(c.NamesJSON())
			}
		}
		skipped = append(skipped, e)
	})
	if len(roots) == 0 {
		return nil, skipped, fmt.Errorf("%w: %d PEM blocks, %d of them certificates that had to be skipped", ErrNoRoots, blocks, len(skipped))
	}
	return roots, skipped, nil
}

// mayBeRoot reports whether c may be meant as a root. Roots of the nineties
// have no extensions, so those without basicConstraints must at least be
// self-issued. A certificate that says it is no CA is a slip: as a root it
// would let its owner fill the log.
func mayBeRoot(c *cert.Certificate) bool {
	if c.Poison != cert.NoPoison {
		return false
	}
	return c.IsCA || !c.HasBasicConstraints && c.SelfIssued()
}

// pemBlock is a block of PEM text: its bytes, or what is wrong with it.
type pemBlock struct {
	typ  string
	line int // of BEGIN
	der  []byte
	err  error
}

// eachPEMBlock calls f with each block that text has a BEGIN line of. A block
// without an END line ends where the next one begins.
//
// It is laxer than encoding/pem, which drops a broken block without a word and
// may lose the one after it, too.
func eachPEMBlock(text []byte, f func(pemBlock)) {
	var b *pemBlock
	var body []byte
	for number := 1; len(text) > 0; number++ {
		end := bytes.IndexAny(text, "\r\n")
		var line []byte
		if end < 0 {
			line, text = text, nil
		} else {
			line = text[:end]
			if text[end] == '\r' && end+1 < len(text) && text[end+1] == '\n' {
				end++
			}
			text = text[end+1:]
		}
		line = bytes.TrimSpace(line)
		if typ, ok := armour(line, "BEGIN"); ok {
			if b != nil {
				b.err = errTruncated
				f(*b)
			}
			b, body = &pemBlock{typ: typ, line: number}, nil
			continue
		}
		if b == nil {
			continue
		}
		if _, ok := armour(line, "END"); !ok {
			body = append(body, line...)
			continue
		}
		b.der = make([]byte, base64.StdEncoding.DecodedLen(len(body)))
		n, err := base64.StdEncoding.Decode(b.der, stripBlanks(body))
		if b.der = b.der[:n:n]; err != nil || n == 0 {
			b.der, b.err = nil, errPEMBase64
		}
		f(*b)
		b = nil
	}
	if b != nil {
		b.err = errTruncated
		f(*b)
	}
}

// armour returns the type of a BEGIN or END line.
func armour(line []byte, keyword string) (typ string, ok bool) {
	line, ok = bytes.CutPrefix(line, []byte("-----"+keyword+" "))
	if !ok {
		return "", false
	}
	line, ok = bytes.CutSuffix(line, []byte("-----"))
	return string(bytes.TrimSpace(line)), ok
}

func stripBlanks(b []byte) []byte {
	return bytes.Join(bytes.Fields(b), nil)
}
