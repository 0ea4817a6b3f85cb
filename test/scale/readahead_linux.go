package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// noReadAhead makes the system read what is asked for, and no more.
func noReadAhead(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }
