package sequencer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/daybook-ct/daybook/storage"
)

// mendIssuers removes issuers that are in the store with other bytes than those
// about to be put. A damaged one would be found past commit otherwise, when
// nothing is left but to halt. It is no breach of S7: an issuer's name is the
// SHA-256 of its content, so what goes was never the object, and what is put in
// its place is what was promised.
//
// One that cannot be read is left for the operator: the disk may be failing.
func (l *Log) mendIssuers(ctx context.Context, objects []storage.Object) error {
	for _, o := range objects {
		if storage.KindOf(o.Name) != storage.Issuer {
			continue
		}
		switch found, err := l.c.Store.Get(ctx, o.Name); {
		case errors.Is(err, storage.ErrNotFound), err == nil && bytes.Equal(found, o.Data):
			continue
		case err != nil:
			return fmt.Errorf("reading %s, which is about to be put again; if it stays unreadable, remove it: %w", o.Name, err)
		}
		l.log.ErrorContext(ctx, "an issuer is damaged and is written again: look after the disk", "object", o.Name)
		if err := l.c.Store.Delete(ctx, o.Name); err != nil {
			return fmt.Errorf("removing the damaged %s: %w", o.Name, err)
		}
		l.metrics.mended.Inc()
	}
	return nil
}
