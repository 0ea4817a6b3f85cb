package main

import (
	"runtime/debug"
	"testing"
)

// TestBoundGarbage: what the operator has set stays.
func TestBoundGarbage(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "77")
	boundGarbage()
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("GOGC is set, and yet the percentage is %d", got)
	}
	t.Setenv("GOGC", "")
	boundGarbage()
	if len(ballast) != ballastSize {
		t.Errorf("the ballast has %d bytes, want %d", len(ballast), ballastSize)
	}
	if got := debug.SetGCPercent(77); got != garbagePercent {
		t.Errorf("the percentage is %d, want %d", got, garbagePercent)
	}
}
