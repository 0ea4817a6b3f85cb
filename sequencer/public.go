package sequencer

import (
	"context"
	"fmt"
	"time"
)

// publicPauses are the pauses between tries to fetch the public checkpoint. It
// is the only thing that tells a machine that was rolled back as a whole, so one
// lost packet must not be what it is skipped for.
var publicPauses = []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second}

// publicPatience bounds all tries together, and so what they add to a start.
const publicPatience = 6 * time.Second

// fetchPublic fetches the public checkpoint, trying again what fails. Its own
// end by ctx is an error like the others.
func (l *Log) fetchPublic(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, publicPatience)
	defer cancel()
	for try := 0; ; try++ {
		note, err := l.c.Public(ctx)
		if err == nil {
			return note, nil
		}
		err = fmt.Errorf("try %d: %w", try+1, err)
		if try == len(publicPauses) {
			return nil, err
		}
		pause := time.NewTimer(publicPauses[try])
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, err
		}
	}
}
