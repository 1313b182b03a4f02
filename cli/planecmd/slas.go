package planecmd

import (
	"context"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/api"
	"svc/server/client"
)

func NewSLAsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("slas", "SLA targets of agents, and their violations",
		`  svc slas create fast --agent-id agt_01k… --p99-ms 800 --evaluation-period 24h
  svc slas violations --period 7d`,
		newSLAListCmd(r), newSLACreateCmd(r), newSLAUpdateCmd(r),
		rest.NewDeleteCmd(r, "SLA target", `  svc slas delete sla_01k… --yes`, rest.CompleteSLAs,
			rest.NameIn(rest.WholeList((*client.Client).ListSLAs), "SLA target", func(s api.SLATarget) (string, string) { return s.ID, s.Name }),
			func(ctx context.Context, c *client.Client, id string) error { return c.DeleteSLA(ctx, id) }),
		newViolationsCmd(r),
	)
	r.AddFlags(cmd)
	return cmd
}

func newSLAListCmd(r *rest.Connection) *cobra.Command {
	return rest.NewListAllCmd(r, &cobra.Command{
		Use: "list", Short: "List SLA targets and how they stand", Example: `  svc slas list`,
	}, rest.Columns[api.SLATarget]{
		Header: []string{"ID", "NAME", "AGENT", "PERIOD", "STATUS", "P99 MS", "TARGET MS", "ERRORS %", "TARGET %"},
		Row: func(s api.SLATarget) []string {
			return []string{s.ID, s.Name, s.AgentName, s.EvaluationPeriod, s.Status,
				output.Number(s.CurrentP99Ms), target(s.P99LatencyMs), output.Number(s.CurrentErrorRate), target(s.ErrorRatePercent)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.SLATarget], error) { return c.ListSLAs(ctx) })
}

// target shows a figure that may not be set.
func target(v *float64) string {
	if v == nil {
		return "-"
	}
	return output.Number(*v)
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
	f.Var(command.OptionalFloat{Value: &s.p99}, "p99-ms", "highest 99th percentile of the latency, in milliseconds")
	f.Var(command.OptionalFloat{Value: &s.errorRate}, "error-rate", "highest share of errors, in percent")
	command.EnumFlag(cmd, &s.period, "evaluation-period", api.EvaluationPeriods, "what is looked at")
}

func newSLACreateCmd(r *rest.Connection) *cobra.Command {
	var s slaFlags
	cmd := rest.NewValueCmd(r, &cobra.Command{
		Use: "create", Short: "Create an SLA target",
		Example: `  svc slas create fast --agent-id agt_01k… --p99-ms 800 --error-rate 1 --evaluation-period 24h`,
	}, func(ctx context.Context, c *client.Client, _ []string) (api.SLATarget, error) {
		return c.CreateSLA(ctx, api.SLACreate{
			Name: s.name, AgentID: s.agent, P99LatencyMs: s.p99, ErrorRatePercent: s.errorRate, EvaluationPeriod: s.period,
		})
	})
	s.add(cmd)
	rest.CompleteFlag(r, cmd, "agent-id", rest.CompleteAgents)
	command.TakeName(cmd, &s.name)
	command.RequireFlags(cmd, "agent-id", "evaluation-period")
	cmd.MarkFlagsOneRequired("p99-ms", "error-rate")
	return cmd
}

func newSLAUpdateCmd(r *rest.Connection) *cobra.Command {
	var s slaFlags
	var cmd *cobra.Command
	cmd = rest.NewValueCmd(r, &cobra.Command{
		Use: "update ID", Short: "Change an SLA target; what is not given stays",
		Example: `  svc slas update sla_01k… --p99-ms 1000`,
		Args:    command.WantArgs("an ID"), ValidArgsFunction: rest.CompleteIDs(r, rest.CompleteSLAs),
	}, func(ctx context.Context, c *client.Client, args []string) (api.SLATarget, error) {
		if err := command.AnyChanged(cmd, "name", "agent-id", "p99-ms", "error-rate", "evaluation-period"); err != nil {
			return api.SLATarget{}, err
		}
		return c.UpdateSLA(ctx, args[0], api.SLAUpdate{
			Name: command.Changed(cmd, "name", &s.name), AgentID: command.Changed(cmd, "agent-id", &s.agent),
			P99LatencyMs: s.p99, ErrorRatePercent: s.errorRate, EvaluationPeriod: command.Changed(cmd, "evaluation-period", &s.period),
		})
	})
	s.add(cmd)
	rest.CompleteFlag(r, cmd, "agent-id", rest.CompleteAgents)
	return cmd
}

func newViolationsCmd(r *rest.Connection) *cobra.Command {
	var q client.ViolationQuery
	cmd := rest.NewListAllCmd(r, &cobra.Command{
		Use: "violations", Short: "List when targets were missed", Example: `  svc slas violations --period 7d`,
	}, rest.Columns[api.SLAViolation]{
		Header: []string{"FROM", "TO", "SLA", "AGENT", "TYPE", "P99 MS", "TARGET MS", "ERRORS %", "TARGET %"},
		Row: func(v api.SLAViolation) []string {
			return []string{output.Stamp(v.PeriodStart), output.Stamp(v.PeriodEnd), v.SLAName, v.AgentName, v.ViolationType,
				output.Number(v.ActualP99Ms), target(v.TargetP99Ms), output.Number(v.ActualErrorRate), target(v.TargetErrorRate)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.SLAViolation], error) {
		return c.ListViolations(ctx, q)
	})
	command.EnumFlag(cmd, &q.Period, "period", api.ViolationPeriods, "how far back (default 24h)")
	cmd.Flags().StringVar(&q.SLAID, "sla-id", "", "only this target")
	rest.CompleteFlag(r, cmd, "sla-id", rest.CompleteSLAs)
	return cmd
}
