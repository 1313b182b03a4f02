package planecmd

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

var budgets = rest.Resource[api.Budget]{
	Noun: "budget", Path: "svc costs budgets", ID: "bud_01k…",
	Describe: func(b api.Budget) (string, string) { return b.ID, b.Name },
	Columns: rest.Columns[api.Budget]{
		Header: []string{"ID", "NAME", "SCOPE", "FOR", "PERIOD", "LIMIT USD", "SPENT USD", "USED %", "RESETS"},
		Row: func(b api.Budget) []string {
			return []string{b.ID, b.Name, b.Scope, b.Payer(), b.Period, command.USD(b.LimitUSD), command.USD(b.CurrentUSD), command.Number(b.PercentUsed), command.Stamp(b.ResetAt)}
		},
	},
	Fetch: rest.Whole((*client.Client).ListBudgets), Whole: true,
	Create: func() rest.Creator { return &budgetFields{create: true} },
	Update: func() rest.Updater { return &budgetFields{} },
	Delete: rest.Deleted((*client.Client).DeleteBudget),

	ListHelp: rest.Help{Short: "List budgets and their remaining amounts", Example: `  svc costs budgets list`},
	CreateHelp: rest.Help{Short: "Create a budget", Long: `Create a budget of an agent, or with --scope of an environment, of a team or of the tenant. The costs
of a team are those of the traces whose agent belonged to it when they were recorded. A policy with
the condition budget_exceeded applies to a call when any budget that covers the call is used up.`, Example: `  svc costs budgets create support --agent-id agt_01k… --period monthly --limit-usd 500
  svc costs budgets create all --scope tenant --period monthly --limit-usd 5000 --warn-at 50,80`},
	UpdateHelp: rest.Help{Short: "Change a budget; fields without a flag keep their values", Example: `  svc costs budgets update bud_01k… --limit-usd 800`},
}

// budgetFields are the fields of a budget as flags.
type budgetFields struct {
	cmd    *cobra.Command
	create bool

	name, scope, agent, environment, team, period string
	limit                                         *float64
	warnAt                                        []int
}

// Flags adds the flags.
func (b *budgetFields) Flags(r *rest.Connection, cmd *cobra.Command) {
	b.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&b.name, "name", "", "name, unique")
	command.EnumFlag(cmd, &b.scope, "scope", api.BudgetScopes, "what the budget limits; agent if it is not given")
	f.StringVar(&b.agent, "agent-id", "", "id of the agent")
	f.StringVar(&b.environment, "environment", "", "the environment, for --scope environment")
	f.StringVar(&b.team, "team-id", "", "id of the team, for --scope team")
	command.EnumFlag(cmd, &b.period, "period", api.BudgetPeriods, "when spending is reset, in UTC")
	f.Var(command.OptionalFloat{Value: &b.limit}, "limit-usd", "limit in USD")
	f.IntSliceVar(&b.warnAt, "warn-at", nil, "percentages of the limit with an event budget.threshold, at most 2")
	agents.CompleteFlag(r, cmd, "agent-id")
	teams.CompleteFlag(r, cmd, "team-id")
	rest.CompleteFlag(r, cmd, "environment", completeEnvironments)
	if b.create {
		command.RequireFlags(cmd, "period", "limit-usd")
	}
}

// Create creates the budget.
func (b *budgetFields) Create(ctx context.Context, c *client.Client) (any, error) {
	return c.CreateBudget(ctx, api.BudgetCreate{Name: b.name, Scope: b.scope, AgentID: b.agent, Environment: b.environment, TeamID: b.team,
		Period: b.period, LimitUSD: b.limit, WarnAt: b.warnAt})
}

// Update changes the fields whose flags were given.
func (b *budgetFields) Update(ctx context.Context, c *client.Client, id string) (any, error) {
	up := api.BudgetUpdate{
		Name: command.Changed(b.cmd, "name", &b.name), Scope: command.Changed(b.cmd, "scope", &b.scope), AgentID: command.Changed(b.cmd, "agent-id", &b.agent),
		Environment: command.Changed(b.cmd, "environment", &b.environment), TeamID: command.Changed(b.cmd, "team-id", &b.team),
		Period: command.Changed(b.cmd, "period", &b.period), LimitUSD: b.limit,
	}
	if b.cmd.Flags().Changed("warn-at") {
		list := slices.Concat(api.WarnAt{}, b.warnAt)
		up.WarnAt = &list
	}
	return c.UpdateBudget(ctx, id, up)
}
