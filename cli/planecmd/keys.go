package planecmd

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/api"
	"svc/server/client"
)

func NewKeysCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("keys", "API keys of the control plane",
		`  svc keys create ci --scope agent
  svc keys create gateway-1 --scope ingest -o json
  svc keys delete key_01k…`,
		newKeyListCmd(r), newKeyCreateCmd(r),
		rest.NewDeleteCmd(r, "API key", `  svc keys delete key_01k… --yes`, rest.CompleteKeys,
			rest.NameIn(func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.KeyItem], error) {
				return c.ListKeys(ctx, client.KeyQuery{Page: p})
			}, "API key", func(k api.KeyItem) (string, string) { return k.ID, k.Name }),
			func(ctx context.Context, c *client.Client, id string) error { return c.DeleteKey(ctx, id) }),
	)
	r.AddFlags(cmd)
	return cmd
}

func newKeyListCmd(r *rest.Connection) *cobra.Command {
	var q client.KeyQuery
	cmd := rest.NewListCmd(r, &cobra.Command{
		Use: "list", Short: "List API keys, newest first; never their secrets", Example: `  svc keys list --scope ingest`,
	}, rest.Columns[api.KeyItem]{
		Header: []string{"ID", "NAME", "SCOPE", "KEY", "CREATED BY", "LAST USED"},
		Row: func(k api.KeyItem) []string {
			used := "never"
			if k.LastUsedAt != nil {
				used = output.Stamp(*k.LastUsedAt)
			}
			return []string{k.ID, k.Name, k.Scope, k.Prefix + "…", cmp.Or(k.CreatedByEmail, k.CreatedBy), used}
		},
	}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.KeyItem], error) {
		q.Page = p
		return c.ListKeys(ctx, q)
	})
	command.EnumFlag(cmd, &q.Scope, "scope", api.KeyScopes, "only keys of this scope")
	return cmd
}

func newKeyCreateCmd(r *rest.Connection) *cobra.Command {
	var in api.KeyCreate
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use: "create", Short: "Create an API key; its secret is shown once",
		Example: `  svc keys create gateway-1 --scope ingest -o json`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.KeyCreated, error) {
		return c.CreateKey(ctx, in)
	})
	f := cmd.Flags()
	f.StringVar(&in.Name, "name", "", "name")
	command.EnumFlag(cmd, &in.Scope, "scope", api.KeyScopes, "api: everything; agent: read agents and traces; ingest: write traces")
	f.StringVar(&in.TeamID, "team-id", "", "limit the key to the scopes of a team")
	f.StringVar(&in.UserID, "user-id", "", "create it for another user")
	rest.CompleteFlag(r, cmd, "team-id", rest.CompleteTeams)
	command.TakeName(cmd, &in.Name)
	command.RequireFlags(cmd, "scope")
	return cmd
}
