//go:build !faultpoints

package posix

import "github.com/daybook-ct/daybook/internal/durable"

// faultPoints does nothing: see package internal/faultpoint.
func faultPoints(fsys durable.FS) durable.FS { return fsys }
