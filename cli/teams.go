package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/server/client"
)

func newTeamsCmd(env Env) *cobra.Command {
	r := &remote{env: env}
	cmd := newGroupCmd("teams", "Teams: members and what their keys may do",
		`  svc teams create Platform --description "runs the agents"
  svc teams set-scopes team_01k… agents:read traces:read
  svc teams add-member team_01k… --email ada@example.com --role admin`,
		newListCmd(r, &cobra.Command{
			Use: "list", Short: "List teams, newest first", Example: `  svc teams list -o json`,
		}, columns[api.Team]{
			[]string{"ID", "NAME", "MEMBERS", "SCOPES", "CREATED"},
			func(t api.Team) []string {
				return []string{t.ID, t.Name, count(int64(t.MemberCount)), strings.Join(t.Scopes, " "), stamp(t.CreatedAt)}
			},
		}, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Team], error) {
			return c.ListTeams(ctx, p)
		}),
		newValueCmd(r, &cobra.Command{
			Use: "get ID", Short: "Show a team", Example: `  svc teams get team_01k…`,
			Args: wantArgs("an ID"), ValidArgsFunction: completeIDs(r, completeTeams),
		}, func(ctx context.Context, c *client.Client, args []string) (api.Team, error) {
			return c.GetTeam(ctx, args[0])
		}),
		newTeamCreateCmd(r), newTeamUpdateCmd(r),
		newDeleteCmd(r, "team", `  svc teams delete team_01k… --yes`, completeTeams,
			func(ctx context.Context, c *client.Client, id string) (string, error) {
				t, err := c.GetTeam(ctx, id)
				return t.Name, err
			},
			func(ctx context.Context, c *client.Client, id string) error { return c.DeleteTeam(ctx, id) }),
		newTeamScopesCmd(r), newMembersCmd(r), newAddMemberCmd(r), newRemoveMemberCmd(r),
	)
	r.addFlags(cmd)
	return cmd
}

func newTeamCreateCmd(r *remote) *cobra.Command {
	var in api.TeamCreate
	cmd := newValueCmd(r, &cobra.Command{
		Use: "create", Short: "Create a team", Example: `  svc teams create Platform`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.Team, error) {
		return c.CreateTeam(ctx, in)
	})
	cmd.Flags().StringVar(&in.Name, "name", "", "name")
	cmd.Flags().StringVar(&in.Description, "description", "", "what the team does")
	takeName(cmd, &in.Name)
	return cmd
}

func newTeamUpdateCmd(r *remote) *cobra.Command {
	var name, description string
	var cmd *cobra.Command
	cmd = newValueCmd(r, &cobra.Command{
		Use: "update ID", Short: "Change a team; what is not given stays",
		Example: `  svc teams update team_01k… --description "runs the agents"`,
		Args:    wantArgs("an ID"), ValidArgsFunction: completeIDs(r, completeTeams),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Team, error) {
		if err := anyChanged(cmd, "name", "description"); err != nil {
			return api.Team{}, err
		}
		return c.UpdateTeam(ctx, args[0], api.TeamUpdate{
			Name: changed(cmd, "name", &name), Description: changed(cmd, "description", &description),
		})
	})
	cmd.Flags().StringVar(&name, "name", "", "name")
	cmd.Flags().StringVar(&description, "description", "", "what the team does")
	return cmd
}

func newTeamScopesCmd(r *remote) *cobra.Command {
	return newValueCmd(r, &cobra.Command{
		Use: "set-scopes ID [SCOPE...]", Short: "Replace the scopes of a team, all of them",
		Long: `Replace the whole list of scopes of a team; without any it has none.

Scopes: ` + strings.Join(api.TeamScopes[:7], ", ") + `,
` + strings.Join(api.TeamScopes[7:], ", ") + `.`,
		Example: `  svc teams set-scopes team_01k… agents:read traces:read`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%q needs an ID", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return completeIDs(r, completeTeams)(cmd, args, word)
			}
			return api.TeamScopes, cobra.ShellCompDirectiveNoFileComp
		},
	}, func(ctx context.Context, c *client.Client, args []string) (api.Team, error) {
		return c.ReplaceTeamScopes(ctx, args[0], append([]string{}, args[1:]...))
	})
}

func newMembersCmd(r *remote) *cobra.Command {
	var id string
	return newListAllCmd(r, &cobra.Command{
		Use: "members ID", Short: "List the members of a team", Example: `  svc teams members team_01k…`,
		Args: keepArg(&id, "an ID"), ValidArgsFunction: completeIDs(r, completeTeams),
	}, columns[api.Member]{
		[]string{"USER", "EMAIL", "ROLE", "JOINED"},
		func(m api.Member) []string { return []string{m.UserID, m.Email, m.Role, stamp(m.JoinedAt)} },
	}, func(ctx context.Context, c *client.Client) (api.List[api.Member], error) {
		return c.ListMembers(ctx, id)
	})
}

func newAddMemberCmd(r *remote) *cobra.Command {
	var in api.MemberAdd
	cmd := newValueCmd(r, &cobra.Command{
		Use: "add-member ID", Short: "Add a member, by user id or e-mail address",
		Example: `  svc teams add-member team_01k… --email ada@example.com --role admin`,
		Args:    wantArgs("an ID"), ValidArgsFunction: completeIDs(r, completeTeams),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Member, error) {
		return c.AddMember(ctx, args[0], in)
	})
	cmd.Flags().StringVar(&in.UserID, "user-id", "", "id of the user")
	cmd.Flags().StringVar(&in.Email, "email", "", "e-mail address of the user")
	enumFlag(cmd, &in.Role, "role", api.Roles, "role in the team (default member)")
	cmd.MarkFlagsOneRequired("user-id", "email")
	return cmd
}

func newRemoveMemberCmd(r *remote) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "remove-member ID USER", Short: "Remove a member from a team",
		Example: `  svc teams remove-member team_01k… usr_01k… --yes`,
		Args:    wantArgs("the team's ID", "the USER's id"), ValidArgsFunction: completeIDs(r, completeTeams),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := confirm(r.env, yes, fmt.Sprintf("remove %s from team %s", clean(args[1]), clean(args[0]))); err != nil {
				return err
			}
			c, err := r.client()
			if err != nil {
				return err
			}
			if err := c.RemoveMember(cmd.Context(), args[0], args[1]); err != nil {
				return r.explain(err)
			}
			fmt.Fprintf(r.env.Stderr, "%s removed\n", clean(args[1]))
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
