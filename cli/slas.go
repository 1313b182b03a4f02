package cli

import (
	"context"

	"github.com/spf13/cobra"

	"svc/server/api"
	"svc/server/client"
)

func newSLAsCmd(env Env) *cobra.Command {
	r := &remote{env: env}
	cmd := newGroupCmd("slas", "SLA targets of agents, and their violations",
		`  svc slas create fast --agent-id agt_01k… --p99-ms 800 --evaluation-period 24h
  svc slas violations --period 7d`,
		newSLAListCmd(r), newSLACreateCmd(r), newSLAUpdateCmd(r),
		newDeleteCmd(r, "SLA target", `  svc slas delete sla_01k… --yes`, completeSLAs,
			nameIn(wholeList((*client.Client).ListSLAs), "SLA target", func(s api.SLATarget) (string, string) { return s.ID, s.Name }),
			func(ctx context.Context, c *client.Client, id string) error { return c.DeleteSLA(ctx, id) }),
		newViolationsCmd(r),
	)
	r.addFlags(cmd)
	return cmd
}

func newSLAListCmd(r *remote) *cobra.Command {
	return newListAllCmd(r, &cobra.Command{
		Use: "list", Short: "List SLA targets and how they stand", Example: `  svc slas list`,
	}, columns[api.SLATarget]{
		[]string{"ID", "NAME", "AGENT", "PERIOD", "STATUS", "P99 MS", "TARGET MS", "ERRORS %", "TARGET %"},
		func(s api.SLATarget) []string {
			return []string{s.ID, s.Name, s.AgentName, s.EvaluationPeriod, s.Status,
				number(s.CurrentP99Ms), target(s.P99LatencyMs), number(s.CurrentErrorRate), target(s.ErrorRatePercent)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.SLATarget], error) { return c.ListSLAs(ctx) })
}

// target shows a figure that may not be set.
func target(v *float64) string {
	if v == nil {
		return "-"
	}
	return number(*v)
}

// slaFlags are the fields of an SLA target as flags.
type slaFlags struct {
	name, agent, period string
	p99, errorRate      *float64
}

func (s *slaFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.name, "name", "", "name")
	f.StringVar(&s.agent, "agent-id", "", "agent that it is for")
	f.Var(optionalFloat{&s.p99}, "p99-ms", "highest 99th percentile of the latency, in milliseconds")
	f.Var(optionalFloat{&s.errorRate}, "error-rate", "highest share of errors, in percent")
	enumFlag(cmd, &s.period, "evaluation-period", api.EvaluationPeriods, "what is looked at")
}

func newSLACreateCmd(r *remote) *cobra.Command {
	var s slaFlags
	cmd := newValueCmd(r, &cobra.Command{
		Use: "create", Short: "Create an SLA target",
		Example: `  svc slas create fast --agent-id agt_01k… --p99-ms 800 --error-rate 1 --evaluation-period 24h`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.SLATarget, error) {
		return c.CreateSLA(ctx, api.SLACreate{
			Name: s.name, AgentID: s.agent, P99LatencyMs: s.p99, ErrorRatePercent: s.errorRate, EvaluationPeriod: s.period,
		})
	})
	s.add(cmd)
	completeFlag(r, cmd, "agent-id", completeAgents)
	takeName(cmd, &s.name)
	requireFlags(cmd, "agent-id", "evaluation-period")
	cmd.MarkFlagsOneRequired("p99-ms", "error-rate")
	return cmd
}

func newSLAUpdateCmd(r *remote) *cobra.Command {
	var s slaFlags
	var cmd *cobra.Command
	cmd = newValueCmd(r, &cobra.Command{
		Use: "update ID", Short: "Change an SLA target; what is not given stays",
		Example: `  svc slas update sla_01k… --p99-ms 1000`,
		Args:    wantArgs("an ID"), ValidArgsFunction: completeIDs(r, completeSLAs),
	}, func(ctx context.Context, c *client.Client, args []string) (api.SLATarget, error) {
		if err := anyChanged(cmd, "name", "agent-id", "p99-ms", "error-rate", "evaluation-period"); err != nil {
			return api.SLATarget{}, err
		}
		return c.UpdateSLA(ctx, args[0], api.SLAUpdate{
			Name: changed(cmd, "name", &s.name), AgentID: changed(cmd, "agent-id", &s.agent),
			P99LatencyMs: s.p99, ErrorRatePercent: s.errorRate, EvaluationPeriod: changed(cmd, "evaluation-period", &s.period),
		})
	})
	s.add(cmd)
	completeFlag(r, cmd, "agent-id", completeAgents)
	return cmd
}

func newViolationsCmd(r *remote) *cobra.Command {
	var q client.ViolationQuery
	cmd := newListAllCmd(r, &cobra.Command{
		Use: "violations", Short: "List when targets were missed", Example: `  svc slas violations --period 7d`,
	}, columns[api.SLAViolation]{
		[]string{"FROM", "TO", "SLA", "AGENT", "TYPE", "P99 MS", "TARGET MS", "ERRORS %", "TARGET %"},
		func(v api.SLAViolation) []string {
			return []string{stamp(v.PeriodStart), stamp(v.PeriodEnd), v.SLAName, v.AgentName, v.ViolationType,
				number(v.ActualP99Ms), target(v.TargetP99Ms), number(v.ActualErrorRate), target(v.TargetErrorRate)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.SLAViolation], error) {
		return c.ListViolations(ctx, q)
	})
	enumFlag(cmd, &q.Period, "period", api.ViolationPeriods, "how far back (default 24h)")
	cmd.Flags().StringVar(&q.SLAID, "sla-id", "", "only this target")
	completeFlag(r, cmd, "sla-id", completeSLAs)
	return cmd
}
