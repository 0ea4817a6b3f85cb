//go:build faultpoints

package posix

import (
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/faultpoint"
)

// faultPoints puts fault points before and after each file operation, for crash
// tests.
func faultPoints(fsys durable.FS) durable.FS {
	return durable.Hook(fsys, durable.Hooks{
		Before: func(c durable.Call) error { return faultpoint.At(faultpoint.File+string(c.Op), false) },
		After:  func(c durable.Call, _ error) { _ = faultpoint.At(faultpoint.File+string(c.Op), true) }, // kills only
	})
}
