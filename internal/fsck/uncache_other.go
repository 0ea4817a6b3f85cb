//go:build !linux

package fsck

import (
	"os"
	"syscall"
)

const euclean = syscall.EIO // there is no error of its own for it

func uncache(*os.File) {}
