package fsck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/daybook-ct/daybook/internal/durable"
)

// state is how far a run came: all before it was checked, nothing behind.
type state struct {
	// What is being checked. A run with other options cannot go on with it.
	Version    int    `json:"version"`
	Run        string `json:"run"` // "fsck" or "rebuild"
	Target     string `json:"target"`
	LogID      string `json:"log_id"`
	Cache      string `json:"cache"`
	All        bool   `json:"all"`
	Signatures bool   `json:"signatures"`
	FirstNames int64  `json:"first_names"`

	Checkpoint []byte    `json:"checkpoint"` // of the tree that is being checked
	Next       int64     `json:"next"`       // data tile
	Counts     Counts    `json:"counts"`
	Findings   []Finding `json:"findings"` // of tiles, and of the rows of their leaves
	More       int64     `json:"more"`     // findings that are not kept
}

const stateVersion = 1

// openState reads the state of an interrupted run, or starts a new one.
func (r *run) openState(kind string) error {
	r.state = &state{Version: stateVersion, Run: kind, Target: r.o.Target, LogID: fmt.Sprintf("%x", r.verifier.LogID()), Cache: r.o.Cache,
		All: r.o.All, Signatures: r.o.Signatures, FirstNames: r.o.FirstNames, Checkpoint: r.signed}
	if r.o.State == "" {
		return nil
	}
	b, err := os.ReadFile(r.o.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state of an interrupted run: %w", err)
	}
	var old state
	if err := json.Unmarshal(b, &old); err != nil {
		return fmt.Errorf("%s is not the state of an interrupted run: %w", r.o.State, err)
	}
	new := *r.state
	new.Checkpoint, new.Next, new.Counts, new.Findings, new.More = old.Checkpoint, old.Next, old.Counts, old.Findings, old.More
	if same, err := json.Marshal(new); err != nil || string(same) != string(remarshal(old)) {
		return fmt.Errorf("%s is the state of a run with other options, or of another log: give the same ones, or remove the file", r.o.State)
	}
	head, err := r.verifier.Verify(old.Checkpoint)
	if err != nil {
		return fmt.Errorf("%s: %w", r.o.State, err)
	}
	r.state, r.signed, r.head = &old, old.Checkpoint, head
	r.report.Tree, r.report.Timestamp, r.report.Resumed = head.Tree, head.Timestamp, true
	r.report.Counts = old.Counts
	for _, f := range old.Findings {
		r.found.add(f)
		r.inTiles.add(f)
	}
	r.found.more, r.inTiles.more = r.found.more+old.More, old.More
	return nil
}

// remarshal writes a state as it would be written now.
func remarshal(s state) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return nil // not with these types
	}
	return b
}

// saveState notes how far the run is. The caller holds what guards the state.
func (r *run) saveState() error {
	if r.o.State == "" || r.state == nil {
		return nil
	}
	r.state.Counts = r.report.Counts
	r.state.Findings = r.inTiles.all()
	r.state.More = r.inTiles.count() - int64(len(r.state.Findings))
	b, err := json.MarshalIndent(r.state, "", " ")
	if err == nil {
		err = durable.WriteFile(r.o.State, append(b, '\n'), durable.Replace, 0o644)
	}
	if err != nil {
		return fmt.Errorf("noting how far the run came: %w", err)
	}
	return nil
}

// removeState ends the run.
func (r *run) removeState() error {
	if r.o.State == "" {
		return nil
	}
	if err := os.Remove(r.o.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the state of the run: %w", err)
	}
	return nil
}
