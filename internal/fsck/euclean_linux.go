package fsck

import "golang.org/x/sys/unix"

const euclean = unix.EUCLEAN // what file systems say of their own damage
