package fsck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// leftovers are files that may be part of a round in progress. What is still
// there, and still out of place, at the end of the run and not before the grace
// is over, is a finding.
type leftovers struct {
	since  time.Time
	temps  []string // temporary files
	bundle []string // staging bundles
	beyond []string // tiles beyond the tree
	more   int64    // not kept
}

// mostLeftovers bounds the names that are kept of each kind.
const mostLeftovers = 100_000

func (l *leftovers) keep(list *[]string, name string) {
	if len(*list) >= mostLeftovers {
		l.more++
		return
	}
	*list = append(*list, name)
}

// files walks the storage directory. It checks the issuers and the roots, counts
// partial tiles of earlier sizes, and tells what does not belong there.
func (r *run) files(ctx context.Context) (*leftovers, error) {
	l := &leftovers{}
	size, err := r.size(ctx)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(r.dir.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // the log has removed it
			return nil
		case err != nil && isMediumError(err):
			return r.found.fault(damagef(name, "cannot be read: %v", unwrapPath(err)))
		case err != nil:
			return err
		case d.IsDir() && name == "lost+found":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if r.report.Files++; r.report.Files%1000 == 0 {
			r.progress("files", r.report.Files, 0)
		}
		return r.file(ctx, name, d, size, l)
	})
	if err != nil {
		return nil, fmt.Errorf("walking through the storage directory: %w", err)
	}
	l.since = time.Now()
	return l, nil
}

// size returns the size of the largest tree that is signed now.
func (r *run) size(ctx context.Context) (int64, error) {
	public, err := r.published(ctx)
	if err != nil {
		return 0, err
	}
	heads := []checkpoint.TreeHead{r.head, public.head}
	if r.o.Lock != "" {
		heads = append(heads, r.locked().head)
	}
	size := int64(0)
	for _, h := range heads {
		size = max(size, h.Tree.N)
	}
	return size, nil
}

func (r *run) file(ctx context.Context, name string, d fs.DirEntry, size int64, l *leftovers) error {
	if durable.IsTemp(path.Base(name)) {
		l.keep(&l.temps, name)
		return nil
	}
	kind := storage.KindOf(name)
	switch {
	case kind == storage.Invalid:
		return r.found.fault(damagef(name, "does not belong into the storage of a log"))
	case !d.Type().IsRegular():
		return r.found.fault(damagef(name, "is not a regular file"))
	}
	switch kind {
	case storage.Staging:
		l.keep(&l.bundle, name)
	case storage.Issuer:
		r.report.StoredIssuers++
		return r.issuer(ctx, name)
	case storage.Roots:
		return r.roots(ctx, name)
	case storage.HashTile, storage.DataTile, storage.NamesTile:
		t, err := tlog.ParseTilePath(name)
		if err != nil {
			return err // not with this kind
		}
		switch placeOf(t, size) {
		case placeBeyond:
			l.keep(&l.beyond, name)
		case placeEarlier:
			r.report.EarlierPartials++
		}
	}
	return nil
}

// place says what a tile is to a tree.
type place int

const (
	placeCurrent place = iota // one that the tree consists of
	placeEarlier              // a partial one of an earlier size of it
	placeBeyond               // of a larger tree
)

func placeOf(t tlog.Tile, size int64) place {
	n := size >> (tlog.TileHeight * max(t.L, 0)) // hashes or entries at the level
	switch have := n - t.N*tlog.TileWidth; {
	case have < int64(t.W):
		return placeBeyond
	case t.W == tlog.TileWidth || have == int64(t.W):
		return placeCurrent
	}
	return placeEarlier
}

// issuer checks a stored issuer, also one that no entry has: it was stored with
// a round that was not committed.
func (r *run) issuer(ctx context.Context, name string) error {
	der, err := r.src.Get(ctx, name, maxIssuer)
	if err != nil {
		return r.tell(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(der)); got != strings.TrimPrefix(name, "issuer/") {
		f := damagef(name, "does not hash to its name")
		f.Got, f.Want = got, strings.TrimPrefix(name, "issuer/")
		return r.found.fault(f)
	}
	if _, err := cert.Parse(der); err != nil {
		return r.found.fault(damagef(name, "certificate does not parse: %v", err))
	}
	return nil
}

// Limits of files, in bytes.
const (
	maxIssuer = 1 << 20
	maxRoots  = 64 << 20
)

// settle tells what of the leftovers is still there.
func (r *run) settle(ctx context.Context, l *leftovers) error {
	if l == nil {
		return nil
	}
	for {
		size, err := r.size(ctx)
		if err != nil {
			return err
		}
		if err := r.drop(l, size); err != nil {
			return err
		}
		wait := r.o.Grace - time.Since(l.since)
		if len(l.temps)+len(l.bundle)+len(l.beyond) == 0 {
			return nil
		}
		if wait <= 0 {
			break
		}
		if err := sleep(ctx, min(wait, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		names []string
		what  string
	}{
		{l.temps, "temporary file of a process that did not end cleanly: the log removes it when it starts"},
		{l.bundle, "staging bundle of a round that was not finished: the log finishes or drops it when it starts"},
		{l.beyond, "belongs to a larger tree than any that is signed: the checkpoint or the lock may be an old copy"},
	} {
		for _, name := range list.names {
			if err := r.found.fault(damagef(name, "%s", list.what)); err != nil {
				return err
			}
		}
	}
	if l.more > 0 {
		return r.found.fault(damagef("staging/", "%d more files are left over or out of place", l.more))
	}
	return nil
}

// drop removes from the leftovers what is none any more.
func (r *run) drop(l *leftovers, size int64) error {
	var failed error
	gone := func(name string) bool {
		_, err := r.dir.root.Lstat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && failed == nil {
			failed = fmt.Errorf("looking at %s: %w", name, err)
		}
		return err != nil
	}
	filter := func(list []string, out func(string) bool) []string {
		kept := list[:0]
		for _, name := range list {
			if !out(name) {
				kept = append(kept, name)
			}
		}
		return kept
	}
	l.temps, l.bundle = filter(l.temps, gone), filter(l.bundle, gone)
	l.beyond = filter(l.beyond, func(name string) bool {
		t, err := tlog.ParseTilePath(name)
		return err == nil && placeOf(t, size) != placeBeyond || gone(name)
	})
	return failed
}

// roots checks that the accepted roots, if the log keeps them here, can be read.
func (r *run) roots(ctx context.Context, name string) error {
	b, err := r.src.Get(ctx, name, maxRoots)
	if err != nil {
		return r.tell(err)
	}
	n, marked := 0, max(bytes.Count(b, []byte("-----BEGIN CERTIFICATE-----")), bytes.Count(b, []byte("-----END CERTIFICATE-----")))
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		if _, err := cert.Parse(block.Bytes); err != nil {
			return r.found.fault(damagef(name, "root number %d does not parse: %v", n, err))
		}
	}
	if n != marked {
		return r.found.fault(damagef(name, "%d of %d roots are not well-formed PEM", marked-n, marked))
	}
	return nil
}
