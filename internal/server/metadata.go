package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/storage"
)

const (
	// mmd is the maximum merge delay that a Static CT log has (Chrome CT log
	// policy); entries are in the tree before their SCT is given.
	mmd = time.Minute

	// readOnlyAfter is how long after the limit of the window a log should stop
	// taking entries: by then all that it could take has expired.
	readOnlyAfter = 7 * 24 * time.Hour
)

// logInfo is log.v3.json: what a log says about itself, in the words of the
// CT log lists, version 3.
type logInfo struct {
	Description      string            `json:"description"`
	FriendlyName     string            `json:"friendly_name"`
	SubmissionURL    string            `json:"submission_url"`
	MonitoringURL    string            `json:"monitoring_url"`
	TemporalInterval *temporalInterval `json:"temporal_interval,omitempty"`
	LogID            string            `json:"log_id"`
	Key              string            `json:"key"`
	MMD              int               `json:"mmd"` // seconds
	Spec             string            `json:"log_spec"`
	MMDSeconds       int               `json:"mmd_seconds"`
	TLSOnly          bool              `json:"tls_only"` // leaves must be usable for serverAuth
	Status           string            `json:"status"`
	StatusTimestamp  string            `json:"status_timestamp"`
	PlannedChanges   []plannedChange   `json:"planned_changes,omitempty"`
	Submission       endpoint          `json:"submission_endpoint"`
	Monitoring       endpoint          `json:"monitoring_endpoint"`
	Software         software          `json:"log_software"`
}

type temporalInterval struct {
	Start string `json:"start_inclusive"`
	Limit string `json:"end_exclusive"`
}

type plannedChange struct {
	Status string `json:"new_status"`
	Date   string `json:"effective_date"`
}

type endpoint struct {
	URL string `json:"url"`
}

type software struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

const statusActive = "active"

// makeLogInfo returns log.v3.json. The time since which the log is active is
// taken from the file that is there, so that it stays what it was.
func makeLogInfo(l *openLog, build obs.Build, old []byte, now time.Time) ([]byte, error) {
	since := now.UTC().Truncate(24 * time.Hour).Format(time.RFC3339)
	var before logInfo
	// A file that cannot be read is replaced like any other.
	if json.Unmarshal(old, &before) == nil && before.Status == statusActive && before.StatusTimestamp != "" {
		since = before.StatusTimestamp
	}
	info := logInfo{
		Description:     l.id.Origin,
		FriendlyName:    l.o.Name,
		SubmissionURL:   l.sub.String(),
		MonitoringURL:   l.mon.String(),
		LogID:           l.id.LogIDBase64(),
		Key:             l.id.PublicKeyBase64(),
		MMD:             int(mmd.Seconds()),
		Spec:            "static-ct-api",
		MMDSeconds:      int(mmd.Seconds()),
		TLSOnly:         !l.o.AcceptAnyEKU,
		Status:          statusActive,
		StatusTimestamp: since,
		Submission:      endpoint{l.sub.String()},
		Monitoring:      endpoint{l.mon.String()},
		Software:        software{"daybook", build.Version},
	}
	if start, limit := l.o.WindowStart, l.o.WindowLimit; !start.IsZero() && !limit.IsZero() {
		info.TemporalInterval = &temporalInterval{start.UTC().Format(time.RFC3339), limit.UTC().Format(time.RFC3339)}
		info.PlannedChanges = []plannedChange{{"readonly", limit.Add(readOnlyAfter).UTC().Format(time.RFC3339)}}
	}
	b, err := json.MarshalIndent(info, "", "    ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// writeMetadata puts log.v3.json into the store, if it is not there as it should
// be.
func writeMetadata(ctx context.Context, store storage.Store, l *openLog, now time.Time) error {
	old, err := stored(ctx, store, "log.v3.json")
	if err != nil {
		return err
	}
	info, err := makeLogInfo(l, obs.ReadBuild(), old, now)
	if err != nil {
		return fmt.Errorf("making log.v3.json: %w", err)
	}
	if bytes.Equal(old, info) {
		return nil
	}
	if err := store.Put(ctx, storage.Object{Name: "log.v3.json", Data: info}); err != nil {
		return fmt.Errorf("writing log.v3.json: %w", err)
	}
	return nil
}

// stored returns an object of the store, nil if it is absent.
func stored(ctx context.Context, store storage.Store, name string) ([]byte, error) {
	b, err := store.Get(ctx, name)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return b, nil
}
