//go:build !linux && !freebsd && !darwin

package cache

import "errors"

// statfs is known on Linux, FreeBSD and macOS only.
func statfs(string) (FSType, error) {
	return FSType{}, errors.New("the filesystem's type cannot be read on this system")
}
