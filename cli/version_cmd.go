package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newVersionCmd(env Env) *cobra.Command {
	format := formatText
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and platform",
		Example: `  svc version
  svc version -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := env.Build.version()
			if format == formatText {
				_, err := fmt.Fprintln(env.Stdout, v)
				return err
			}
			return writeValue(env.Stdout, format, v)
		},
	}
	addFormatFlag(cmd, &format, formatText, formatJSON, formatYAML)
	return cmd
}
