package command

import (
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"svc/cli/process"
)

// LogOptions are the flags for the log of servers, which is written to
// standard error.
type LogOptions struct {
	format string
	Level  slog.Level
}

func (o *LogOptions) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "log-format", "auto", "auto, text or json; auto is text for a terminal")
	f.TextVar(&o.Level, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

// Logger returns the logger of a server.
func (o *LogOptions) Logger(env process.Env) (*slog.Logger, error) {
	if !slices.Contains([]string{"auto", "text", "json"}, o.format) {
		return nil, Usagef("use auto, text or json", "--log-format: unknown format %q", o.format)
	}
	opts := &slog.HandlerOptions{Level: o.Level}
	if o.format == "json" || o.format == "auto" && !env.StderrTTY {
		return slog.New(slog.NewJSONHandler(env.Stderr, opts)), nil
	}
	return slog.New(slog.NewTextHandler(env.Stderr, opts)), nil
}
