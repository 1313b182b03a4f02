package storecmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store"
	"svc/store/api"
)

func NewTenantCmd(env process.Env) *cobra.Command {
	return command.NewGroupCmd("tenant", "Create and list tenants and create their keys, directly in the store",
		`  svc tenant create acme --org-id org_42 --data-dir /var/lib/svc
  svc tenant list --data-dir /var/lib/svc
  svc tenant key acme --data-dir /var/lib/svc`,
		newTenantCreateCmd(env), newTenantListCmd(env), newTenantKeyCmd(env))
}

func newTenantCreateCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	var in api.TenantCreate
	f := command.FormatText
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a tenant with its first user and API key",
		Long: `Create a tenant, its user usr_admin and one API key of scope api, which is
shown once. If the server runs, the command uses the socket in the data directory;
otherwise it opens the store file directly.`,
		Example: `  svc tenant create acme --org-id org_42 --data-dir /var/lib/svc -o json`,
		Args:    command.WantArgs("the tenant's NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Name = args[0]
			return so.operate(cmd, env, func(op operator) error {
				t, err := op.createTenant(cmd.Context(), in)
				if err != nil {
					return storeFailure(err)
				}
				return showTenantKey(env, f, t, fmt.Sprintf("Tenant %s created as %s. Its API key is not shown again:", command.Clean(t.Name), t.ID))
			})
		},
	}
	so.addFlags(cmd)
	cmd.Flags().StringVar(&in.OrgID, "org-id", "", "organization of the identity provider that belongs to the tenant")
	command.AddFormatFlag(cmd, &f, command.FormatText, command.FormatJSON, command.FormatYAML)
	return cmd
}

func newTenantKeyCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	var in api.TenantKeyCreate
	f := command.FormatText
	cmd := &cobra.Command{
		Use:   "key TENANT",
		Short: "Create a new unlimited API key of a tenant",
		Long: `Create an API key of scope api, without a team, for the tenant with the given
id or name. The key is shown once. Use it when the last such key of a tenant is
lost, or when the identity provider deactivated or deleted the user of that key. The
key belongs to the user usr_admin; if the provider deactivated or deleted that user,
the key belongs to a new owner.

If the server runs, the command uses the socket in the data directory; otherwise it
opens the store file directly.`,
		Example: `  svc tenant key acme --data-dir /var/lib/svc -o json`,
		Args:    command.WantArgs("the tenant's id or name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Tenant = args[0]
			return so.operate(cmd, env, func(op operator) error {
				t, err := op.createTenantKey(cmd.Context(), in)
				if err != nil {
					return storeFailure(err)
				}
				return showTenantKey(env, f, t, fmt.Sprintf("New API key of tenant %s (%s). It is not shown again:", command.Clean(t.Name), t.ID))
			})
		},
	}
	so.addFlags(cmd)
	cmd.Flags().StringVar(&in.Name, "name", "operator", "name of the key")
	command.AddFormatFlag(cmd, &f, command.FormatText, command.FormatJSON, command.FormatYAML)
	return cmd
}

// showTenantKey prints a tenant with its new key: in text form only the key
// goes to standard output, so that it can be piped.
func showTenantKey(env process.Env, f command.Format, t api.Tenant, headline string) error {
	if f != command.FormatText {
		return command.WriteValue(env.Stdout, f, t)
	}
	fmt.Fprintln(env.Stderr, headline)
	_, err := fmt.Fprintln(env.Stdout, t.APIKey)
	return err
}

func newTenantListCmd(env process.Env) *cobra.Command {
	var so StoreOptions
	f := command.FormatTable
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tenants of a store",
		Example: `  svc tenant list --data-dir /var/lib/svc`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return so.read(cmd, env, func(op reader) error {
				ts, err := op.tenants(cmd.Context())
				if err != nil {
					return storeFailure(err)
				}
				return command.WriteList(env, f, []string{"ID", "NAME", "ORG", "CREATED"}, func(t api.Tenant) []string {
					return []string{t.ID, t.Name, t.OrgID, t.CreatedAt.Format(time.RFC3339)}
				}, ts)
			})
		},
	}
	so.addFlags(cmd)
	command.AddFormatFlag(cmd, &f, command.ListFormats...)
	return cmd
}

// storeFailure adds the fields that a store rejected to the error.
func storeFailure(err error) error {
	var se *store.Error
	if errors.As(err, &se) {
		return command.WithDetails(err, se.Fields)
	}
	return err
}
