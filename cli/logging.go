package cli

import (
	"log/slog"
	"slices"

	"github.com/spf13/cobra"
)

// logOptions are the flags of servers about their log, which goes to standard
// error.
type logOptions struct {
	format string
	level  slog.Level
}

func (o *logOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "log-format", "auto", "auto, text or json; auto is text for a terminal")
	f.TextVar(&o.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

// logger returns the logger of a server.
func (o *logOptions) logger(env Env) (*slog.Logger, error) {
	if !slices.Contains([]string{"auto", "text", "json"}, o.format) {
		return nil, usagef("use auto, text or json", "--log-format: unknown format %q", o.format)
	}
	opts := &slog.HandlerOptions{Level: o.level}
	if o.format == "json" || o.format == "auto" && !env.StderrTTY {
		return slog.New(slog.NewJSONHandler(env.Stderr, opts)), nil
	}
	return slog.New(slog.NewTextHandler(env.Stderr, opts)), nil
}
