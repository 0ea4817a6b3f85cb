package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/storage"
)

// directory is a [monitor.Source] on a storage directory. What it reads comes
// from the disk, not from the page cache, where the system lets it.
type directory struct {
	root *os.Root
	pace *pacer
}

func openDirectory(path string, p *pacer) (*directory, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("opening the storage directory: %w", err)
	}
	return &directory{root, p}, nil
}

func (d *directory) Close() error { return d.root.Close() }

// Get implements [monitor.Source]. A file that the disk fails to give is a
// fault of that file; one that may not be read, or cannot for lack of something
// else, is an error.
func (d *directory) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	kind := storage.KindOf(name)
	if !kind.Public() {
		return nil, fmt.Errorf("%q is not the name of an object", name)
	}
	if err := d.pace.wait(ctx); err != nil {
		return nil, err
	}
	raw, err := d.read(name, limit)
	d.pace.spend(int64(len(raw)))
	if err != nil {
		return nil, readFault(name, err)
	}
	if kind.Gzip() {
		return monitor.Decompress(name, raw, limit)
	}
	return raw, nil
}

func (d *directory) read(name string, limit int64) (b []byte, err error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, damagef(name, "is not a regular file")
	case info.Size() > limit:
		return nil, damagef(name, "more than %d bytes", limit)
	}
	_ = durable.DropCached(f) // it is a request: what is dirty or mapped stays
	b = make([]byte, info.Size()+1)
	n, err := io.ReadFull(f, b)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return b[:n:n], nil // of another length, if it changes right now
	}
	return nil, err
}

// damagef returns a fault of an object as a whole.
func damagef(object, format string, args ...any) *monitor.Fault {
	return &monitor.Fault{Object: object, Entry: -1, What: fmt.Sprintf(format, args...)}
}

// readFault puts an error of reading a file in the words of a source.
func readFault(name string, err error) error {
	var f *monitor.Fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", name, monitor.ErrNotFound)
	case isMediumError(err):
		return damagef(name, "cannot be read: %v", unwrapPath(err))
	}
	return fmt.Errorf("reading %s: %w", name, err)
}

// isMediumError tells whether reading failed because what is stored is bad, and
// not for a reason that has to do with this process.
func isMediumError(err error) bool {
	for _, bad := range []syscall.Errno{syscall.EIO, syscall.EBADMSG, syscall.ENOTDIR, syscall.ELOOP, euclean} {
		if errors.Is(err, bad) {
			return true
		}
	}
	return false
}

// unwrapPath drops the path of an error, which the finding has already.
func unwrapPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// paced is a source that is read at a bounded rate.
type paced struct {
	monitor.Source
	pace *pacer
}

func (p paced) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := p.pace.wait(ctx); err != nil {
		return nil, err
	}
	b, err := p.Source.Get(ctx, name, limit)
	p.pace.spend(int64(len(b)))
	return b, err
}

// pacer bounds the rate of reading. It is safe for concurrent use; concurrent
// readers may be ahead of the rate by one object each.
type pacer struct {
	perMiB, perObject time.Duration // 0 is no bound
	bytes             atomic.Int64  // read so far

	mu   sync.Mutex
	next time.Time // when reading may go on
}

// newPacer returns a pacer for rates per second, of which 0 is no bound.
func newPacer(bytes, objects int64) *pacer {
	p := &pacer{}
	if bytes > 0 {
		p.perMiB = time.Duration(float64(time.Second) * (1 << 20) / float64(bytes))
	}
	if objects > 0 {
		p.perObject = time.Second / time.Duration(objects)
	}
	return p
}

// wait waits until reading may go on.
func (p *pacer) wait(ctx context.Context) error {
	p.mu.Lock()
	d := time.Until(p.next)
	p.mu.Unlock()
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// spend notes that an object of n bytes was read.
func (p *pacer) spend(n int64) {
	p.bytes.Add(n)
	if p.perMiB == 0 && p.perObject == 0 {
		return
	}
	cost := p.perObject + time.Duration(float64(p.perMiB)*float64(n)/(1<<20))
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(cost)
}
