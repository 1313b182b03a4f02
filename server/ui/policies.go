package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// policiesData is what the list of policies shows.
type policiesData struct {
	Enabled     string // the filter
	Rows        []policyData
	Total       int
	First, Next string
	Fleet       bool // whether the key may see gateways, and so who enforces a policy
}

// policyData is what is shown of a policy: a row of the list, or its own page.
type policyData struct {
	*api.Policy
	now time.Time
	// May reports whether the key of the session may change policies, Fleet whether it may see gateways, and Traces
	// whether it may see traces.
	May, Fleet, Traces bool
	// Change is the change that is confirmed on the page: enable or disable; empty: none.
	Change, Problem, Done string
	// Governed says how many of the running gateways enforce policies at all, for a policy that is about to be enabled.
	Governed string
}

func (p policyData) Act() string  { return display.Action(p.Policy) }
func (p policyData) When() string { return display.Condition(&p.Condition) }
func (p policyData) For() string  { return display.OnAgent(p.On) }

// Observes reports whether the policy changes nothing: it only records what it matches.
func (p policyData) Observes() bool { return p.Action == "warn" }

func (p policyData) Enforcers() display.Word { return display.Enforced(p.EnforcedBy, p.fresh()) }

// fresh reports whether gateways may not have reported the last change yet.
func (p policyData) fresh() bool { return p.now.Sub(p.UpdatedAt) < time.Minute }

// Other is the change that can be made now.
func (p policyData) Other() string {
	if p.Enabled {
		return "disable"
	}
	return "enable"
}

// JSON returns the policy as the API answers it.
func (p policyData) JSON() (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is escaped where it is shown
	e.SetIndent("", "  ")
	err := e.Encode(p.Policy)
	return b.String(), err
}

func (v *visit) policyData(p *api.Policy) policyData {
	return policyData{Policy: p, now: v.now, May: v.may("PUT", "/api/policies/{id}"), Fleet: v.may("GET", "/api/gateways"), Traces: v.may("GET", "/api/traces")}
}

func listPolicies(v *visit) error {
	q := v.URL.Query()
	asked := client.PolicyQuery{Page: client.Page{Limit: api.DefaultLimit, After: q.Get("after")}}
	d := policiesData{Enabled: q.Get("enabled"), Fleet: v.may("GET", "/api/gateways")}
	if on := d.Enabled == "true"; on || d.Enabled == "false" {
		asked.Enabled = &on
	}
	page, err := v.api.ListPolicies(v.Context(), asked)
	if err != nil {
		return err
	}
	for i := range page.Data {
		d.Rows = append(d.Rows, v.policyData(&page.Data[i]))
	}
	d.Total, d.First, d.Next = page.Total, v.firstPage(), v.pageAfter(page.Next)
	return v.show("policies", d)
}

// showPolicy shows a policy. As with approvals, a change takes two steps: its link leads to this page again, which then
// says what the change does and has the form.
func showPolicy(v *visit) error {
	d, err := v.policy()
	if err != nil {
		return err
	}
	switch change := v.URL.Query().Get("change"); {
	case change == "":
	case d.May && change == d.Other():
		d.Change = change
	case change == "enable" || change == "disable":
		d.Problem = "There is nothing to " + change + ": the policy is " + change + "d already."
		if !d.May {
			d.Problem = "This key may not change policies."
		}
	}
	if err := v.governed(&d); err != nil {
		return err
	}
	return v.show("policy", d)
}

// policy reads the policy of the path.
func (v *visit) policy() (policyData, error) {
	p, err := v.api.GetPolicy(v.Context(), v.PathValue("id"))
	return v.policyData(&p), err
}

// governed fills in who would enforce a policy that is about to be enabled.
func (v *visit) governed(d *policyData) error {
	if d.Governed = "Gateways that enforce policies do so within seconds."; d.Change != "enable" || !d.Fleet {
		return nil
	}
	list, err := v.api.ListGateways(v.Context(), true)
	if err != nil {
		return err
	}
	n, of := display.Governed(list.Data)
	d.Governed = fmt.Sprintf("%s of %s running gateways enforce policies: they enforce it within seconds.", display.Count(int64(n)), display.Count(int64(of)))
	switch {
	case of == 0:
		d.Governed = "No gateway runs now: nobody enforces it until one starts that has control_plane.governance.enabled."
	case n == 0:
		d.Governed = fmt.Sprintf("None of the %s running gateways enforces policies: set control_plane.governance.enabled in their configuration.", display.Count(int64(of)))
	}
	return nil
}

// changePolicy enables or disables a policy that is still as the form was made for. A change with warnings is answered
// by the page itself, because the warnings are known only now; reloading that page repeats nothing, because the policy
// has another ETag then.
func changePolicy(v *visit) error {
	change, etag := v.PostFormValue("change"), v.PostFormValue("etag")
	on := change == "enable"
	var changed api.Policy
	var err error
	if !on && change != "disable" || etag == "" {
		err = &client.Error{Status: http.StatusBadRequest, Message: "the form is not complete"}
	} else {
		changed, err = v.api.UpdatePolicy(v.Context(), v.PathValue("id"), api.PolicyUpdate{Enabled: &on, IfMatch: etag})
	}
	var refused *client.Error
	switch {
	case err == nil && len(changed.Warnings) == 0:
		http.Redirect(v.w, v.Request, path("policies", v.PathValue("id")), http.StatusSeeOther)
		return nil
	case err == nil:
		d := v.policyData(&changed)
		d.Done = "The policy is " + change + "d."
		return v.show("policy", d)
	case !errors.As(err, &refused) || refused.Status >= 500 || refused.Status == http.StatusNotFound:
		return err
	}
	d, gone := v.policy()
	if gone != nil {
		return gone
	}
	d.Problem = "Nothing was changed: " + refused.Error() + "."
	if refused.Status == http.StatusPreconditionFailed {
		d.Problem = "Nothing was changed: somebody has changed the policy since you read it. This page shows it as it is now."
	}
	if refused.Status != http.StatusForbidden && change == d.Other() {
		d.Change = change
	}
	if err := v.governed(&d); err != nil {
		return err
	}
	return v.page.send(v.w, v, refused.Status, "policy", v.at.title, d)
}
