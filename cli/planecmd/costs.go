package planecmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/api"
	"svc/server/client"
)

func NewCostsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("costs", "Spending: breakdown and budgets",
		`  svc costs breakdown --period 7d --group-by model
  svc costs budgets create support --agent-id agt_01k… --period monthly --limit-usd 500`,
		newBreakdownCmd(r),
		command.NewGroupCmd("budgets", "Budgets of agents", `  svc costs budgets list`,
			newBudgetListCmd(r), newBudgetCreateCmd(r), newBudgetUpdateCmd(r),
			rest.NewDeleteCmd(r, "budget", `  svc costs budgets delete bud_01k… --yes`, rest.CompleteBudgets,
				rest.NameIn(rest.WholeList((*client.Client).ListBudgets), "budget", func(b api.Budget) (string, string) { return b.ID, b.Name }),
				func(ctx context.Context, c *client.Client, id string) error { return c.DeleteBudget(ctx, id) }),
		),
	)
	r.AddFlags(cmd)
	return cmd
}

func newBreakdownCmd(r *rest.Connection) *cobra.Command {
	var q client.BreakdownQuery
	f := output.FormatTable
	cmd := &cobra.Command{
		Use: "breakdown", Short: "What was spent, by agent, model or environment",
		Example: `  svc costs breakdown --period 7d --group-by model`, Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.Client()
			if err != nil {
				return err
			}
			b, err := c.CostBreakdown(cmd.Context(), q)
			if err != nil {
				return r.Explain(err)
			}
			if f != output.FormatTable {
				return output.WriteValue(r.Env.Stdout, f, b)
			}
			rows := make([][]string, 0, len(b.Data)+1)
			for _, e := range b.Data {
				rows = append(rows, []string{groupName(e.GroupKey), output.USD(e.TotalCostUSD), output.Count(e.TraceCount),
					output.Count(e.InputTokens), output.Count(e.OutputTokens), output.USD(e.AvgCostPerTrace)})
			}
			rows = append(rows, []string{fmt.Sprintf("all, %s", b.Period), output.USD(b.TotalCostUSD), "", "", "", ""})
			return output.WriteTable(r.Env.Stdout, []string{"GROUP", "COST USD", "TRACES", "TOKENS IN", "TOKENS OUT", "USD/TRACE"}, rows)
		},
	}
	command.EnumFlag(cmd, &q.Period, "period", api.BreakdownPeriods, "how far back (default 30d)")
	command.EnumFlag(cmd, &q.GroupBy, "group-by", api.GroupBys, "one row for each (default agent)")
	cmd.Flags().StringVar(&q.AgentID, "agent-id", "", "only this agent")
	rest.CompleteFlag(r, cmd, "agent-id", rest.CompleteAgents)
	output.AddFormatFlag(cmd, &f, output.FormatTable, output.FormatJSON, output.FormatYAML)
	return cmd
}

func newBudgetListCmd(r *rest.Connection) *cobra.Command {
	return rest.NewListAllCmd(r, &cobra.Command{
		Use: "list", Short: "List budgets and what is left of them", Example: `  svc costs budgets list`,
	}, rest.Columns[api.Budget]{
		Header: []string{"ID", "NAME", "AGENT", "PERIOD", "LIMIT USD", "SPENT USD", "USED %", "RESETS"},
		Row: func(b api.Budget) []string {
			return []string{b.ID, b.Name, b.AgentName, b.Period, output.USD(b.LimitUSD), output.USD(b.CurrentUSD), output.Number(b.PercentUsed), output.Stamp(b.ResetAt)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.Budget], error) { return c.ListBudgets(ctx) })
}

// budgetFlags are the fields of a budget as flags.
type budgetFlags struct {
	name, agent, period string
	limit               *float64
}

func (b *budgetFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.name, "name", "", "name, unique")
	f.StringVar(&b.agent, "agent-id", "", "agent that it is for")
	command.EnumFlag(cmd, &b.period, "period", api.BudgetPeriods, "when it starts anew, in UTC")
	f.Var(command.OptionalFloat{Value: &b.limit}, "limit-usd", "limit in USD")
}

func newBudgetCreateCmd(r *rest.Connection) *cobra.Command {
	var b budgetFlags
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use: "create", Short: "Create a budget",
		Example: `  svc costs budgets create support --agent-id agt_01k… --period monthly --limit-usd 500`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.Budget, error) {
		return c.CreateBudget(ctx, api.BudgetCreate{Name: b.name, AgentID: b.agent, Period: b.period, LimitUSD: b.limit})
	})
	b.add(cmd)
	rest.CompleteFlag(r, cmd, "agent-id", rest.CompleteAgents)
	command.TakeName(cmd, &b.name)
	command.RequireFlags(cmd, "agent-id", "period", "limit-usd")
	return cmd
}

func newBudgetUpdateCmd(r *rest.Connection) *cobra.Command {
	var b budgetFlags
	var cmd *cobra.Command
	cmd = rest.NewValueCmd(r, &cobra.Command{
		Use: "update ID", Short: "Change a budget; what is not given stays",
		Example: `  svc costs budgets update bud_01k… --limit-usd 800`,
		Args:    command.WantArgs("an ID"), ValidArgsFunction: rest.CompleteIDs(r, rest.CompleteBudgets),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Budget, error) {
		if err := command.AnyChanged(cmd, "name", "agent-id", "period", "limit-usd"); err != nil {
			return api.Budget{}, err
		}
		return c.UpdateBudget(ctx, args[0], api.BudgetUpdate{
			Name: command.Changed(cmd, "name", &b.name), AgentID: command.Changed(cmd, "agent-id", &b.agent),
			Period: command.Changed(cmd, "period", &b.period), LimitUSD: b.limit,
		})
	})
	b.add(cmd)
	rest.CompleteFlag(r, cmd, "agent-id", rest.CompleteAgents)
	return cmd
}
