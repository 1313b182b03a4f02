package planecmd

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

var keys = rest.Resource[api.KeyItem]{
	Noun: "API key", Path: "svc keys", ID: "key_01k…",
	Describe: func(k api.KeyItem) (string, string) { return k.ID, k.Name },
	Columns: rest.Columns[api.KeyItem]{
		Header: []string{"ID", "NAME", "SCOPE", "KEY", "CREATED BY", "LAST USED"},
		Row: func(k api.KeyItem) []string {
			used := "never"
			if k.LastUsedAt != nil {
				used = command.Stamp(*k.LastUsedAt)
			}
			return []string{k.ID, k.Name, k.Scope, k.Prefix + "…", cmp.Or(k.CreatedByEmail, k.CreatedBy), used}
		},
	},
	Fetch: func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.KeyItem], error) {
		return c.ListKeys(ctx, client.KeyQuery{Page: p})
	},
	Filter: func(r *rest.Connection, cmd *cobra.Command) rest.Fetch[api.KeyItem] {
		var q client.KeyQuery
		command.EnumFlag(cmd, &q.Scope, "scope", api.KeyScopes, "only keys of this scope")
		return func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.KeyItem], error) {
			q.Page = p
			page, err := c.ListKeys(ctx, q)
			for _, k := range page.Data {
				if k.SessionKeys > 1 {
					r.Note("key %s is used by gateways with different session keys, which ask for the same approval again and again: give them the same session.key", cmp.Or(k.Name, k.ID))
				}
			}
			return page, err
		}
	},
	Create: func() rest.Creator { return &keyFields{} },
	Delete: rest.Deleted((*client.Client).DeleteKey),

	ListHelp:   rest.Help{Short: "List API keys without their secrets, newest first", Example: `  svc keys list --scope ingest`},
	CreateHelp: rest.Help{Short: "Create an API key; its secret is shown once", Example: `  svc keys create gateway-1 --scope ingest -o json`},
}

// NewKeysCmd returns the command 'svc keys'.
func NewKeysCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("keys", "Manage API keys of the control plane",
		`  svc keys create ci --scope agent
  svc keys create gateway-1 --scope ingest -o json
  svc keys delete key_01k…`, keys.Commands(r)...)
	r.AddFlags(cmd)
	return cmd
}

// keyFields are the fields of a new key as flags.
type keyFields struct{ in api.KeyCreate }

// Flags adds the flags.
func (k *keyFields) Flags(r *rest.Connection, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.in.Name, "name", "", "name")
	command.EnumFlag(cmd, &k.in.Scope, "scope", api.KeyScopes, "api: all endpoints; agent: read agents and traces; ingest: write traces")
	f.StringVar(&k.in.TeamID, "team-id", "", "limit the key to the scopes of a team")
	f.StringVar(&k.in.UserID, "user-id", "", "create it for another user")
	teams.CompleteFlag(r, cmd, "team-id")
	command.RequireFlags(cmd, "scope")
}

// Create creates the key.
func (k *keyFields) Create(ctx context.Context, c *client.Client) (any, error) {
	return c.CreateKey(ctx, k.in)
}
