package tui

import (
	"context"
	"strings"
	"time"

	"svc/server/display"
	"svc/store/api"
)

// instance is a process of a gateway.
type instance struct {
	api.GatewayInstance
	gateway string
}

// gatewaysTable lists the processes of gateways with what is wrong with them.
func gatewaysTable(s *shared) table[instance] {
	p := s.styles
	text := func(get func(instance) string) func(instance, int) (string, style) {
		return func(r instance, _ int) (string, style) { return display.OrDash(clean(get(r))), p.plain }
	}
	return table[instance]{
		noun:  "instances of gateways",
		empty: [2]string{"No gateway reports to this control plane", "Set control_plane in the configuration of a gateway."},
		id:    func(r instance) string { return r.gateway + " " + r.Instance },
		fetch: func(ctx context.Context) (listed[instance], error) {
			all, err := s.plane.ListGateways(ctx, false)
			var rows []instance
			for _, g := range all.Data {
				for _, i := range g.Instances {
					rows = append(rows, instance{i, g.Name})
				}
			}
			return listed[instance]{rows, len(rows)}, err
		},
		every: 10 * time.Second,
		columns: []column[instance]{
			{title: "STATE", min: 9, priority: 95, cell: func(r instance, _ int) (string, style) { return p.word(display.GatewayState(r.State)) }},
			{title: "NAME", min: 12, max: 40, priority: 100, cell: text(func(r instance) string { return r.gateway })},
			{title: "POLICIES", min: 8, right: true, priority: 90, cell: func(r instance, _ int) (string, style) { return p.word(display.GatewayPolicies(r.GatewayInstance)) }},
			{title: "UPSTREAMS", min: 18, max: 40, priority: 85, cell: func(r instance, _ int) (string, style) { return p.word(display.GatewayUpstreams(r.GatewayInstance)) }},
			{title: "AUDIT", min: 10, priority: 80, cell: func(r instance, _ int) (string, style) { return p.word(display.GatewayAudit(r.GatewayInstance)) }},
			{title: "LICENSE", min: 8, right: true, priority: 60, cell: func(r instance, _ int) (string, style) { return p.word(display.GatewayLicense(r.GatewayInstance)) }},
			{title: "CALLS", min: 7, right: true, priority: 70, cell: func(r instance, _ int) (string, style) { return display.Short(float64(r.Calls)), p.plain }},
			{title: "BLOCKED", min: 7, right: true, priority: 50, cell: func(r instance, _ int) (string, style) { return display.Short(float64(r.Blocked)), p.plain }},
			{title: "FAILED", min: 7, right: true, priority: 45, cell: func(r instance, _ int) (string, style) { return display.Short(float64(r.Failed)), p.plain }},
			{title: "VERSION", min: 8, max: 20, priority: 40, cell: text(func(r instance) string { return r.Version })},
			{title: "SEEN", min: 17, priority: 65, cell: func(r instance, _ int) (string, style) { return minute(r.SeenAt), p.dim }},
		},
		opened: func(r instance) []field {
			state, style := p.word(display.GatewayState(r.State))
			fields := []field{
				{name: "Gateway", value: clean(r.gateway)}, {name: "Instance", value: clean(r.Instance)},
				{name: "State", value: state + ", last heard " + minute(r.SeenAt), style: style}, {name: "Started", value: minute(r.StartedAt)},
			}
			if len(r.RestartPending) > 0 {
				fields = append(fields, field{name: "Restart for", value: clean(strings.Join(r.RestartPending, ", ")), wide: true, style: p.warn})
			}
			for _, u := range r.Upstreams {
				if u.State == "failing" || u.State == "open" {
					fields = append(fields, field{name: "Upstream", value: clean(u.Name) + " " + u.State, wide: true, style: p.bad})
				}
			}
			return append(fields, field{name: "Config", value: display.OrDash(clean(r.ConfigDigest))}, field{name: "Signed", value: map[bool]string{true: "yes", false: "no, by API key " + clean(r.KeyID)}[r.Signed]})
		},
	}
}
