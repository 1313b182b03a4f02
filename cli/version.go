package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
)

func newVersionCmd(env process.Env) *cobra.Command {
	format := output.FormatText
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and platform",
		Example: `  svc version
  svc version -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := env.Build.Info()
			if format == output.FormatText {
				_, err := fmt.Fprintln(env.Stdout, v)
				return err
			}
			return output.WriteValue(env.Stdout, format, v)
		},
	}
	output.AddFormatFlag(cmd, &format, output.FormatText, output.FormatJSON, output.FormatYAML)
	return cmd
}
