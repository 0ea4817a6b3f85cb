package conformance

import (
	"slices"
	"strings"
)

// Level says how much a clause asks.
type Level int

// The levels.
const (
	// Must is not kept at the price of a failure.
	Must Level = iota
	// Should is not kept at the price of a warning.
	Should
	// May is a permission, or a choice between answers that are all right: the
	// clause fails only if what the log does is none of them.
	May
)

// Clause is one thing that a log is held to.
type Clause struct {
	ID    string
	Level Level
	Text  string
	// phases decide it; the first one is enough.
	phases []phase
}

// phase is a part of a run.
type phase string

// The phases, in their order. own is none of [Run]: it is for those who start
// the log themselves.
const (
	phaseWatch      phase = "watch" // all through the run
	phaseRoots      phase = "roots"
	phaseChains     phase = "chains"
	phaseCases      phase = "cases"
	phaseOdd        phase = "odd"
	phaseDuplicates phase = "duplicates"
	phaseRequests   phase = "requests"
	phaseLoad       phase = "load"
	phaseRead       phase = "read"
	phaseRestart    phase = "restart"
	phaseIdle       phase = "idle"
	phaseScan       phase = "scan"
	phaseOwn        phase = "own"
)

// Clauses returns all clauses, in the order in which they are reported.
func Clauses() []Clause { return slices.Clone(clauses) }

