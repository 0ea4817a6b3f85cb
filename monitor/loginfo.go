package monitor

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
)

// LogInfo is what a log says about itself in log.v3.json, as far as a client
// needs it.
type LogInfo struct {
	Origin string // submission prefix without scheme and trailing slash; see Identify
	Key    []byte // DER SubjectPublicKeyInfo
	LogID  [32]byte
	// Start (inclusive) and Limit (exclusive) of the NotAfter window; zero if
	// the log states none.
	Start, Limit time.Time
}

const infoName = "log.v3.json"

// Identify is the function [Identify] on this log.
func (c *Client) Identify(ctx context.Context, origin string, key []byte) (LogInfo, error) {
	return Identify(ctx, c, origin, key)
}

// Identify returns what is known of a log: the given origin and key, and for
// those not given what log.v3.json says. A submission URL on a loopback
// address, as development logs have it, does not name the log; then the
// checkpoint's own first line is taken for the origin.
func Identify(ctx context.Context, src Source, origin string, key []byte) (LogInfo, error) {
	info, err := ReadInfo(ctx, src)
	given := origin != "" && len(key) > 0
	if err != nil && (!given || errors.Is(err, ErrUnavailable) || ctx.Err() != nil) {
		return LogInfo{}, err
	}
	if origin != "" {
		info.Origin = origin
	}
	if len(key) > 0 {
		info.Key, info.LogID = key, sha256.Sum256(key)
	}
	if info.Origin != "" {
		return info, nil
	}
	signed, err := src.Get(ctx, "checkpoint", checkpoint.MaxNoteSize)
	if errors.Is(err, ErrNotFound) {
		return LogInfo{}, missing("checkpoint", "")
	}
	if err != nil {
		return LogInfo{}, err
	}
	info.Origin, _, _ = strings.Cut(string(signed), "\n")
	return info, nil
}

// ReadInfo reads log.v3.json. What it says is believed only as far as the
// checkpoint bears it out.
func ReadInfo(ctx context.Context, src Source) (LogInfo, error) {
	b, err := src.Get(ctx, infoName, 1<<20)
	if errors.Is(err, ErrNotFound) {
		return LogInfo{}, missing(infoName, ": give the log's key and origin")
	}
	if err != nil {
		return LogInfo{}, err
	}
	return parseInfo(b)
}

func parseInfo(b []byte) (LogInfo, error) {
	var in struct {
		LogID         string `json:"log_id"`
		Key           string `json:"key"`
		SubmissionURL string `json:"submission_url"`
		Interval      struct {
			Start time.Time `json:"start_inclusive"`
			Limit time.Time `json:"end_exclusive"`
		} `json:"temporal_interval"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return LogInfo{}, fault(infoName, "is not JSON of the right form: %v", err)
	}
	key, err := base64.StdEncoding.DecodeString(in.Key)
	if err != nil || len(key) == 0 {
		return LogInfo{}, fault(infoName, "key is not base64 of a public key")
	}
	info := LogInfo{Key: key, LogID: sha256.Sum256(key), Start: in.Interval.Start, Limit: in.Interval.Limit}
	if want := base64.StdEncoding.EncodeToString(info.LogID[:]); in.LogID != want {
		return LogInfo{}, fault(infoName, "log_id is not the SHA-256 of key").values(in.LogID, want)
	}
	u, err := url.Parse(in.SubmissionURL)
	if err != nil || u.Host == "" {
		return LogInfo{}, fault(infoName, "submission_url %q is not a URL", in.SubmissionURL)
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.IsLoopback() {
		return info, nil
	}
	_, origin, _ := strings.Cut(in.SubmissionURL, "://")
	info.Origin = strings.TrimRight(origin, "/")
	return info, nil
}
