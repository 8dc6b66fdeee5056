package main

import (
	"io"
	"log/slog"

	"coldtap/internal/config"

	"github.com/spf13/cobra"
)

// logFlags gives a command, and those below it, --log-level with a default and --log-format.
func logFlags(cmd *cobra.Command, level string) {
	flags := cmd.PersistentFlags()
	flags.String("log-level", level, "debug, info, warn or error")
	flags.String("log-format", "text", "text or json")
	for flag, values := range map[string][]cobra.Completion{
		"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"},
	} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// newLogger makes the logger that --log-level and --log-format ask for.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("--log-level: %q is not one of debug, info, warn, error", level)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: redacted})), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: inSeconds})), nil
	}
	return nil, usage("--log-format: %q is not one of text, json", format)
}

// redacted masks credentials in addresses: libraries put the URLs that they were given into their errors.
func redacted(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		return slog.String(a.Key, config.Redact(err.Error()))
	}
	if a.Value.Kind() == slog.KindString {
		a.Value = slog.StringValue(config.Redact(a.Value.String()))
	}
	return a
}

// inSeconds gives durations a unit too: the JSON handler writes them as a number of nanoseconds that nothing says are
// such.
func inSeconds(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return redacted(groups, a)
}
