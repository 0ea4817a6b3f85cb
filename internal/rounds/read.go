package rounds

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// maxLine bounds a line of a round log, in bytes; a record has some 700.
const maxLine = 64 << 10

// Read reads records, one JSON line each, and leaves out those of rounds that
// began before since. Lines that are no records, like the one that was being
// written when the process died, are counted and skipped.
func Read(r io.Reader, since time.Time) (records []Record, skipped int, err error) {
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			skipped++
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			line = nil
		}
		if err != nil && err != io.EOF {
			return records, skipped, err
		}
		if len(line) > 0 && (len(line) > 1 || line[0] != '\n') {
			var rec Record
			switch {
			case json.Unmarshal(line, &rec) != nil || rec.Time.IsZero() || rec.Interval <= 0:
				skipped++
			case !rec.Time.Before(since):
				records = append(records, rec)
			}
		}
		if err == io.EOF {
			return records, skipped, nil
		}
	}
}

// ReadFiles reads the two files of a ring, of which path is the newer, from the
// oldest record on. It may be called while the ring is being written to.
func ReadFiles(path string, since time.Time) (records []Record, skipped int, err error) {
	// The newer file comes first: if it becomes the older one in between, it is
	// found twice, where the other way round it would be missed.
	newer, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, newer.Close()) }()
	old, err := os.Open(older(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return read(newer, since)
	case err != nil:
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	if same, err := sameFile(old, newer); err != nil || same {
		if err != nil {
			return nil, 0, err
		}
		return read(newer, since)
	}
	records, skipped, err = read(old, since)
	if err != nil {
		return nil, 0, err
	}
	more, torn, err := read(newer, since)
	return append(records, more...), skipped + torn, err
}

func read(f *os.File, since time.Time) ([]Record, int, error) {
	records, skipped, err := Read(f, since)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return records, skipped, nil
}

func sameFile(a, b *os.File) (bool, error) {
	ai, err := a.Stat()
	if err != nil {
		return false, err
	}
	bi, err := b.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(ai, bi), nil
}
