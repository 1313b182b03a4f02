package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/server/client"
)

func newCostsCmd(env Env) *cobra.Command {
	r := &remote{env: env}
	cmd := newGroupCmd("costs", "Spending: breakdown and budgets",
		`  svc costs breakdown --period 7d --group-by model
  svc costs budgets create support --agent-id agt_01k… --period monthly --limit-usd 500`,
		newBreakdownCmd(r),
		newGroupCmd("budgets", "Budgets of agents", `  svc costs budgets list`,
			newBudgetListCmd(r), newBudgetCreateCmd(r), newBudgetUpdateCmd(r),
			newDeleteCmd(r, "budget", `  svc costs budgets delete bud_01k… --yes`, completeBudgets,
				nameIn(wholeList((*client.Client).ListBudgets), "budget", func(b api.Budget) (string, string) { return b.ID, b.Name }),
				func(ctx context.Context, c *client.Client, id string) error { return c.DeleteBudget(ctx, id) }),
		),
	)
	r.addFlags(cmd)
	return cmd
}

func newBreakdownCmd(r *remote) *cobra.Command {
	var q client.BreakdownQuery
	f := formatTable
	cmd := &cobra.Command{
		Use: "breakdown", Short: "What was spent, by agent, model or environment",
		Example: `  svc costs breakdown --period 7d --group-by model`, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			b, err := c.CostBreakdown(cmd.Context(), q)
			if err != nil {
				return r.explain(err)
			}
			if f != formatTable {
				return writeValue(r.env.Stdout, f, b)
			}
			rows := make([][]string, 0, len(b.Data)+1)
			for _, e := range b.Data {
				rows = append(rows, []string{groupName(e.GroupKey), usd(e.TotalCostUSD), count(e.TraceCount),
					count(e.InputTokens), count(e.OutputTokens), usd(e.AvgCostPerTrace)})
			}
			rows = append(rows, []string{fmt.Sprintf("all, %s", b.Period), usd(b.TotalCostUSD), "", "", "", ""})
			return writeTable(r.env.Stdout, []string{"GROUP", "COST USD", "TRACES", "TOKENS IN", "TOKENS OUT", "USD/TRACE"}, rows)
		},
	}
	enumFlag(cmd, &q.Period, "period", api.BreakdownPeriods, "how far back (default 30d)")
	enumFlag(cmd, &q.GroupBy, "group-by", api.GroupBys, "one row for each (default agent)")
	cmd.Flags().StringVar(&q.AgentID, "agent-id", "", "only this agent")
	completeFlag(r, cmd, "agent-id", completeAgents)
	addFormatFlag(cmd, &f, formatTable, formatJSON, formatYAML)
	return cmd
}

func newBudgetListCmd(r *remote) *cobra.Command {
	return newListAllCmd(r, &cobra.Command{
		Use: "list", Short: "List budgets and what is left of them", Example: `  svc costs budgets list`,
	}, columns[api.Budget]{
		[]string{"ID", "NAME", "AGENT", "PERIOD", "LIMIT USD", "SPENT USD", "USED %", "RESETS"},
		func(b api.Budget) []string {
			return []string{b.ID, b.Name, b.AgentName, b.Period, usd(b.LimitUSD), usd(b.CurrentUSD), number(b.PercentUsed), stamp(b.ResetAt)}
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
	enumFlag(cmd, &b.period, "period", api.BudgetPeriods, "when it starts anew, in UTC")
	f.Var(optionalFloat{&b.limit}, "limit-usd", "limit in USD")
}

func newBudgetCreateCmd(r *remote) *cobra.Command {
	var b budgetFlags
	cmd := newValueCmd(r, &cobra.Command{
		Use: "create", Short: "Create a budget",
		Example: `  svc costs budgets create support --agent-id agt_01k… --period monthly --limit-usd 500`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.Budget, error) {
		return c.CreateBudget(ctx, api.BudgetCreate{Name: b.name, AgentID: b.agent, Period: b.period, LimitUSD: b.limit})
	})
	b.add(cmd)
	completeFlag(r, cmd, "agent-id", completeAgents)
	takeName(cmd, &b.name)
	requireFlags(cmd, "agent-id", "period", "limit-usd")
	return cmd
}

func newBudgetUpdateCmd(r *remote) *cobra.Command {
	var b budgetFlags
	var cmd *cobra.Command
	cmd = newValueCmd(r, &cobra.Command{
		Use: "update ID", Short: "Change a budget; what is not given stays",
		Example: `  svc costs budgets update bud_01k… --limit-usd 800`,
		Args:    wantArgs("an ID"), ValidArgsFunction: completeIDs(r, completeBudgets),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Budget, error) {
		if err := anyChanged(cmd, "name", "agent-id", "period", "limit-usd"); err != nil {
			return api.Budget{}, err
		}
		return c.UpdateBudget(ctx, args[0], api.BudgetUpdate{
			Name: changed(cmd, "name", &b.name), AgentID: changed(cmd, "agent-id", &b.agent),
			Period: changed(cmd, "period", &b.period), LimitUSD: b.limit,
		})
	})
	b.add(cmd)
	completeFlag(r, cmd, "agent-id", completeAgents)
	return cmd
}
