//go:build !incident

package incident

// Enabled tells whether this binary can switch remedies off.
const Enabled = false

// Off reports whether a remedy is switched off: never.
func Off(Remedy) bool { return false }

// SlowReads does nothing.
func SlowReads() (done func()) { return func() {} }

// WALMade does nothing.
func WALMade(string) {}
