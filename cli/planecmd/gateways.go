package planecmd

import (
	"bytes"
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

// NewGatewaysCmd returns the command 'svc gateways'.
func NewGatewaysCmd(env process.Env) *cobra.Command {
	r := &rest.Connection{Env: env}
	cmd := command.NewGroupCmd("gateways", "See which gateways report to the control plane, and what they enforce",
		`  svc gateways list
  svc gateways get edge-1
  svc gateways forget edge-1`,
		newGatewayListCmd(r), newGatewayGetCmd(r), newGatewayForgetCmd(r))
	r.AddFlags(cmd)
	return cmd
}

func newGatewayListCmd(r *rest.Connection) *cobra.Command {
	var all bool
	cmd := rest.NewListAllCmd(r, &cobra.Command{
		Use: "list", Short: "List gateways",
		Long: `List the gateways that report to the control plane, with the state of all of their instances
(processes of one name). A gateway is silent when nothing was heard of it for 90 seconds. Gateways that
have stopped are listed with --all, for 7 days.`,
		Example: `  svc gateways list
  svc gateways list --all -o wide`,
	}, rest.Columns[api.Gateway]{
		// The order is that of their use: on a terminal of 80 cells the last ones are left out.
		Header: []string{"NAME", "STATE", "POLICIES", "UPSTREAMS", "AUDIT", "INSTANCES", "VERSION", "LICENSE", "SEEN"},
		Row: func(g api.Gateway) []string {
			return []string{visible(g.Name), g.State, policiesOf(g), upstreamsOf(g), auditOf(g), instancesOf(g),
				visible(joined(g, func(i *api.GatewayInstance) string { return i.Version })), licenseOf(g), command.Stamp(lastSeen(g).SeenAt)}
		},
		WideHeader: []string{"SIGNED BY", "CONFIG", "CALLS", "BLOCKED", "FAILED", "RESTART PENDING"},
		WideRow: func(g api.Gateway) []string {
			var calls, blocked, failed int64
			for _, i := range g.Instances {
				calls, blocked, failed = calls+i.Calls, blocked+i.Blocked, failed+i.Failed
			}
			return []string{command.Dash(g.SignedBy), command.Dash(joined(g, func(i *api.GatewayInstance) string { return i.ConfigDigest })),
				command.Count(calls), command.Count(blocked), command.Count(failed),
				command.Dash(visible(joined(g, func(i *api.GatewayInstance) string { return strings.Join(i.RestartPending, ",") })))}
		},
	}, func(ctx context.Context, c *client.Client) (api.List[api.Gateway], error) {
		return c.ListGateways(ctx, all)
	})
	cmd.Flags().BoolVar(&all, "all", false, "gateways and instances that have stopped, too")
	return cmd
}

// running are the instances that a gateway is judged by: those that have not stopped, or all of them.
func running(g api.Gateway) []api.GatewayInstance {
	alive := slices.DeleteFunc(slices.Clone(g.Instances), func(i api.GatewayInstance) bool { return i.State == api.GatewayStopped })
	if len(alive) == 0 {
		return g.Instances
	}
	return alive
}

// lastSeen is the instance that reported last.
func lastSeen(g api.Gateway) api.GatewayInstance {
	return slices.MaxFunc(g.Instances, func(a, b api.GatewayInstance) int { return a.SeenAt.Compare(b.SeenAt) })
}

// joined are the different values of running instances.
func joined(g api.Gateway, value func(*api.GatewayInstance) string) string {
	var values []string
	for _, i := range running(g) {
		if v := value(&i); v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return strings.Join(values, ",")
}

// policiesOf says how many policies a gateway enforces, or what its instances do instead.
func policiesOf(g api.Gateway) string {
	return cmp.Or(joined(g, func(i *api.GatewayInstance) string { return display.GatewayPolicies(*i).Text }), "-")
}

// upstreamsOf counts upstreams by their worst state at any instance.
func upstreamsOf(g api.Gateway) string {
	worst := map[string]int{}
	for _, i := range running(g) {
		for _, u := range i.Upstreams {
			worst[u.Name] = max(worst[u.Name], slices.Index(upstreamRanks, u.State))
		}
	}
	counts := make([]int, len(upstreamRanks))
	for _, rank := range worst {
		counts[rank]++
	}
	var parts []string
	for rank := len(counts) - 1; rank >= 0; rank-- {
		if counts[rank] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[rank], upstreamRanks[rank]))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// upstreamRanks are the states of upstreams, the worst last.
var upstreamRanks = []string{"unknown", "ok", "failing", "open"}

func auditOf(g api.Gateway) string {
	for _, i := range running(g) {
		switch {
		case !i.Audit.Writable:
			return "not writable"
		case i.Audit.Lost > 0:
			return "lost lines"
		}
	}
	return "ok"
}

// licenseOf is the license that ends first.
func licenseOf(g api.Gateway) string {
	first := slices.MinFunc(running(g), func(a, b api.GatewayInstance) int { return cmp.Compare(a.License.DaysLeft, b.License.DaysLeft) })
	if first.License.State == "" {
		return "-"
	}
	return fmt.Sprintf("%s, %d d", visible(first.License.State), first.License.DaysLeft)
}

func instancesOf(g api.Gateway) string {
	counts := map[string]int{}
	for _, i := range g.Instances {
		counts[i.State]++
	}
	var parts []string
	for _, state := range [...]string{api.GatewayRunning, api.GatewaySilent, api.GatewayStopped} {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return strings.Join(parts, ", ")
}

// completeGateways lists the names of gateways.
func completeGateways(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.ListGateways(ctx, true)
	return rest.Described(list.Data, func(g api.Gateway) (string, string) { return g.Name, g.State }), err
}

func newGatewayGetCmd(r *rest.Connection) *cobra.Command {
	f := command.FormatTable
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Show a gateway with all of its instances", Example: `  svc gateways get edge-1
  svc gateways get edge-1 -o json`,
		Args: command.WantArgs("the NAME of a gateway"), ValidArgsFunction: rest.CompleteIDs(r, completeGateways),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.Client()
			if err != nil {
				return err
			}
			g, err := c.GetGateway(cmd.Context(), args[0])
			if err != nil {
				return r.Explain(err)
			}
			if f != command.FormatTable {
				return command.WriteValue(r.Env.Stdout, f, g)
			}
			_, err = r.Env.Stdout.Write(gatewayText(g))
			return err
		},
	}
	command.AddFormatFlag(cmd, &f, command.FormatTable, command.FormatJSON, command.FormatYAML)
	return cmd
}

// gatewayText returns a gateway as an administrator reads it: an instance after the other.
func gatewayText(g api.Gateway) []byte {
	var b bytes.Buffer
	line := func(name, value string) { fmt.Fprintf(&b, "%-12s  %s\n", name, command.Dash(visible(value))) }
	line("name", g.Name)
	line("state", g.State)
	line("signedBy", g.SignedBy)
	for _, i := range g.Instances {
		b.WriteByte('\n')
		line("instance", i.Instance)
		line("state", i.State+", seen "+command.Stamp(i.SeenAt)+", started "+command.Stamp(i.StartedAt))
		line("version", i.Version)
		policies := "off"
		if i.Governance.Enabled {
			policies = fmt.Sprintf("%d, revision %d", i.Governance.Policies, i.Governance.Revision)
		}
		switch {
		case i.Behind:
			policies += ", behind"
		case i.Outdated:
			policies += ", not yet the newest"
		}
		line("policies", policies)
		for _, u := range i.Upstreams {
			line("upstream", strings.TrimSpace(u.Name+" "+u.State+" "+u.Revision))
		}
		line("audit", fmt.Sprintf("writable %s, lost %d, last line %d", command.YesNo(i.Audit.Writable), i.Audit.Lost, i.Audit.LastLine))
		if i.License.State != "" {
			line("license", fmt.Sprintf("%s, %d days", i.License.State, i.License.DaysLeft))
		}
		line("calls", fmt.Sprintf("%d, blocked %d, failed %d", i.Calls, i.Blocked, i.Failed))
		line("config", i.ConfigDigest)
		line("restart for", strings.Join(i.RestartPending, ", "))
		line("signed", command.YesNo(i.Signed)+", API key "+i.KeyID)
	}
	return b.Bytes()
}

func newGatewayForgetCmd(r *rest.Connection) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "forget NAME", Short: "Remove a gateway that is gone from the list",
		Long: `Remove a gateway with all of its instances from the list. A gateway that still runs is in the list
again after its next report. The key of its name stays bound (svc audit heads), for 7 days if the gateway
has no audit heads.`,
		Example: `  svc gateways forget edge-1 --yes`,
		Args:    command.WantArgs("the NAME of a gateway"), ValidArgsFunction: rest.CompleteIDs(r, completeGateways),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.Confirm(r.Env, yes, "forget the gateway "+visible(args[0])); err != nil {
				return err
			}
			c, err := r.Client()
			if err != nil {
				return err
			}
			if err := c.ForgetGateway(cmd.Context(), args[0]); err != nil {
				return r.Explain(err)
			}
			fmt.Fprintf(r.Env.Stderr, "%s forgotten\n", visible(args[0]))
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
