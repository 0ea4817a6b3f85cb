package main

import (
	"os"
	"runtime/debug"
)

const (
	// garbagePercent makes a log collect garbage when its heap, with the ballast,
	// has grown by that much. Most of the heap of a saturated log is entries that
	// wait for a round, of which Go's own 100 would keep as much again.
	garbagePercent = 40

	// ballastSize is what a small heap counts as more than it is, in bytes.
	// Without it a log of a hundred entries a second, which has some 4 MB in use,
	// collects twice a second.
	ballastSize = 8 << 20
)

// ballast is never touched, so it is address space and no memory.
var ballast []byte

// boundGarbage sets when garbage is collected, unless the operator has set GOGC.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		ballast = make([]byte, ballastSize)
		debug.SetGCPercent(garbagePercent)
	}
}
