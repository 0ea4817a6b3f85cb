package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// noteSignature is a signature line of a signed note.
type noteSignature struct {
	name  string
	keyID uint32
	body  []byte
}

// signedNote is a note of c2sp.org/signed-note.
type signedNote struct {
	text       string // with its last newline
	signatures []noteSignature
}

const signaturePrefix = "\u2014 " // em dash, space

// checkNoteBytes checks what a note may consist of.
func checkNoteBytes(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("it is not valid UTF-8")
	}
	for _, c := range b {
		if c < 0x20 && c != '\n' || c == 0x7f {
			return fmt.Errorf("it has the control character %#x", c)
		}
	}
	return nil
}

func readNote(b []byte) (*signedNote, error) {
	i := bytes.LastIndex(b, []byte("\n\n"))
	if i < 0 {
		return nil, errors.New("there is no blank line before signatures")
	}
	if b[len(b)-1] != '\n' {
		return nil, errors.New("the last line does not end in a newline")
	}
	n := &signedNote{text: string(b[:i+1])} // of use even if the signatures are not
	lines := strings.Split(strings.TrimSuffix(string(b[i+2:]), "\n"), "\n")
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, signaturePrefix)
		name, data, ok2 := strings.Cut(rest, " ")
		if !ok || !ok2 {
			return n, fmt.Errorf("%q is not a signature line", line)
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(data)
		if err != nil || len(raw) < 5 {
			return n, fmt.Errorf("the signature line of %q does not hold base64 of a key ID and a signature", name)
		}
		n.signatures = append(n.signatures, noteSignature{name, binary.BigEndian.Uint32(raw), raw[4:]})
	}
	return n, nil
}

// checkKeyName checks a name of a signature line.
func checkKeyName(name string) error {
	if name == "" || strings.ContainsRune(name, '+') || strings.ContainsFunc(name, unicode.IsSpace) {
		return fmt.Errorf("the key name %q is empty, or has a space or a plus", name)
	}
	return nil
}

// keyID is the key ID of a key of one type: the first bytes of the SHA-256 of
// name, newline, type and key.
func keyID(name string, kind byte, key []byte) uint32 {
	b := append([]byte(name+"\n"), kind)
	sum := sha256.Sum256(append(b, key...))
	return binary.BigEndian.Uint32(sum[:4])
}

// The types of keys in notes.
const (
	noteEd25519     = 0x01
	noteECDSA       = 0x02
	noteCosignature = 0x04
	noteTreeHead    = 0x05
	noteMLDSA       = 0x06
)

// treeHead is a checkpoint: the text of the note, and what the log's RFC 6962
// signature adds.
type treeHead struct {
	note      *signedNote
	origin    string
	size      int64
	root      [32]byte
	timestamp int64 // in ms, of the signature
	extra     []string
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// textProblems are what is wrong with the three lines, by line.
type textProblems struct{ lines, size, root error }

// readText reads the text of a checkpoint (c2sp.org/tlog-checkpoint).
func (h *treeHead) readText() (p textProblems) {
	lines := strings.Split(strings.TrimSuffix(h.note.text, "\n"), "\n")
	if len(lines) < 3 {
		p.lines = fmt.Errorf("the text has %d lines, not three", len(lines))
		return p
	}
	h.origin, h.extra = lines[0], lines[3:]
	for _, l := range lines {
		if l == "" || l != strings.TrimSpace(l) {
			p.lines = fmt.Errorf("the line %q is empty, or has blanks around it", l)
		}
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || !decimal.MatchString(lines[1]) {
		p.size = fmt.Errorf("the size is %q", lines[1])
	}
	h.size = size
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != 32 || base64.StdEncoding.EncodeToString(root) != lines[2] {
		p.root = fmt.Errorf("the root is %q", lines[2])
		return p
	}
	h.root = [32]byte(root)
	return p
}

// treeHeadMessage returns what an RFC 6962 tree head signature is over (section
// 3.5).
func (h *treeHead) treeHeadMessage() []byte {
	b := []byte{0, 1} // v1, tree_hash
	b = binary.BigEndian.AppendUint64(b, uint64(h.timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(h.size))
	return append(b, h.root[:]...)
}

// cosignedMessage returns what an ML-DSA-44 cosignature of the log's own is
// over (c2sp.org/tlog-cosignature): a whole tree, from 0 to its size.
func (h *treeHead) cosignedMessage(name string, seconds uint64) []byte {
	b := append([]byte("subtree/v1\n\x00"), byte(len(name)))
	b = binary.BigEndian.AppendUint64(append(b, name...), seconds)
	b = append(append(b, byte(len(h.origin))), h.origin...)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(h.size))
	return append(b, h.root[:]...)
}
