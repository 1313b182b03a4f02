package ui

import (
	"cmp"
	"slices"
	"strconv"

	"svc/server/display"
	"svc/store/api"
)

// Bounds on what one page lists.
const (
	listed       = 100 // rows of a list
	listedEvents = 50
	listedChecks = 20
	listedOfOne  = 20 // instances of one gateway
)

func init() {
	functions["gatewayState"], functions["gatewayPolicies"] = display.GatewayState, display.GatewayPolicies
	functions["gatewayUpstreams"], functions["upstreamState"] = display.GatewayUpstreams, display.UpstreamState
	functions["failingFirst"], functions["count64"] = display.FailingFirst, func(n int) string { return display.Count(int64(n)) }
	functions["gatewayAudit"], functions["gatewayLicense"] = display.GatewayAudit, display.GatewayLicense
}

// pager has the links between the pages of a list.
type pager struct{ First, Next string }

// pager returns the links of a page that a cursor follows, empty for none.
func (v *visit) pager(next string) pager { return pager{v.firstPage(), v.pageAfter(next)} }

// slice returns the rows that a page shows of a list that the API answers as a whole.
func slice[T any](v *visit, list []T, most int) ([]T, pager) {
	from := min(max(v.number("after", 0), 0), len(list))
	to, next := min(from+most, len(list)), ""
	if to < len(list) {
		next = strconv.Itoa(to)
	}
	return list[from:to], v.pager(next)
}

// gatewaysData is what the list of gateways shows.
type gatewaysData struct {
	All                bool            // stopped ones too
	Running, Enforcing int             // instances that run, and those of them that enforce the newest policies
	Others             []display.Check // gateways with other instances
	OthersMore         int             // and those that are left out
	Silent             int             // gateways that may work on with the policies that they have
	Late               bool            // the others have less than a minute left to get them: nothing is wrong yet
	Checks             display.Checks
	More               int // checks that are left out
	Refused            bool
	Rows               []gatewayRows
	Total              int
	Pages              pager
}

// gatewayRows are the rows of a gateway.
type gatewayRows struct {
	api.Gateway
	More int // instances that are left out
}

func listGateways(v *visit) error {
	d := gatewaysData{All: v.URL.Query().Get("all") == "1", Refused: v.may("GET", "/api/audit/events")}
	list, err := v.api.ListGateways(v.Context(), d.All)
	if err != nil {
		return err
	}
	d.Total = len(list.Data)
	d.Checks.Gateways(list.Data, v.now)
	if d.Refused {
		events, err := v.api.ListAuditEvents(v.Context(), display.RefusedReports(v.now))
		if err != nil {
			return err
		}
		d.Checks.Refused(events.Data)
	}
	d.Checks.Sort()
	if n := len(d.Checks) - listedChecks; n > 0 {
		d.Checks, d.More = d.Checks[:listedChecks], n
	}
	d.Enforcing, d.Running, d.Others = display.NewestPolicies(list.Data)
	d.Late = len(d.Others) > 0 && d.Others[0].State == display.CheckOK
	if n := len(d.Others) - listedChecks; n > 0 {
		d.Others, d.OthersMore = d.Others[:listedChecks], n
	}
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
		row := gatewayRows{Gateway: g, More: max(len(g.Instances)-listedOfOne, 0)}
		row.Instances = row.Instances[:len(row.Instances)-row.More]
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

// gatewayData is what the page of a gateway shows.
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
	if n := len(d.Checks) - listedChecks; n > 0 {
		d.Checks, d.More = d.Checks[:listedChecks], n
	}
	d.Shown, d.Pages = slice(v, g.Instances, listedOfOne)
	return v.show("gateway", d)
}
