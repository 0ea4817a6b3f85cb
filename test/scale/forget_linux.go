package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// canForget says whether forget works.
const canForget = true

// forget takes a file out of the system's page cache, whoever else has it open.
func forget(f *os.File) error {
	if err := f.Sync(); err != nil { // what is not written yet cannot be dropped
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// noReadAhead makes the system read what is asked for, and no more.
func noReadAhead(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }
