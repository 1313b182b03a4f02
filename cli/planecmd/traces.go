package planecmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

func NewTracesCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("traces", "List, follow and export traces of agents, and show statistics",
		`  svc traces list --since 1h --status error
  svc traces tail --tool delete_order
  svc traces get 0199c2a4-…
  svc traces stats --period 7d --group-by agent`,
		newTraceListCmd(r), newTraceGetCmd(r), newTraceStatsCmd(r), newTraceExportCmd(r), newTraceTailCmd(r),
	)
	r.AddFlags(cmd)
	return cmd
}

var traceColumns = rest.Columns[api.TraceItem]{
	// The order is that of their use: on a terminal of 80 cells the last ones are left out.
	Header: []string{"CREATED", "ID", "STATUS", "AGENT", "TOOL", "WHY", "MS", "COST USD", "POLICIES"},
	Row: func(t api.TraceItem) []string {
		var fired []string
		for _, p := range t.PoliciesFired {
			fired = append(fired, cmp.Or(p.Name, p.ID))
		}
		return []string{command.Stamp(t.CreatedAt), t.ID, outcome(t), t.AgentName, command.Dash(t.ToolName), command.Dash(whyOf(t)),
			command.Number(t.DurationMs), command.USD(t.CostUSD), command.Dash(strings.Join(fired, ","))}
	},
	WideHeader: []string{"PRINCIPAL", "CLIENT", "SESSION", "ENVIRONMENT", "MODEL", "TOKENS IN", "TOKENS OUT", "PII", "RULE", "APPROVAL", "LABELS", "SETS", "REQUEST"},
	WideRow: func(t api.TraceItem) []string {
		return []string{command.Dash(t.Principal), command.Dash(t.Client.String()), command.Dash(t.SessionID), command.Dash(t.Environment),
			command.Dash(display.Model(t.ModelProvider, t.ModelName)), command.Count(t.InputTokens), command.Count(t.OutputTokens),
			command.Dash(strings.Join(t.PIIDetected, ",")), command.Dash(t.RuleID), command.Dash(t.Approval.String()),
			command.Dash(strings.Join(t.Labels, ",")), command.Dash(strings.Join(t.Sets, ",")), command.Dash(t.RequestID)}
	},
}

// outcome returns the status of a trace, with error divided into blocked and failed.
func outcome(t api.TraceItem) string {
	switch {
	case t.Blocked:
		return "blocked"
	case t.Status == "error":
		return "failed"
	}
	return t.Status
}

// whyOf returns what ended an unsuccessful trace: the error, or the rule or policy that
// blocked it. A rule that allowed a request is not the reason of a failure.
func whyOf(t api.TraceItem) string {
	if t.Status == "success" || t.ErrorKind != "" || !t.Blocked {
		return t.ErrorKind
	}
	return t.RuleID
}

func newTraceListCmd(r *rest.Connection) *cobra.Command {
	var q client.TraceQuery
	cmd := rest.NewLongListCmd(r, &cobra.Command{
		Use: "list", Short: "List traces, newest first",
		Example: `  svc traces list --since 1h --status error
  svc traces list --min-injection-score 0.8 --all -o json`,
	}, traceColumns, func(ctx context.Context, c *client.Client, p client.Page) (api.Page[api.TraceItem], error) {
		q.Page = p
		return c.ListTraces(ctx, q)
	}, func(ctx context.Context, c *client.Client, do func(api.TraceItem) error) error {
		return c.EachTrace(ctx, q.TraceFilter, do)
	})
	addTraceFilter(r, cmd, &q.TraceFilter)
	return cmd
}

// addTraceFilter adds the flags that filter a list of traces, its export and its tail.
func addTraceFilter(r *rest.Connection, cmd *cobra.Command, q *client.TraceFilter) {
	f := cmd.Flags()
	f.StringVar(&q.AgentID, "agent-id", "", "only traces of this agent")
	agents.CompleteFlag(r, cmd, "agent-id")
	command.EnumFlag(cmd, &q.Status, "status", api.TraceOutcomes, "only traces with this outcome; blocked and failed are the parts of error")
	f.StringVar(&q.Environment, "environment", "", "only traces of this environment")
	f.Var(command.TimeValue{Value: &q.Start, Now: r.Env.Now}, "since", "start of the period: a time, a date, or how long ago (1h, 7d)")
	f.Var(command.TimeValue{Value: &q.End, Now: r.Env.Now}, "until", "end of the period: a time, a date, or how long ago")
	f.Var(command.OptionalFloat{Value: &q.MinCostUSD}, "min-cost", "in USD")
	f.Var(command.OptionalFloat{Value: &q.MaxCostUSD}, "max-cost", "in USD")
	f.Var(command.OptionalFloat{Value: &q.MinInjectionScore}, "min-injection-score", "from 0 to 1")
	f.Var(command.OptionalFloat{Value: &q.MinDurationMs}, "min-duration-ms", "shortest duration, in milliseconds")
	for _, t := range []struct {
		to          *string
		name, usage string
	}{
		{&q.AgentName, "agent", "only traces of the agent with this name at the time of the trace"},
		{&q.SessionID, "session", "only traces of this session"},
		{&q.ModelName, "model", "only traces of this model, of any provider"},
		{&q.ToolName, "tool", "only traces of this tool"},
		{&q.RuleID, "rule", "only traces that this rule of a gateway decided"},
		{&q.PolicyID, "policy-id", "only traces on which this policy fired"},
		{&q.PII, "pii", "only traces in which this entity was detected, such as EMAIL"},
		{&q.Principal, "principal", "only traces of this caller"},
		{&q.Client, "client", "only traces of the client with this name, such as claude-code"},
		{&q.RequestID, "request-id", "only the trace of this request"},
	} {
		f.StringVar(t.to, t.name, "", t.usage)
	}
	policies.CompleteFlag(r, cmd, "policy-id")
	for flag, of := range traceValues {
		rest.CompleteFlag(r, cmd, flag, completeTraceValues(of))
	}
}

