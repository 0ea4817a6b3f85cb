//go:build !linux

package fsck

import "syscall"

const euclean = syscall.EIO // there is no error of its own for it
