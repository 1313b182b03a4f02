package planecmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

var teams = rest.Resource[api.Team]{
	Noun: "team", Path: "svc teams", ID: "team_01k…",
	Describe: func(t api.Team) (string, string) { return t.ID, t.Name },
	Columns: rest.Columns[api.Team]{
		Header: []string{"ID", "NAME", "MEMBERS", "SCOPES", "CREATED"},
		Row: func(t api.Team) []string {
			return []string{t.ID, t.Name, command.Count(int64(t.MemberCount)), strings.Join(t.Scopes, " "), command.Stamp(t.CreatedAt)}
		},
	},
	Fetch: func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.Team], error) {
		return c.ListTeams(ctx, p)
	},
	Get:    rest.GetBy((*client.Client).GetTeam, func(t api.Team) string { return t.Name }),
	Create: func() rest.Creator { return &teamFields{} },
	Update: func() rest.Updater { return &teamFields{} },
	Delete: func(ctx context.Context, c *client.Client, id string) ([]string, error) { return c.DeleteTeam(ctx, id) },

	ListHelp:   rest.Help{Short: "List teams, newest first", Example: `  svc teams list -o json`},
	GetHelp:    rest.Help{Short: "Show a team", Example: `  svc teams get team_01k…`},
	CreateHelp: rest.Help{Short: "Create a team", Example: `  svc teams create Platform`},
	UpdateHelp: rest.Help{Short: "Change a team; fields without a flag keep their values", Example: `  svc teams update team_01k… --description "runs the agents"`},
}

// NewTeamsCmd returns the command 'svc teams'.
func NewTeamsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("teams", "Manage teams, their members and the scopes of their keys",
		`  svc teams create Platform --description "runs the agents"
  svc teams set-scopes team_01k… agents:read traces:read
  svc teams add-member team_01k… --email ada@example.com --role admin`,
		append(teams.Commands(r), newTeamScopesCmd(r), newMembersCmd(r), newAddMemberCmd(r), newRemoveMemberCmd(r))...)
	r.AddFlags(cmd)
	return cmd
}

// teamFields are the fields of a team as flags.
type teamFields struct {
	cmd               *cobra.Command
	name, description string
}

// Flags adds the flags.
func (t *teamFields) Flags(_ *rest.Connection, cmd *cobra.Command) {
	t.cmd = cmd
	cmd.Flags().StringVar(&t.name, "name", "", "name")
	cmd.Flags().StringVar(&t.description, "description", "", "what the team does")
}

// Create creates the team.
func (t *teamFields) Create(ctx context.Context, c *client.Client) (any, error) {
	return c.CreateTeam(ctx, api.TeamCreate{Name: t.name, Description: t.description})
}

// Update changes the fields whose flags were given.
func (t *teamFields) Update(ctx context.Context, c *client.Client, id string) (any, error) {
	return c.UpdateTeam(ctx, id, api.TeamUpdate{
		Name: command.Changed(t.cmd, "name", &t.name), Description: command.Changed(t.cmd, "description", &t.description),
	})
}

func newTeamScopesCmd(r *rest.Connection) *cobra.Command {
	return teams.TakesName(r, rest.NewValueCmd(r, &cobra.Command{
		Use: "set-scopes ID [SCOPE...]", Short: "Replace all scopes of a team",
		Long: `Replace the whole list of scopes of a team. Without a SCOPE the list becomes empty.

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
				return rest.CompleteIDs(r, teams.Complete)(cmd, args, word)
			}
			return api.TeamScopes, cobra.ShellCompDirectiveNoFileComp
		},
	}, func(ctx context.Context, c *client.Client, args []string) (api.Team, error) {
		return c.ReplaceTeamScopes(ctx, args[0], append([]string{}, args[1:]...))
	}), nil)
}

func newMembersCmd(r *rest.Connection) *cobra.Command {
	var id string
	return teams.TakesName(r, rest.NewListAllCmd(r, &cobra.Command{
		Use: "members ID", Short: "List the members of a team", Example: `  svc teams members team_01k…`,
		Args: keepArg(&id, "an ID"), ValidArgsFunction: rest.CompleteIDs(r, teams.Complete),
	}, rest.Columns[api.Member]{
		Header: []string{"USER", "EMAIL", "ROLE", "JOINED"},
		Row:    func(m api.Member) []string { return []string{m.UserID, m.Email, m.Role, command.Stamp(m.JoinedAt)} },
	}, func(ctx context.Context, c *client.Client) (api.List[api.Member], error) {
		return c.ListMembers(ctx, id)
	}), &id)
}

func newAddMemberCmd(r *rest.Connection) *cobra.Command {
	var in api.MemberAdd
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use: "add-member ID", Short: "Add a member, by user id or e-mail address",
		Example: `  svc teams add-member team_01k… --email ada@example.com --role admin`,
		Args:    command.WantArgs("an ID"), ValidArgsFunction: rest.CompleteIDs(r, teams.Complete),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Member, error) {
		return c.AddMember(ctx, args[0], in)
	})
	cmd.Flags().StringVar(&in.UserID, "user-id", "", "id of the user")
	cmd.Flags().StringVar(&in.Email, "email", "", "e-mail address of the user")
	command.EnumFlag(cmd, &in.Role, "role", api.Roles, "role in the team (default member)")
	cmd.MarkFlagsOneRequired("user-id", "email")
	return teams.TakesName(r, cmd, nil)
}

func newRemoveMemberCmd(r *rest.Connection) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "remove-member ID USER", Short: "Remove a member from a team",
		Example: `  svc teams remove-member team_01k… usr_01k… --yes`,
		Args:    command.WantArgs("the team's ID", "the USER's id"), ValidArgsFunction: rest.CompleteIDs(r, teams.Complete),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.Confirm(r.Env, yes, fmt.Sprintf("remove %s from team %s", command.Clean(args[1]), command.Clean(args[0]))); err != nil {
				return err
			}
			c, err := r.Client()
			if err != nil {
				return err
			}
			if err := c.RemoveMember(cmd.Context(), args[0], args[1]); err != nil {
				return r.Explain(err)
			}
			fmt.Fprintf(r.Env.Stderr, "%s removed\n", command.Clean(args[1]))
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return teams.TakesName(r, cmd, nil)
}
