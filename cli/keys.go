package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/server/client"
)

func newKeysCmd(env Env) *cobra.Command {
	r := &remote{env: env}
	cmd := newGroupCmd("keys", "API keys of the control plane",
		`  svc keys create ci --scope agent
  svc keys create gateway-1 --scope ingest -o json
  svc keys delete key_01k…`,
		newKeyListCmd(r), newKeyCreateCmd(r),
		newDeleteCmd(r, "API key", `  svc keys delete key_01k… --yes`, completeKeys,
			nameIn(func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.KeyItem], error) {
				return c.ListKeys(ctx, client.KeyQuery{Page: p})
			}, "API key", func(k api.KeyItem) (string, string) { return k.ID, k.Name }),
			func(ctx context.Context, c *client.Client, id string) error { return c.DeleteKey(ctx, id) }),
	)
	r.addFlags(cmd)
	return cmd
}

func newKeyListCmd(r *remote) *cobra.Command {
	var q client.KeyQuery
	cmd := newListCmd(r, &cobra.Command{
		Use: "list", Short: "List API keys, newest first; never their secrets", Example: `  svc keys list --scope ingest`,
	}, columns[api.KeyItem]{
		[]string{"ID", "NAME", "SCOPE", "KEY", "CREATED BY", "LAST USED"},
		func(k api.KeyItem) []string {
			used := "never"
			if k.LastUsedAt != nil {
				used = stamp(*k.LastUsedAt)
			}
			return []string{k.ID, k.Name, k.Scope, k.Prefix + "…", cmp.Or(k.CreatedByEmail, k.CreatedBy), used}
		},
	}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.KeyItem], error) {
		q.Page = p
		return c.ListKeys(ctx, q)
	})
	enumFlag(cmd, &q.Scope, "scope", api.KeyScopes, "only keys of this scope")
	return cmd
}

func newKeyCreateCmd(r *remote) *cobra.Command {
	var in api.KeyCreate
	cmd := newValueCmd(r, &cobra.Command{
		Use: "create", Short: "Create an API key; its secret is shown once",
		Example: `  svc keys create gateway-1 --scope ingest -o json`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.KeyCreated, error) {
		return c.CreateKey(ctx, in)
	})
	f := cmd.Flags()
	f.StringVar(&in.Name, "name", "", "name")
	enumFlag(cmd, &in.Scope, "scope", api.KeyScopes, "api: everything; agent: read agents and traces; ingest: write traces")
	f.StringVar(&in.TeamID, "team-id", "", "limit the key to the scopes of a team")
	f.StringVar(&in.UserID, "user-id", "", "create it for another user")
	completeFlag(r, cmd, "team-id", completeTeams)
	takeName(cmd, &in.Name)
	requireFlags(cmd, "scope")
	return cmd
}
