package planecmd

import (
	"context"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

var slas = rest.Resource[api.SLATarget]{
	Noun: "SLA target", Path: "svc slas", ID: "sla_01k…",
	Describe: func(s api.SLATarget) (string, string) { return s.ID, s.Name },
	Columns: rest.Columns[api.SLATarget]{
		Header: []string{"ID", "NAME", "AGENT", "PERIOD", "STATUS", "P99 MS", "TARGET MS", "ERRORS %", "TARGET %"},
		Row: func(s api.SLATarget) []string {
			return []string{s.ID, s.Name, s.AgentName, s.EvaluationPeriod, s.Status,
				command.Number(s.CurrentP99Ms), target(s.P99LatencyMs), command.Number(s.CurrentErrorRate), target(s.ErrorRatePercent)}
		},
	},
	Fetch: rest.Whole((*client.Client).ListSLAs), Whole: true,
	Create: func() rest.Creator { return &slaFields{create: true} },
	Update: func() rest.Updater { return &slaFields{} },
	Delete: rest.Deleted((*client.Client).DeleteSLA),

	ListHelp:   rest.Help{Short: "List SLA targets and their status", Example: `  svc slas list`},
	CreateHelp: rest.Help{Short: "Create an SLA target", Example: `  svc slas create fast --agent-id agt_01k… --p99-ms 800 --error-rate 1 --evaluation-period 24h`},
	UpdateHelp: rest.Help{Short: "Change an SLA target; fields without a flag keep their values", Example: `  svc slas update sla_01k… --p99-ms 1000`},
}

// NewSLAsCmd returns the command 'svc slas'.
func NewSLAsCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("slas", "Manage SLA targets of agents and list their violations",
		`  svc slas create fast --agent-id agt_01k… --p99-ms 800 --evaluation-period 24h
  svc slas violations --period 7d`, append(slas.Commands(r), newViolationsCmd(r))...)
	r.AddFlags(cmd)
	return cmd
}

// target formats a target that may be unset.
func target(v *float64) string {
	if v == nil {
		return "-"
	}
	return command.Number(*v)
}

// slaFields are the fields of an SLA target as flags.
type slaFields struct {
	cmd    *cobra.Command
	create bool

	name, agent, period string
	p99, errorRate      *float64
}

// Flags adds the flags.
func (s *slaFields) Flags(r *rest.Connection, cmd *cobra.Command) {
	s.cmd = cmd
	f := cmd.Flags()
	f.StringVar(&s.name, "name", "", "name")
	f.StringVar(&s.agent, "agent-id", "", "id of the agent")
	f.Var(command.OptionalFloat{Value: &s.p99}, "p99-ms", "highest 99th percentile of the latency, in milliseconds")
	f.Var(command.OptionalFloat{Value: &s.errorRate}, "error-rate", "highest share of errors, in percent")
	command.EnumFlag(cmd, &s.period, "evaluation-period", api.EvaluationPeriods, "period that is evaluated")
	agents.CompleteFlag(r, cmd, "agent-id")
	if s.create {
		command.RequireFlags(cmd, "agent-id", "evaluation-period")
		cmd.MarkFlagsOneRequired("p99-ms", "error-rate")
	}
}

// Create creates the target.
func (s *slaFields) Create(ctx context.Context, c *client.Client) (any, error) {
	return c.CreateSLA(ctx, api.SLACreate{
		Name: s.name, AgentID: s.agent, P99LatencyMs: s.p99, ErrorRatePercent: s.errorRate, EvaluationPeriod: s.period,
	})
}

// Update changes the fields whose flags were given.
func (s *slaFields) Update(ctx context.Context, c *client.Client, id string) (any, error) {
	return c.UpdateSLA(ctx, id, api.SLAUpdate{
		Name: command.Changed(s.cmd, "name", &s.name), AgentID: command.Changed(s.cmd, "agent-id", &s.agent),
		P99LatencyMs: s.p99, ErrorRatePercent: s.errorRate, EvaluationPeriod: command.Changed(s.cmd, "evaluation-period", &s.period),
	})
}

func newViolationsCmd(r *rest.Connection) *cobra.Command {
	var q client.ViolationQuery
	cmd := rest.NewListAllCmd(r, &cobra.Command{
		Use: "violations", Short: "List violations of SLA targets", Example: `  svc slas violations --period 7d`,
	}, rest.Columns[api.SLAViolation]{
		Header: []string{"FROM", "TO", "SLA", "AGENT", "TYPE", "P99 MS", "TARGET MS", "ERRORS %", "TARGET %"},
		Row: func(v api.SLAViolation) []string {
			return []string{command.Stamp(v.PeriodStart), command.Stamp(v.PeriodEnd), v.SLAName, v.AgentName, v.ViolationType,
				command.Number(v.ActualP99Ms), target(v.TargetP99Ms), command.Number(v.ActualErrorRate), target(v.TargetErrorRate)}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.SLAViolation], error) {
		return c.ListViolations(ctx, q)
	})
	command.EnumFlag(cmd, &q.Period, "period", api.ViolationPeriods, "how far back (default 24h)")
	cmd.Flags().StringVar(&q.SLAID, "sla-id", "", "only this target")
	slas.CompleteFlag(r, cmd, "sla-id")
	return cmd
}