func newTraceGetCmd(r *rest.Connection) *cobra.Command {
	return rest.NewValueCmd(r, &cobra.Command{
		Use: "get ID", Short: "Show a trace with its spans and scores", Example: `  svc traces get 0199c2a4-… -o json`,
		Args: command.WantArgs("an ID"), ValidArgsFunction: rest.CompleteIDs(r, completeTraces),
	}, func(ctx context.Context, c *client.Client, args []string) (api.Trace, error) {
		return c.GetTrace(ctx, args[0])
	})
}

func newTraceStatsCmd(r *rest.Connection) *cobra.Command {
	var q client.StatsQuery
	f := command.FormatTable
	cmd := &cobra.Command{
		Use: "stats", Short: "Show count, cost and latency of traces in a period",
		Example: `  svc traces stats --period 7d --group-by agent
  svc traces stats --since 2026-10-01 --until 2026-10-31T23:59:59Z --group-by tool`, Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.Client()
			if err != nil {
				return err
			}
			stats, err := c.TraceStats(cmd.Context(), q)
			if err != nil {
				return r.Explain(err)
			}
			if f != command.FormatTable {
				return command.WriteValue(r.Env.Stdout, f, stats)
			}
			return writeStats(r.Env, stats)
		},
	}
	command.EnumFlag(cmd, &q.Period, "period", api.StatsPeriods, "how far back (default 24h)")
	cmd.Flags().Var(command.TimeValue{Value: &q.Start, Now: r.Env.Now}, "since", "start of the period: a time, a date, or how long ago (1h, 7d)")
	cmd.Flags().Var(command.TimeValue{Value: &q.End, Now: r.Env.Now}, "until", "end of the period: a time, a date, or how long ago (default now)")
	cmd.MarkFlagsMutuallyExclusive("period", "since")
	command.EnumFlag(cmd, &q.GroupBy, "group-by", api.GroupBys, "one row for each")
	cmd.Flags().StringVar(&q.AgentID, "agent-id", "", "only this agent")
	agents.CompleteFlag(r, cmd, "agent-id")
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	return cmd
}

func writeStats(env process.Env, s api.TraceStats) error {
	if err := command.WriteFields(env.Stdout, s.Summary); err != nil || len(s.Groups) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(env.Stdout); err != nil {
		return err
	}
	rows := make([][]string, len(s.Groups))
	for i, g := range s.Groups {
		rows[i] = []string{command.Dash(display.Group(g.GroupKey)), command.Count(g.TraceCount), command.Count(g.BlockedCount), command.Count(g.FailedCount),
			command.Number(g.ErrorRatePercent),
			command.Number(g.AvgDurationMs), command.Number(g.P95DurationMs), command.USD(g.TotalCostUSD)}
	}
	return command.ShowTable(env, []string{"GROUP", "TRACES", "BLOCKED", "FAILED", "ERRORS %", "AVG MS", "P95 MS", "COST USD"}, rows)
}

// traceValues are the flags that compare a value of traces, with the function that
// returns it.
var traceValues = map[string]func(api.TraceItem) []string{
	"agent":       func(t api.TraceItem) []string { return []string{t.AgentName} },
	"environment": func(t api.TraceItem) []string { return []string{t.Environment} },
	"session":     func(t api.TraceItem) []string { return []string{t.SessionID} },
	"model":       func(t api.TraceItem) []string { return []string{t.ModelName} },
	"tool":        func(t api.TraceItem) []string { return []string{t.ToolName} },
	"rule":        func(t api.TraceItem) []string { return []string{t.RuleID} },
	"pii":         func(t api.TraceItem) []string { return t.PIIDetected },
	"principal":   func(t api.TraceItem) []string { return []string{t.Principal} },
	"client":      func(t api.TraceItem) []string { return []string{t.Client.Name} },
	"request-id":  func(t api.TraceItem) []string { return []string{t.RequestID} },
}

// completeTraceValues lists the values that the newest traces have.
func completeTraceValues(of func(api.TraceItem) []string) rest.Completer {
	return func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.ListTraces(ctx, client.TraceQuery{Page: rest.FirstPage})
		var values []string
		for _, t := range page.Data {
			values = append(values, of(t)...)
		}
		slices.Sort(values)
		return slices.DeleteFunc(slices.Compact(values), func(v string) bool { return v == "" }), err
	}
}

func completeTraces(ctx context.Context, c *client.Client) ([]string, error) {
	page, err := c.ListTraces(ctx, client.TraceQuery{Page: rest.FirstPage})
	return rest.Described(page.Data, func(t api.TraceItem) (string, string) { return t.ID, t.AgentName + " " + t.ToolName }), err
}
