//go:build !linux

package durable

import "os"

// dropCached does nothing: these systems keep the pages of a write that failed
// as they are, to be written again, or have no such cache.
func dropCached(*os.File) error { return nil }
