package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/store"
)

func newTenantCmd(env Env) *cobra.Command {
	return newGroupCmd("tenant", "Create and list tenants, on the store itself",
		`  svc tenant create acme --org-id org_42 --data-dir /var/lib/svc
  svc tenant list --data-dir /var/lib/svc`,
		newTenantCreateCmd(env), newTenantListCmd(env))
}

func newTenantCreateCmd(env Env) *cobra.Command {
	var so storeOptions
	var in api.TenantCreate
	f := formatText
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a tenant with its first user and API key",
		Long: `Create a tenant, its user usr_admin and one API key of scope api, which is
shown once. A running server is asked through its socket in the data
directory; without one the store file is opened directly.`,
		Example: `  svc tenant create acme --org-id org_42 --data-dir /var/lib/svc -o json`,
		Args:    wantArgs("the tenant's NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Name = args[0]
			return so.operate(cmd, env, func(op operator) error {
				t, err := op.createTenant(cmd.Context(), in)
				if err != nil {
					return storeFailure(err)
				}
				if f != formatText {
					return writeValue(env.Stdout, f, t)
				}
				fmt.Fprintf(env.Stderr, "Tenant %s created as %s. Its API key is not shown again:\n", clean(t.Name), t.ID)
				_, err = fmt.Fprintln(env.Stdout, t.APIKey)
				return err
			})
		},
	}
	so.addFlags(cmd)
	cmd.Flags().StringVar(&in.OrgID, "org-id", "", "organization of the identity provider that belongs to the tenant")
	addFormatFlag(cmd, &f, formatText, formatJSON, formatYAML)
	return cmd
}

func newTenantListCmd(env Env) *cobra.Command {
	var so storeOptions
	f := formatTable
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tenants of a store",
		Example: `  svc tenant list --data-dir /var/lib/svc`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return so.operate(cmd, env, func(op operator) error {
				ts, err := op.tenants(cmd.Context())
				if err != nil {
					return storeFailure(err)
				}
				if f != formatTable {
					return writeValue(env.Stdout, f, ts)
				}
				rows := make([][]string, len(ts))
				for i, t := range ts {
					rows[i] = []string{t.ID, t.Name, t.OrgID, t.CreatedAt.Format(time.RFC3339)}
				}
				return writeTable(env.Stdout, []string{"ID", "NAME", "ORG", "CREATED"}, rows)
			})
		},
	}
	so.addFlags(cmd)
	addFormatFlag(cmd, &f, formatTable, formatJSON, formatYAML)
	return cmd
}

// storeFailure shows the fields that a store refused.
func storeFailure(err error) error {
	var se *store.Error
	if errors.As(err, &se) {
		return withDetails(err, se.Fields)
	}
	return err
}
