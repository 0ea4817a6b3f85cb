package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// holdDirectory keeps other processes from running the log of a directory,
// until the file is closed or the process ends. Without it the second process
// would win the lock and the first one would halt.
func holdDirectory(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another process runs the log in %s", dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
