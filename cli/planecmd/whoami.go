package planecmd

import (
	"context"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

// NewWhoamiCmd returns the command 'svc whoami'.
func NewWhoamiCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use: "whoami", Short: "Show the tenant, the scope and the limits of the API key in use",
		Long: `Show the API key in use: its tenant, its scope, the team that limits it, the user that
it belongs to, and the rate limits of the tenant. Every API key may read this.`,
		Example: `  svc whoami
  svc whoami -o json | jq -r .tenant.id`,
		Args: command.NoArgs,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.Whoami, error) { return c.Whoami(ctx) })
	r.AddFlags(cmd)
	return cmd
}
