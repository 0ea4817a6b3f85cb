package sequencer

import "fmt"

const (
	// blockSize is what an object may take beyond its bytes on the medium.
	blockSize = 4 << 10

	// checkpointRoom has room for the checkpoint, its temporary file and a
	// directory that grows, in bytes; checkpointFiles likewise.
	checkpointRoom  = 64 << 10
	checkpointFiles = 4
)

// checkRoom refuses a round that the storage has no room for, before the lock
// promises it: past commit there is no way back, and a log that cannot apply or
// publish halts. It counts a bundle, the objects in their places, and the
// checkpoint, which is all that a round without entries writes.
func (l *Log) checkRoom(r *round) error {
	if l.c.Room == nil {
		return nil
	}
	bytes, files := int64(checkpointRoom), int64(checkpointFiles)
	for _, o := range r.objects {
		bytes += 2 * (int64(len(o.Data)) + blockSize)
		files += 2 // an object may need a folder
	}
	if err := l.c.Room(bytes, files); err != nil {
		return refusal{fmt.Errorf("no room for the round: %w", err)}
	}
	return nil
}
