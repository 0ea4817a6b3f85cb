//go:build !faultpoints

package sequencer

import "time"

// faultPoints does nothing: see package internal/faultpoint.
func (c *Config) faultPoints() (opened func()) { return func() {} }

// wallClock is what rounds take the time from.
func wallClock() time.Time { return time.Now() }
