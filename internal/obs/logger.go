package obs

import (
	"context"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// LoggerOptions say what a logger writes.
type LoggerOptions struct {
	JSON    bool                  // JSON lines rather than key=value
	Level   slog.Level            // least level that is written
	Metrics prometheus.Registerer // gets daybook_log_lines_total; may be nil
}

// NewLogger returns a logger that writes one line per record to w. Records are
// counted by level, so that an error line can raise an alert.
func NewLogger(w io.Writer, o LoggerOptions) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: o.Level}
	var h slog.Handler = slog.NewTextHandler(w, options)
	if o.JSON {
		h = slog.NewJSONHandler(w, options)
	}
	if o.Metrics == nil {
		return slog.New(h), nil
	}
	lines := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "daybook_log_lines_total",
		Help: "Log lines written, by level. Lines of level error need somebody to look.",
	}, []string{"level"})
	if err := o.Metrics.Register(lines); err != nil {
		return nil, err
	}
	c := counting{Handler: h}
	for i, level := range [...]string{"debug", "info", "warn", "error"} {
		c.lines[i] = lines.WithLabelValues(level)
	}
	return slog.New(c), nil
}

// counting is a handler that counts records by level.
type counting struct {
	slog.Handler
	lines [4]prometheus.Counter // debug, info, warn, error
}

func (c counting) Handle(ctx context.Context, r slog.Record) error {
	// Levels are four apart, from debug (-4) to error (8).
	c.lines[min(max(int(r.Level-slog.LevelDebug)/4, 0), len(c.lines)-1)].Inc()
	return c.Handler.Handle(ctx, r)
}

func (c counting) WithAttrs(attrs []slog.Attr) slog.Handler {
	c.Handler = c.Handler.WithAttrs(attrs)
	return c
}

func (c counting) WithGroup(name string) slog.Handler {
	c.Handler = c.Handler.WithGroup(name)
	return c
}
