package incident

import (
	"errors"
	"io"
	"os"

	"github.com/daybook-ct/daybook/internal/durable"
)

// CopyFile copies a file and forgets both copies, as Cold does.
func CopyFile(from, to string) error {
	if err := copyFile(from, to); err != nil {
		return err
	}
	return errors.Join(Cold(from), Cold(to))
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// Cold makes the system forget what it has in memory of a file, as after a start of
// the machine, or when other files have taken the memory.
func Cold(path string) error { return durable.Reread(path) }
