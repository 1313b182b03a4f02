package planecmd

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/display"
)

// NewStatusCmd returns the command 'svc status'.
func NewStatusCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	f := command.FormatTable
	cmd := &cobra.Command{
		Use: "status", Short: "Show on one page what is wrong",
		Long: `Show what is wrong at the control plane and at its gateways, on one page.

Wrong are: a store that cannot be written, a gateway that is silent, has old policies or no writable audit
log, lost audit lines, an upstream that fails, a license with less than 7 days, a webhook that was
disabled, an SLA target that is breached, a budget that is exceeded, and a policy that no running gateway
enforces. Told are open approvals, budgets over a threshold, refused reports, gateways of which some
processes are silent and others run, and settings that wait for a restart. What the API key may not see
is named.

The exit code is 0 when nothing is wrong, 1 when something is, and 2 when the control plane cannot be
asked or refuses the key.`,
		Example: `  svc status
  svc status -o json | jq -r '.checks[] | select(.state == "wrong") | .text'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.Client()
			if err != nil {
				return err
			}
			report, err := display.ReadStatus(cmd.Context(), c, env.Now())
			if err != nil {
				return command.Usage(r.Explain(err), "")
			}
			if f == command.FormatTable {
				err = writeStatus(env, report)
			} else {
				err = command.WriteValue(env.Stdout, f, report)
			}
			if err == nil && !report.OK {
				err = command.ErrReported
			}
			return err
		},
	}
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	r.AddFlags(cmd)
	return cmd
}

// writeStatus writes a report for people: what is wrong first.
func writeStatus(env process.Env, report display.Status) error {
	w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range report.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", strings.ToUpper(c.State), c.Kind, command.Dash(visible(c.Name)), visible(c.Text))
		if c.Advice != "" {
			fmt.Fprintf(w, "\t\t\t→ %s\n", visible(c.Advice))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(report.NotSeen) > 0 {
		_, err := fmt.Fprintln(env.Stdout, "This key may not see:", strings.Join(report.NotSeen, ", "))
		return err
	}
	return nil
}
