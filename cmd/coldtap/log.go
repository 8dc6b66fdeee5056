package main

import (
	"io"
	"log/slog"
)

// newLogger makes the logger that --log-level and --log-format ask for.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("--log-level: %q is not one of debug, info, warn, error", level)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: least})), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: inSeconds})), nil
	}
	return nil, usage("--log-format: %q is not one of text, json", format)
}

// inSeconds gives durations a unit: the JSON handler writes them as a number of nanoseconds that nothing says are such.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}
