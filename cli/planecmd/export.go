package planecmd

import (
	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/rest"
	"svc/server/client"
)

// exportFormats are the formats of an export.
var exportFormats = []string{"ndjson", "csv"}

// newTraceExportCmd returns the command that writes all traces that pass the
// filters as they arrive. After an error the output is incomplete, and the exit
// code is 1.
func newTraceExportCmd(r *rest.Connection) *cobra.Command {
	var f client.TraceFilter
	var format string
	cmd := &cobra.Command{
		Use: "export", Short: "Write all traces that match the filters, newest first",
		Long: `Write all traces that match the filters to standard output, newest first, as a
stream: one JSON object a line, or CSV with a header. The export counts as one request
of the rate limit, however many traces it has. If the command ends with an error, the
output is incomplete.`,
		Example: `  svc traces export --since 7d > traces.ndjson
  svc traces export --since 2026-11-01 --until 2026-11-30 --format csv > november.csv`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.Client()
			if err != nil {
				return err
			}
			p := command.NewOutputProgress(r.Env)
			defer p.End()
			return r.Explain(c.ExportTraces(cmd.Context(), f, format, p.Writer(r.Env.Stdout)))
		},
	}
	addTraceFilter(r, cmd, &f)
	command.EnumFlag(cmd, &format, "format", exportFormats, "of the output (default ndjson)")
	return cmd
}
