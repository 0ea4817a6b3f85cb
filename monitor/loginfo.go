package monitor

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// LogInfo is what a log says about itself in log.v3.json, as far as a client
// needs it.
type LogInfo struct {
	Origin string // submission prefix without scheme and trailing slash
	Key    []byte // DER SubjectPublicKeyInfo
	LogID  [32]byte
	// Start (inclusive) and Limit (exclusive) of the NotAfter window; zero if
	// the log states none.
	Start, Limit time.Time
}

const infoName = "log.v3.json"

// Info reads log.v3.json. What it says is believed only as far as the
// checkpoint bears it out.
func (c *Client) Info(ctx context.Context) (LogInfo, error) {
	b, err := c.Get(ctx, infoName, 1<<20)
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
	_, origin, ok := strings.Cut(in.SubmissionURL, "://")
	if info.Origin = strings.TrimRight(origin, "/"); !ok || info.Origin == "" {
		return LogInfo{}, fault(infoName, "submission_url %q is not a URL", in.SubmissionURL)
	}
	return info, nil
}
