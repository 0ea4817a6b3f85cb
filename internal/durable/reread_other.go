//go:build !linux

package durable

import "os"

// Drops says whether DropCached has an effect on this system.
const Drops = false

// DropCached does nothing: these systems keep the pages of a write that failed
// as they are, to be written again, or have no such cache.
func DropCached(*os.File) error { return nil }
