package ui

import (
	"cmp"
	"slices"

	"svc/server/display"
	"svc/store/api"
)

// gatewaysData is what the list of gateways shows.
type gatewaysData struct {
	Running, Enforcing int             // instances that run, and those of them that enforce the newest policies
	Others             []display.Check // gateways with other instances
	OthersMore         int             // and those that are left out
	Silent             int             // gateways that may work on with the policies that they have
	Late               bool            // the others have less than a minute left to get them: nothing is wrong yet
	Checks             display.Checks
	More               int // checks that are left out
	Rows               []gatewayRows
	Total              int
	Pages              pager
}

type gatewayRows struct {
	api.Gateway
	More int // instances that are left out
}

func listGateways(v *visit) error {
	var d gatewaysData
	list, err := v.api.ListGateways(v.Context(), v.asked("all") == "1")
	if err != nil {
		return err
	}
	d.Total = len(list.Data)
	d.Checks.Gateways(list.Data, v.now)
	if v.may("GET", "/api/audit/events") {
		events, err := v.api.ListAuditEvents(v.Context(), display.RefusedReports(v.now))
		if err != nil {
			return err
		}
		d.Checks.Refused(events.Data)
	}
	d.Checks.Sort()
	d.Checks, d.More = first(d.Checks, listedChecks)
	d.Enforcing, d.Running, d.Others = display.NewestPolicies(list.Data)
	d.Late = len(d.Others) > 0 && d.Others[0].State == display.CheckOK
	d.Others, d.OthersMore = first(d.Others, listedChecks)
	for _, g := range list.Data {
		if g.State == api.GatewaySilent {
			d.Silent++
		}
	}
	// What is wrong comes first, with all of what belongs to one gateway.
	slices.SortStableFunc(list.Data, func(a, b api.Gateway) int { return cmp.Compare(v.rank(a), v.rank(b)) })
	shown, pages := slice(v, list.Data, listed)
	d.Pages = pages
	for _, g := range shown {
		slices.SortStableFunc(g.Instances, func(a, b api.GatewayInstance) int {
			return cmp.Compare(v.rank(api.Gateway{State: a.State, Instances: []api.GatewayInstance{a}}), v.rank(api.Gateway{State: b.State, Instances: []api.GatewayInstance{b}}))
		})
		row := gatewayRows{Gateway: g}
		row.Instances, row.More = first(g.Instances, listedOfOne)
		d.Rows = append(d.Rows, row)
	}
	return v.show("gateways", d)
}

// rank orders gateways: what is wrong, what is told, what is not governed, what is fine, and what has stopped.
func (v *visit) rank(g api.Gateway) int {
	var checks display.Checks
	checks.Gateways([]api.Gateway{g}, v.now)
	state := func(s string) bool {
		return slices.ContainsFunc(checks, func(c display.Check) bool { return c.State == s })
	}
	switch {
	case state(display.CheckWrong):
		return 0
	case state(display.CheckWarn):
		return 1
	case g.State == api.GatewayStopped:
		return 4
	case slices.ContainsFunc(g.Instances, func(i api.GatewayInstance) bool { return !i.Governance.Enabled }):
		return 2
	}
	return 3
}

type gatewayData struct {
	api.Gateway
	Checks  display.Checks
	More    int
	Digests []string // of the configurations; several: instances differ
	Shown   []api.GatewayInstance
	Pages   pager
}

func showGateway(v *visit) error {
	g, err := v.api.GetGateway(v.Context(), v.PathValue("name"))
	if err != nil {
		return err
	}
	d := gatewayData{Gateway: g, Digests: display.ConfigDigests(g)}
	d.Checks.Gateways([]api.Gateway{g}, v.now)
	d.Checks.Sort()
	d.Checks, d.More = first(d.Checks, listedChecks)
	d.Shown, d.Pages = slice(v, g.Instances, listedOfOne)
	return v.show("gateway", d)
}
