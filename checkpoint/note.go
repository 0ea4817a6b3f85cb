package checkpoint

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
)

// greaseName is the key name of the grease signature that is not under the
// log's own name.
const greaseName = "grease.invalid"

// Bounds on the bytes of a grease signature, key ID apart.
const minGrease, maxGrease = 8, 160

// signature is one signature line of a note.
type signature struct {
	name string
	id   uint32
	body []byte
}

// appendNote appends the signature lines to a note's text (c2sp.org/signed-note).
func appendNote(b []byte, lines []signature) []byte {
	b = append(b, '\n')
	var raw []byte
	for _, l := range lines {
		raw = append(binary.BigEndian.AppendUint32(raw[:0], l.id), l.body...)
		b = append(b, "— "...)
		b = append(append(b, l.name...), ' ')
		b = append(base64.StdEncoding.AppendEncode(b, raw), '\n')
	}
	return b
}

// greased returns lines with two more that nobody can verify, shuffled, so
// that clients which choke on what they do not know, or count on an order, fail
// early. One is under the log's own name with a key ID that is none of lines'. What is drawn
// depends on the text and timestamp alone, so that signing again gives the same note.
func (s *Signer) greased(lines []signature, text []byte, timestamp int64) []signature {
	seed := sha256.Sum256(binary.BigEndian.AppendUint64(append([]byte("grease\n"), text...), uint64(timestamp)))
	source := rand.NewChaCha8(seed)
	rng := rand.New(source)
	known := lines
	for _, name := range []string{s.verifier.origin, greaseName} {
		g := signature{name: name, id: rng.Uint32(), body: make([]byte, minGrease+rng.IntN(maxGrease-minGrease))}
		for hasID(known, g.id) {
			g.id = rng.Uint32()
		}
		_, _ = source.Read(g.body) // never fails
		lines = append(lines, g)
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
}

func hasID(lines []signature, id uint32) bool {
	for _, l := range lines {
		if l.id == id {
			return true
		}
	}
	return false
}
