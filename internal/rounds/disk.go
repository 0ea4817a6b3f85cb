package rounds

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MinFileSize is the least limit, in bytes, of the files of a round log.
const MinFileSize = 1 << 20

const (
	diskQueue   = 1024             // records waiting to be written
	flushEvery  = time.Second      // what a crash may lose; nothing is fsynced
	reopenAfter = 10 * time.Second // after an error
	tellEvery   = 10 * time.Minute // a line in the log about errors
)

// older is the name of the file with the older half of a ring.
func older(path string) string { return path + ".1" }

// disk writes records to a ring of two files, path and the older path.1, which
// together stay below a size. Adding a record never waits: if the disk does
// not keep up, or fails, records are dropped and counted.
type disk struct {
	path string
	half int64 // bytes of one file
	log  *slog.Logger
	open func(path string) (io.WriteCloser, int64, error) // for appending; returns the size, too

	queue  chan Record
	failed prometheus.Counter
	lost   prometheus.Counter

	// The following belong to the goroutine in run.
	file  io.WriteCloser // nil if it is not open
	w     *bufio.Writer
	size  int64     // of the file with what is in w
	again time.Time // not before then is the file opened once more
	told  time.Time // when the log was last told about an error
}

func newDisk(path string, maxSize int64, log *slog.Logger) *disk {
	return &disk{
		path: path, half: maxSize / 2, log: log, open: openRing, queue: make(chan Record, diskQueue),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_round_log_errors_total",
			Help: "Failures to write the file of round records. Rounds do not depend on it."}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_round_log_lost_total",
			Help: "Round records that were not written to the file, as it failed or was too slow."}),
	}
}

// add hands a record to the goroutine that writes.
func (d *disk) add(r Record) {
	select {
	case d.queue <- r:
	default:
		d.lost.Inc()
	}
}

// run writes records until the queue is closed.
func (d *disk) run() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	defer d.close()
	for {
		select {
		case r, ok := <-d.queue:
			if !ok {
				return
			}
			if err := d.write(&r); err != nil {
				d.lost.Inc()
				d.fail(err)
			}
		case <-tick.C:
			if d.file != nil {
				if err := d.w.Flush(); err != nil {
					d.fail(err)
				}
			}
		}
	}
}

// errResting means that the file failed a moment ago.
var errResting = errors.New("not tried: the file failed a moment ago")

func (d *disk) write(r *Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if d.file == nil {
		if time.Now().Before(d.again) {
			return errResting
		}
		if err := d.start(); err != nil {
			return err
		}
	}
	if d.size+int64(len(line)) > d.half && d.size > 0 {
		if err := d.rotate(); err != nil {
			return err
		}
	}
	d.size += int64(len(line))
	_, err = d.w.Write(line)
	return err
}

// start opens the file to go on with it.
func (d *disk) start() (err error) {
	// An older file from a time with a larger limit would break the smaller one.
	if info, err := os.Stat(older(d.path)); err == nil && info.Size() > d.half {
		if err := os.Remove(older(d.path)); err != nil {
			return err
		}
	}
	if d.file, d.size, err = d.open(d.path); err != nil {
		d.file = nil
		return err
	}
	d.w = bufio.NewWriterSize(d.file, 64<<10)
	return nil
}

// rotate makes the file the older one and begins a new one.
func (d *disk) rotate() error {
	err := errors.Join(d.w.Flush(), d.file.Close())
	d.file = nil
	if err != nil {
		return err
	}
	if err := os.Rename(d.path, older(d.path)); err != nil {
		return err
	}
	return d.start()
}

// fail counts an error, and lets the file rest for a while.
func (d *disk) fail(err error) {
	if errors.Is(err, errResting) {
		return
	}
	d.failed.Inc()
	if d.file != nil {
		_ = d.file.Close() // it has failed already
		d.file = nil
	}
	now := time.Now()
	d.again = now.Add(reopenAfter)
	if d.told.IsZero() || now.Sub(d.told) >= tellEvery {
		d.told = now
		d.log.Warn("round records cannot be written to their file; rounds go on", "path", d.path, "cause", err)
	}
}

func (d *disk) close() {
	if d.file == nil {
		return
	}
	if err := errors.Join(d.w.Flush(), d.file.Close()); err != nil {
		d.fail(err)
	}
	d.file = nil
}

// openRing opens a file for appending whole lines: one that a crash has torn is
// ended first.
func openRing(path string) (_ io.WriteCloser, size int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: errors.New("is no regular file")}
	}
	size = info.Size()
	if size == 0 {
		return f, 0, nil
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil {
		return nil, 0, fmt.Errorf("reading the end: %w", err)
	}
	if last[0] != '\n' {
		if _, err := f.Write([]byte{'\n'}); err != nil {
			return nil, 0, err
		}
		size++
	}
	return f, size, nil
}
