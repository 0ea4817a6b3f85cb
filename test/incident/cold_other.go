//go:build !linux

package incident

import "errors"

var errLinux = errors.New("only on Linux a file can be made cold")

// CopyFile works on Linux only.
func CopyFile(string, string) error { return errLinux }

// Cold works on Linux only.
func Cold(string) error { return errLinux }
