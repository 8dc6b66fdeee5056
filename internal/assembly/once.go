package assembly

import (
	"context"
	"log/slog"
	"time"

	"coldtap/internal/episode"
)

const (
	// saidFor is how long a warning about a segment is not repeated: it is in the log, and metrics count how often it
	// happens.
	saidFor = time.Hour
	// saidMost bounds the segments that are remembered, some 100 bytes each.
	saidMost = 10_000
)

// once passes a warning about a segment on and drops those that follow within saidFor, whatever else they tell: a
// thousand readers of one damaged batch, or a thousand damaged batches of one segment, are one line. Lines without a
// segment pass.
type once struct {
	slog.Handler
	said *episode.Seldom[string]
}

func onceASegment(h slog.Handler) slog.Handler {
	return &once{h, &episode.Seldom[string]{Every: saidFor, Most: saidMost}}
}

func (o *once) Handle(ctx context.Context, r slog.Record) error {
	key := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "segment" {
			key = r.Message + " " + a.Value.String()
		}
		return key == ""
	})
	if key != "" && r.Level >= slog.LevelWarn && !o.said.Due(key, r.Time) {
		return nil
	}
	return o.Handler.Handle(ctx, r)
}

func (o *once) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &once{o.Handler.WithAttrs(attrs), o.said}
}
func (o *once) WithGroup(name string) slog.Handler { return &once{o.Handler.WithGroup(name), o.said} }
