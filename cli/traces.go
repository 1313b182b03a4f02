package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/server/client"
)

func newTracesCmd(env Env) *cobra.Command {
	r := &remote{env: env}
	cmd := newGroupCmd("traces", "Traces of what agents did, and their statistics",
		`  svc traces list --since 1h --status error
  svc traces get 0199c2a4-…
  svc traces stats --period 7d --group-by agent`,
		newTraceListCmd(r), newTraceGetCmd(r), newTraceStatsCmd(r),
	)
	r.addFlags(cmd)
	return cmd
}

var traceColumns = columns[api.TraceItem]{
	[]string{"CREATED", "ID", "AGENT", "TOOL", "STATUS", "MS", "COST USD", "POLICIES"},
	func(t api.TraceItem) []string {
		status := t.Status
		if t.Blocked {
			status = "blocked"
		}
		var fired []string
		for _, p := range t.PoliciesFired {
			fired = append(fired, cmp.Or(p.Name, p.ID))
		}
		return []string{stamp(t.CreatedAt), t.ID, t.AgentName, dash(t.ToolName), status,
			number(t.DurationMs), usd(t.CostUSD), dash(strings.Join(fired, ","))}
	},
}

func newTraceListCmd(r *remote) *cobra.Command {
	var q client.TraceQuery
	cmd := newListCmd(r, &cobra.Command{
		Use: "list", Short: "List traces, newest first",
		Example: `  svc traces list --since 1h --status error
  svc traces list --min-injection-score 0.8 --all -o json`,
	}, traceColumns, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.TraceItem], error) {
		q.Page = p
		return c.ListTraces(ctx, q)
	})
	f := cmd.Flags()
	f.StringVar(&q.AgentID, "agent-id", "", "only traces of this agent")
	completeFlag(r, cmd, "agent-id", completeAgents)
	enumFlag(cmd, &q.Status, "status", api.TraceStatuses, "only traces with this outcome")
	f.StringVar(&q.Environment, "environment", "", "only traces of this environment")
	f.Var(momentValue{&q.Start, r.env.Now}, "since", "not before: a time, a date, or how long ago (1h, 7d)")
	f.Var(momentValue{&q.End, r.env.Now}, "until", "not after: a time, a date, or how long ago")
	f.Var(optionalFloat{&q.MinCostUSD}, "min-cost", "in USD")
	f.Var(optionalFloat{&q.MaxCostUSD}, "max-cost", "in USD")
	f.Var(optionalFloat{&q.MinInjectionScore}, "min-injection-score", "from 0 to 1")
	return cmd
}

func newTraceGetCmd(r *remote) *cobra.Command {
	return newValueCmd(r, &cobra.Command{
		Use: "get ID", Short: "Show a trace with its spans and scores", Example: `  svc traces get 0199c2a4-… -o json`,
		Args: wantArgs("an ID"), ValidArgsFunction: completeIDs(r, completeTraces),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Trace, error) {
		return c.GetTrace(ctx, args[0])
	})
}

func newTraceStatsCmd(r *remote) *cobra.Command {
	var q client.StatsQuery
	f := formatTable
	cmd := &cobra.Command{
		Use: "stats", Short: "Count, cost and latency of a period",
		Example: `  svc traces stats --period 7d --group-by agent`, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			stats, err := c.TraceStats(cmd.Context(), q)
			if err != nil {
				return r.explain(err)
			}
			if f != formatTable {
				return writeValue(r.env.Stdout, f, stats)
			}
			return writeStats(r.env.Stdout, stats)
		},
	}
	enumFlag(cmd, &q.Period, "period", api.StatsPeriods, "how far back (default 24h)")
	enumFlag(cmd, &q.GroupBy, "group-by", api.GroupBys, "one row for each")
	cmd.Flags().StringVar(&q.AgentID, "agent-id", "", "only this agent")
	completeFlag(r, cmd, "agent-id", completeAgents)
	addFormatFlag(cmd, &f, formatTable, formatJSON, formatYAML)
	return cmd
}

func writeStats(w io.Writer, s api.TraceStats) error {
	if err := writeFields(w, s.Summary); err != nil || len(s.Groups) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	rows := make([][]string, len(s.Groups))
	for i, g := range s.Groups {
		rows[i] = []string{groupName(g.GroupKey), count(g.TraceCount), number(g.ErrorRatePercent),
			number(g.AvgDurationMs), number(g.P95DurationMs), usd(g.TotalCostUSD)}
	}
	return writeTable(w, []string{"GROUP", "TRACES", "ERRORS %", "AVG MS", "P95 MS", "COST USD"}, rows)
}

// groupName shows what a row of statistics or costs is about.
func groupName(k api.GroupKey) string {
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	switch {
	case k.AgentName != nil || k.AgentID != nil:
		return dash(cmp.Or(text(k.AgentName), text(k.AgentID)))
	case k.ModelName != nil || k.ModelProvider != nil:
		return dash(model(text(k.ModelProvider), text(k.ModelName)))
	}
	return dash(text(k.Environment))
}