// CaseClauses returns the IDs of the clauses that the cases decide, and the
// tree with their entries.
func CaseClauses() (ids []string) {
	for _, c := range clauses {
		if slices.ContainsFunc(c.phases, func(p phase) bool { return p == phaseCases || p == phaseOdd || p == phaseScan }) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func clause(id string, level Level, phases, text string) Clause {
	c := Clause{ID: id, Level: level, Text: text}
	for _, p := range strings.Fields(phases) {
		c.phases = append(c.phases, phase(p))
	}
	return c
}

var clauses = slices.Concat(specClauses, reportClauses)

// specClauses are those of the specifications.
var specClauses = []Clause{
	clause("R1", Must, "scan", "leaf hashes of tile/data and the root of the tiles equal the checkpoint (SHA-256, prefixes 0 and 1)"),
	clause("R2", Must, "watch", "the root of the empty log is SHA-256 of nothing"),
	clause("R3", Must, "chains own", "signs with ECDSA P-256 or RSA of 2048 bits, refuses other keys"),
	clause("R4", Should, "watch", "one key signs SCTs and tree heads"),
	clause("R5", Must, "chains cases", "a valid chain gets an SCT that verifies, within the request"),
	clause("R6", May, "duplicates", "a known certificate gets its SCT again, or a new entry"),
	clause("R7", Must, "chains", "an entry is in the tree within the maximum merge delay"),
	clause("R8", Must, "read", "reads need no authentication, cookies or special headers"),
	clause("R9", Must, "roots", "the acceptable roots are published"),
	clause("R10", Must, "chains cases", "a chain that does not verify up to an accepted root gets no SCT"),
	clause("R11", Must, "scan", "what was refused is in no tile"),
	clause("R12", May, "chains cases", "the root may be left out of a submission"),
	clause("R13", May, "chains cases", "expired and not fully valid certificates may be accepted"),
	clause("R14", Must, "scan", "the whole chain is stored, the root too"),
	clause("R15", Must, "scan chains", "in every entry each certificate certifies the one before it, the last is an accepted root"),
	clause("R16", May, "chains cases", "the length of a chain may be limited"),
	clause("R17", Must, "chains cases", "a precertificate has the critical poison extension with NULL, once"),
	clause("R18", Must, "chains cases", "a Precertificate Signing Certificate is a CA, certified by the final issuer"),
	clause("R19", Must, "chains scan", "a precertificate's SCT is over its TBSCertificate without poison, byte for byte"),
	clause("R20", Must, "chains scan", "by way of a Precertificate Signing Certificate, issuer and AKI are those of the final certificate"),
	clause("R21", Must, "chains scan", "issuer_key_hash is that of the final issuer's SubjectPublicKeyInfo"),
	clause("R22", Must, "chains", "the SCT's id is the SHA-256 of the log key's SPKI"),
	clause("R23", Must, "chains", "sct_version is 0, timestamps are in milliseconds and of now"),
	clause("R24", Must, "chains", "the SCT's digitally-signed struct verifies as RFC 6962 has it"),
	clause("R25", Must, "scan", "the leaf made of SCT and submission has its hash at leaf_index in tile/0"),
	clause("R26", Should, "watch", "a tree head is signed when entries are appended"),
	clause("R27", Must, "scan", "a tree head is at least as recent as its newest entry"),
	clause("R28", Must, "watch", "each tree head is more recent than the one before"),
	clause("R29", Must, "idle", "an idle log signs again: no tree head is older than the maximum merge delay"),
	clause("R30", Must, "requests", "errors are 4xx or 5xx with a text, unknown JSON members are ignored"),
	clause("R31", Must, "chains cases", "a chain is leaf first, root or what chains to one last; only the first may be a precertificate"),
	clause("R32", Must, "roots", "get-roots lists exactly the accepted roots"),
	clause("R33", Must, "chains", "an SCT has sct_version, id, timestamp, extensions and signature, in their types"),
	clause("R34", May, "own", "a prefix may have a path and a port"),

	clause("S1", May, "own", "submission and monitoring prefix may be equal or differ"),
	clause("S2", Must, "chains cases", "add-chain, add-pre-chain and get-roots are below SUB/ct/v1/"),
	clause("S3", May, "chains cases", "chains with a Precertificate Signing Certificate are all accepted or all refused"),
	clause("S4", Must, "chains", "SCTs and their signatures are those of RFC 6962"),
	clause("S5", Must, "chains", "SCT extensions are a list of extensions without duplicates"),
	clause("S6", Must, "chains scan", "there is a leaf_index of 40 bits, and it is the position in tile/data"),
	clause("S8", Must, "read", "the read API is plain GET of static assets"),
	clause("S9", Must, "watch", "checkpoint is text/plain; charset=utf-8"),
	clause("S10", Should, "watch", "checkpoint is not cached beyond some seconds"),
	clause("S11", Must, "watch", "the origin is SUB without scheme and trailing slash"),
	clause("S12", Must, "watch", "the key name of the signature is the origin"),
	clause("S13", Must, "watch", "the key ID is that of name, 0x05 and log ID"),
	clause("S14", Must, "watch", "the signature is a timestamp and a TreeHeadSignature that verifies"),
	clause("S15", Must, "watch", "a checkpoint has no extension lines"),
	clause("S16", May, "watch", "other signatures do not disturb, and one is the log's"),
	clause("S18", Must, "read", "hash tiles are application/octet-stream"),
	clause("S19", Must, "read", "tile paths have one form: level 0 to 5, elements of three digits, width 1 to 255"),
	clause("S20", Should, "read", "hash tiles may be cached for long"),
	clause("S21", Must, "load", "a full tile is 8192 bytes"),
	clause("S22", Must, "load", "a hash above level 0 is that of the full tile below"),
	clause("S23", Must, "read", "partial tiles have the width of the tree's edge; there are no others and no empty ones"),
	clause("S24", Must, "watch", "the partial tiles of every checkpoint are served, or the full ones"),
	clause("S26", Must, "read", "data tiles are application/octet-stream"),
	clause("S27", Should, "read", "data tiles are compressed at the HTTP layer"),
	clause("S29", Should, "read", "data tiles may be cached for long"),
	clause("S30", Must, "scan", "data tile entries are those of the level 0 tile"),
	clause("S31", Must, "scan", "a TileLeaf is TimestampedEntry, pre_certificate, certificate_chain, to the last byte"),
	clause("S32", Must, "scan", "certificate_chain has the SHA-256 of every issuer, the root included"),
	clause("S33", Must, "scan", "issuer/<sha256> is one DER certificate of that hash, application/pkix-cert"),
	clause("S34", Must, "scan", "every issuer that an entry names is served"),
	clause("S35", Should, "read", "issuers may be cached for long"),
	clause("S36", Must, "read", "what does not exist is not answered with 200"),

	clause("T1", Should, "watch", "the origin is a schema-less URL without trailing slash"),
	clause("T2", Must, "watch", "another key that the log names signs the checkpoint, too"),
	clause("T3", Must, "scan", "the tree is that of RFC 6962 with SHA-256"),
	clause("T4", Must, "read", "there are no levels beyond the tree's"),
	clause("T5", May, "watch", "a partial tile goes only once the full one is there"),
	clause("T6", Must, "scan", "the first entry is still served"),
	clause("T8", Must, "read", "there is no tile/entries in a CT log"),

	clause("K1", Must, "watch", "a checkpoint has three lines, nothing empty, no CR, BOM or blanks"),
	clause("K2", Must, "watch own", "the origin is not empty and has no space or plus"),
	clause("K3", Must, "watch", "the size is decimal without leading zeroes"),
	clause("K4", Must, "watch", "the root is padded base64 of 32 bytes"),
	clause("K5", Should, "watch", "there are no empty extension lines, better none at all"),
	clause("K6", Must, "watch", "all checkpoints that were seen are consistent with each other"),
	clause("K7", Should, "watch", "the key name is the origin"),

	clause("N1", Must, "watch", "text, blank line, signature lines of em dash, name and base64"),
	clause("N2", Must, "watch", "a note is UTF-8 without control characters"),
	clause("N3", Must, "watch own", "key names are not empty and have no space or plus"),
	clause("N4", Must, "watch", "a signature is base64 of four bytes of key ID and the signature"),
	clause("N5", Should, "watch", "key IDs are derived as recommended and differ between the types of a key"),
	clause("N6", Must, "watch", "there is no signature of type 0x02"),
	clause("N7", Should, "watch", "there are no more signatures than any client takes (16)"),
	clause("N10", Must, "watch", "a published verifier key has the name and ID of its signatures"),

	clause("G1", Must, "watch", "a cosignature's key ID is that of name, type and key"),
	clause("G3", Must, "watch", "a cosignature has a timestamp in seconds and a signature of its size"),
	clause("G4", Must, "watch", "an Ed25519 cosignature is over cosignature/v1, time and the text"),
	clause("G5", Must, "watch", "an ML-DSA-44 cosignature is over the cosigned_message of the whole tree"),
	clause("G6", Must, "watch", "a cosigned text has no extension lines"),
}

// reportClauses are faults of other logs, by the case's number, and what this
// project asks on top.
var reportClauses = []Clause{
	clause("A01", Must, "scan cases", "a root that was left out is in certificate_chain"),
	clause("A02", Must, "scan", "the root that was left out is served as an issuer"),
	clause("A03", Must, "scan", "certificate_chain has its length in bytes, and each fingerprint in its place"),
	clause("A06", Must, "chains cases", "a chain out of order is refused, and the text says so"),
	clause("A07", Must, "chains cases", "extraneous certificates are refused"),
	clause("A08", Must, "chains cases", "a leaf issued by a root is accepted with and without it"),
	clause("A10", Must, "cases", "an accepted root need not be self-signed"),
	clause("A11", Must, "chains cases", "an issuer that is not a CA is refused"),
	clause("A12", Must, "chains cases", "an issuer without basicConstraints is refused"),
	clause("A13", May, "chains cases", "a chain beyond an accepted root is refused, or recorded up to one"),
	clause("A14", Must, "cases", "of two roots with one key, the one submitted is recorded"),
	clause("A15", May, "chains cases", "names that are equal but differ in bytes: accepted or refused"),
	clause("A17", Must, "chains cases", "a chain of 11 is accepted, one of 43 gets an answer in time"),
	clause("A19", Must, "cases", "chains of the merge delay monitor root (SHA-1) are accepted"),
	clause("A20", Must, "chains cases", "SHA-1 signatures are accepted"),
	clause("A21", Must, "cases", "the own signature of an accepted root does not matter"),
	clause("A22", Must, "chains cases", "violated path lengths and name constraints are accepted"),
	clause("A23", Must, "chains cases", "only the leaf's NotAfter counts, not whether anything has expired"),

	clause("B01", Should, "chains cases", "a negative serial number is accepted"),
	clause("B02", Should, "chains cases", "a BIT STRING in a name is accepted"),
	clause("B04", Must, "own", "roots with blanks, duplicates and broken neighbours are loaded"),
	clause("B05", Should, "chains cases", "an INTEGER that is not minimal is accepted and kept"),
	clause("B06", Should, "chains cases", "faulty extensions are accepted and kept"),
	clause("B07", May, "chains cases", "odd times get an SCT or a 4xx"),
	clause("B08", Must, "chains cases", "NUL and the like in names are accepted"),
	clause("B10", Must, "chains cases", "an outer signatureAlgorithm unlike the inner one is refused"),
	clause("B11", Should, "chains cases", "a signature with unused bits is refused"),
	clause("B12", Must, "chains cases", "BER lengths and trailing bytes outside of the signed part are refused"),
	clause("B13", Must, "chains cases", "another valid signature: a new entry of a certificate, a duplicate of a precertificate"),
	clause("B16", Must, "cases", "MD5 and MD2 signatures are refused"),
	clause("B17", Must, "chains cases", "the leaf's own key need not be understood"),
	clause("B18", Must, "odd", "odd certificates get no 5xx, and a good chain right after gets its SCT"),

	clause("C01", Must, "chains cases", "issuer_key_hash is not that of the Precertificate Signing Certificate"),
	clause("C02", Must, "chains cases", "a Precertificate Signing Certificate is told by its EKU and must be a CA"),
	clause("C03", Must, "chains cases", "chains with a Precertificate Signing Certificate have one behaviour"),
	clause("C04", Must, "chains cases", "the TBSCertificate of a precertificate is that of the final certificate without SCTs"),
	clause("C05", May, "chains cases", "an AKI that the signing certificate lacks: refused, or accepted, no 5xx"),
	clause("C06", Must, "chains cases", "encodings that are not DER are kept in the TBSCertificate, or refused"),
	clause("C09", Must, "chains cases", "a poison that is not critical, or not NULL, is refused"),
	clause("C10", Must, "chains cases", "the wrong endpoint is refused, and the text names the right one"),
	clause("C11", Must, "scan", "an independent leaf hash of a precertificate is at its index"),
	clause("C13", Must, "scan", "pre_certificate is what was submitted, signed_entry its TBSCertificate"),
	clause("C14", Must, "chains cases", "a final certificate issued by a Precertificate Signing Certificate is accepted"),
	clause("C15", Must, "chains cases", "precertificate and final certificate are two entries"),

	clause("D01", Must, "scan", "every leaf hash made of tile/data is that of tile/0"),
	clause("D02", Must, "scan", "so are those of precertificates by way of a signing certificate"),
	clause("D03", Must, "chains", "signatures are 04 03, length and a DER SEQUENCE"),
	clause("D04", Must, "chains", "the SCT's id is the log ID"),
	clause("D05", Must, "chains", "sct_version is 0"),
	clause("D06", Must, "chains", "extensions are padded base64 of 00 00 05 and the index, and are signed"),
	clause("D08", Must, "watch", "origin, key name and key ID follow the submission prefix"),
	clause("D09", Must, "watch", "no extension lines, one signature of the log's RFC 6962 key"),
	clause("D12", Must, "idle", "an idle log publishes fresh checkpoints with the same root"),
	clause("D13", Must, "watch", "nobody is shown another tree"),

	clause("E01", Must, "duplicates", "a resubmission gets an SCT that is true: index and timestamp of one leaf"),
	clause("E05", Must, "duplicates", "a client that hangs up does not fail the others"),
	clause("E13", Must, "duplicates cases", "with and without root it is one entry"),
	clause("E14", Must, "chains cases", "one precertificate by two paths is a duplicate, all issuers are served"),

	clause("G01", Must, "read", "tiles and issuers that do not exist are 4xx, short and not cached"),
	clause("G02", Must, "read", "the name of a full tile is not there while the tile grows"),
	clause("G05", Must, "read", "whatever coding a client takes, it gets the same bytes"),
	clause("G06", Must, "read", "content types are right and there is one layer of gzip, for HEAD as for GET"),
	clause("G07", Must, "read watch", "checkpoint is not cached, tiles and issuers are"),
	clause("G08", Must, "read", "twenty reads a second are not limited"),
	clause("G09", Must, "read", "a prefix with a path is stripped, and its neighbours are not the log"),
	clause("G11", Must, "read", "no traversal, listings or internal files"),
	clause("G12", Must, "read", "a missing object is 404"),
	clause("G14", Must, "watch", "the full tile is there before a partial one goes"),

	clause("H01", Must, "requests", "a body that is too large is 413, one that lies is no 5xx"),
	clause("H02", Must, "chains cases", "a certificate of 45 kB is accepted"),
	clause("H04", Must, "requests chains", "a refusal says what is wrong in words"),
	clause("H05", Must, "requests", "odd JSON gets a 4xx"),
	clause("H06", Must, "requests", "wrong methods and paths are 405 with Allow, or 404"),
	clause("H07", Must, "chains cases", "the window has its start and not its limit, by the leaf's NotAfter"),
	clause("H08", Must, "chains cases", "leaves without serverAuth are refused or accepted as the log says"),
	clause("H14", Must, "roots", "every root is listed once, as base64 of its bytes, and is accepted"),

	clause("X1", Must, "cases", "real chains: outcome, entry, issuer key and chain are those of the index"),
	clause("X2", Must, "cases", "synthetic chains: outcome, entry, issuer key and chain are those of the index"),
	clause("X3", Must, "odd", "odd certificates, alone and as an issuer: 200 or 4xx"),
	clause("X4", Should, "requests read", "pages of any origin may use the log (CORS)"),
	clause("X5", Should, "read", "HEAD, ranges and conditional requests work"),
}
