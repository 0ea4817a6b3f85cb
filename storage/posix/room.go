package posix

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// roomMargin is left free beside what a round asks for, as others write to
	// the same file system, and may fill it between the question and the last
	// write. On small file systems it is a sixteenth of them.
	roomMargin = 16 << 20

	readOnlyMount = 1 // ST_RDONLY of Linux, MNT_RDONLY of BSD
)

// Room returns nil if the file system has room for so many more bytes and files,
// and a margin. It fails with unix.ENOSPC, or unix.EROFS if the file system is
// mounted for reading only, which the kernel does with one that has errors.
func (s *Store) Room(bytes, files int64) error {
	free, err := FreeSpace(s.path)
	if err != nil {
		return err
	}
	bytes += min(roomMargin, free.TotalBytes/16)
	switch {
	case free.ReadOnly:
		return fmt.Errorf("storage directory %s: %w", s.path, unix.EROFS)
	case free.Bytes < bytes:
		return fmt.Errorf("storage directory %s: %w: %d bytes are free, less than %d", s.path, unix.ENOSPC, free.Bytes, bytes)
	case free.TotalInodes > 0 && free.Inodes < files:
		return fmt.Errorf("storage directory %s: %w: %d inodes are free, less than %d", s.path, unix.ENOSPC, free.Inodes, files)
	}
	return nil
}
