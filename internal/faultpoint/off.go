//go:build !faultpoints

package faultpoint

import "time"

// Enabled tells whether this binary has fault points.
const Enabled = false

// At does nothing.
func At(string, bool) error { return nil }

// Now is time.Now.
func Now() time.Time { return time.Now() }

// Unsynced is false.
func Unsynced(string) bool { return false }
