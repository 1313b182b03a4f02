package planecmd

import (
	"context"

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
		Header: []string{"ID", "NAME", "AGENT", "PERIOD", "LIMIT USD", "SPENT USD", "USED %", "RESETS"},
		Row: func(b api.Budget) []string {
			return []string{b.ID, b.Name, b.AgentName, b.Period, command.USD(b.LimitUSD), command.USD(b.CurrentUSD), command.Number(b.PercentUsed), command.Stamp(b.ResetAt)}
		},
	},
	Fetch: rest.Whole((*client.Client).ListBudgets), Whole: true,
	Create: func() rest.Creator { return &budgetFields{create: true} },
	Update: func() rest.Updater { return &budgetFields{} },
	Delete: rest.Deleted((*client.Client).DeleteBudget),

	ListHelp:   rest.Help{Short: "List budgets and their remaining amounts", Example: `  svc costs budgets list`},
	CreateHelp: rest.Help{Short: "Create a budget", Example: `  svc costs budgets create support --agent-id agt_01k… --period monthly --limit-usd 500`},
	UpdateHelp: rest.Help{Short: "Change a budget; fields without a flag keep their values", Example: `  svc costs budgets update bud_01k… --limit-usd 800`},
}

// budgetFields are the fields of a budget as flags.
type budgetFields struct {
	cmd    *cobra.Command
	create bool

	name, agent, period string
	limit               *float64
}

// Flags adds the flags.
func (b *budgetFields) Flags(r *rest.Connection, cmd *cobra.Command) {
	b.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&b.name, "name", "", "name, unique")
	f.StringVar(&b.agent, "agent-id", "", "id of the agent")
	command.EnumFlag(cmd, &b.period, "period", api.BudgetPeriods, "when spending is reset, in UTC")
	f.Var(command.OptionalFloat{Value: &b.limit}, "limit-usd", "limit in USD")
	agents.CompleteFlag(r, cmd, "agent-id")
	if b.create {
		command.RequireFlags(cmd, "agent-id", "period", "limit-usd")
	}
}

// Create creates the budget.
func (b *budgetFields) Create(ctx context.Context, c *client.Client) (any, error) {
	return c.CreateBudget(ctx, api.BudgetCreate{Name: b.name, AgentID: b.agent, Period: b.period, LimitUSD: b.limit})
}

// Update changes the fields whose flags were given.
func (b *budgetFields) Update(ctx context.Context, c *client.Client, id string) (any, error) {
	return c.UpdateBudget(ctx, id, api.BudgetUpdate{
		Name: command.Changed(b.cmd, "name", &b.name), AgentID: command.Changed(b.cmd, "agent-id", &b.agent),
		Period: command.Changed(b.cmd, "period", &b.period), LimitUSD: b.limit,
	})
}
