package checkpoint

import (
	"encoding/base64"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/daybook-ct/daybook/tlog"
)

// SCT is a version 1 Signed Certificate Timestamp (RFC 6962 section 3.2). Its
// JSON is the output of add-chain and add-pre-chain (section 4.1).
type SCT struct {
	LogID      [32]byte
	Timestamp  int64  // milliseconds since the Unix epoch
	Extensions []byte // CtExtensions, at most 65,535 bytes
	Signature  []byte // digitally-signed structure
}

// Index returns the leaf index in the SCT's extensions (c2sp.org/static-ct-api,
// SCT Extension).
func (s SCT) Index() (int64, error) { return tlog.ParseExtensions(s.Extensions) }

// AppendJSON appends the SCT's JSON to b.
func (s SCT) AppendJSON(b []byte) []byte {
	b = append(b, `{"sct_version":0,"id":"`...)
	b = base64.StdEncoding.AppendEncode(b, s.LogID[:])
	b = append(b, `","timestamp":`...)
	b = strconv.AppendInt(b, s.Timestamp, 10)
	b = append(b, `,"extensions":"`...)
	b = base64.StdEncoding.AppendEncode(b, s.Extensions)
	b = append(b, `","signature":"`...)
	b = base64.StdEncoding.AppendEncode(b, s.Signature)
	return append(b, `"}`...)
}

// MarshalJSON implements json.Marshaler.
func (s SCT) MarshalJSON() ([]byte, error) { return s.AppendJSON(make([]byte, 0, 320)), nil }

// UnmarshalJSON implements json.Unmarshaler. It takes what section 4.1 of RFC
// 6962 defines, each member once and under its exact name, in standard base64 with padding and
// nothing else; other members are ignored, as section 4 asks. Whether the
// extensions hold a leaf index is for [SCT.Index] to tell.
func (s *SCT) UnmarshalJSON(b []byte) error {
	var in struct {
		Version    *uint64 `json:"sct_version"`
		ID         *string `json:"id"`
		Timestamp  *uint64 `json:"timestamp"`
		Extensions *string `json:"extensions"`
		Signature  *string `json:"signature"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("malformed SCT: %w", err)
	}
	if in.Version == nil || in.ID == nil || in.Timestamp == nil || in.Extensions == nil || in.Signature == nil {
		return errors.New("malformed SCT: sct_version, id, timestamp, extensions and signature are required")
	}
	if *in.Version != 0 {
		return fmt.Errorf("SCT has version %d, not v1 (0)", *in.Version)
	}
	if *in.Timestamp > math.MaxInt64 {
		return fmt.Errorf("malformed SCT: timestamp %d is out of range", *in.Timestamp)
	}
	out := SCT{Timestamp: int64(*in.Timestamp)}
	id, err := decodeBase64(*in.ID)
	if err != nil || len(id) != len(out.LogID) {
		return errors.New("malformed SCT: id is not the base64 of 32 bytes")
	}
	copy(out.LogID[:], id)
	if out.Extensions, err = decodeBase64(*in.Extensions); err != nil || len(out.Extensions) > math.MaxUint16 {
		return errors.New("malformed SCT: extensions are not the base64 of at most 65,535 bytes")
	}
	if out.Signature, err = decodeBase64(*in.Signature); err != nil {
		return errors.New("malformed SCT: signature is not base64")
	}
	if _, err := splitDigitallySigned(out.Signature); err != nil {
		return fmt.Errorf("malformed SCT: %w", err)
	}
	*s = out
	return nil
}

// decodeBase64 decodes standard base64 with padding in its one canonical form.
// The library skips line breaks even when strict.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("line break in base64")
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}
