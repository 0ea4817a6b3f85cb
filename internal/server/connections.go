package server

import (
	"fmt"
	"log/slog"
	"math"
	"syscall"
)

// Files that the process has open, or may need at any moment to go on writing.
// A log without a free one could not publish, and would halt, so connections
// get only what is left.
const (
	filesOfProcess    = 64 // standard streams, listeners, reading roots and the like
	filesOfLog        = 64 // databases, directories, and 16 writes at a time
	filesOfConnection = 3  // itself, an object being read, and a directory on the way to it

	adminConnections = 32

	// minConnections is what a listener must have for a start to make sense.
	minConnections = 32
)

// connections returns how many connections each of so many listeners may have,
// if the process may have so many files open.
func connections(files uint64, logs, listeners int) (int, error) {
	reserved := uint64(filesOfProcess + logs*filesOfLog + adminConnections*filesOfConnection)
	least := reserved + uint64(listeners*minConnections*filesOfConnection)
	if files < least {
		return 0, fmt.Errorf("the open-file limit is %d, and %d logs need at least %d: raise it (LimitNOFILE= of the service, or ulimit -n)", files, logs, least)
	}
	n := (files - reserved) / filesOfConnection / uint64(listeners)
	return int(min(n, math.MaxInt32)), nil
}

// connectionLimit returns connections for this process. The Go runtime has
// raised the limit as far as it may.
func connectionLimit(logs, listeners int, logger *slog.Logger) (int, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("reading the open-file limit: %w", err)
	}
	n, err := connections(uint64(files.Cur), logs, listeners)
	if err == nil {
		logger.Info("connections are limited by the open-file limit", "files", files.Cur, "connections", n, "listeners", listeners)
	}
	return n, err
}
