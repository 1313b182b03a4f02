package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
)

func newVersionCmd(env process.Env) *cobra.Command {
	format := command.FormatText
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and platform",
		Example: `  svc version
  svc version -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := env.Build.Info()
			if format == command.FormatText {
				_, err := fmt.Fprintln(env.Stdout, v)
				return err
			}
			return command.WriteValue(env.Stdout, format, v)
		},
	}
	command.AddFormatFlag(cmd, &format, command.FormatText, command.FormatJSON, command.FormatYAML)
	return cmd
}
