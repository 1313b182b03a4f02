package planecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

func NewCostsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("costs", "Show spending and prices, and manage budgets",
		`  svc costs breakdown --period 7d --group-by model
  svc costs budgets create support --agent-id agt_01k… --period monthly --limit-usd 500`,
		newBreakdownCmd(r),
		command.NewGroupCmd("budgets", "Manage the budgets of agents", `  svc costs budgets list`, budgets.Commands(r)...),
		newPricesCmd(env),
	)
	r.AddFlags(cmd)
	return cmd
}

func newBreakdownCmd(r *rest.Connection) *cobra.Command {
	var q client.BreakdownQuery
	f := command.FormatTable
	cmd := &cobra.Command{
		Use: "breakdown", Short: "Show spending by agent, model or environment",
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
			if f != command.FormatTable {
				return command.WriteValue(r.Env.Stdout, f, b)
			}
			rows := make([][]string, 0, len(b.Data)+1)
			for _, e := range b.Data {
				rows = append(rows, []string{command.Dash(display.Group(e.GroupKey)), command.USD(e.TotalCostUSD), command.Count(e.TraceCount),
					command.Count(e.InputTokens), command.Count(e.OutputTokens), command.USD(e.AvgCostPerTrace)})
			}
			rows = append(rows, []string{fmt.Sprintf("all, %s", b.Period), command.USD(b.TotalCostUSD), "", "", "", ""})
			return command.ShowTable(r.Env, []string{"GROUP", "COST USD", "TRACES", "TOKENS IN", "TOKENS OUT", "USD/TRACE"}, rows)
		},
	}
	command.EnumFlag(cmd, &q.Period, "period", api.BreakdownPeriods, "how far back (default 30d)")
	command.EnumFlag(cmd, &q.GroupBy, "group-by", api.GroupBys, "one row for each (default agent)")
	cmd.Flags().StringVar(&q.AgentID, "agent-id", "", "only this agent")
	agents.CompleteFlag(r, cmd, "agent-id")
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	return cmd
}
