package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// policyData is what the page of a policy shows.
type policyData struct {
	*api.Policy
	// Change is the change that is confirmed on the page: enable or disable; empty: none.
	Change, Problem, Done string
	// Governed says how many of the running gateways enforce policies at all, for a policy that is about to be enabled.
	Governed string
}

// enforcers says who enforces a policy. Gateways may not have reported a change of the last minute.
func enforcers(p *api.Policy, now time.Time) display.Word {
	return display.Enforced(p.EnforcedBy, now.Sub(p.UpdatedAt) < time.Minute)
}

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

func listPolicies(v *visit) error {
	asked := client.PolicyQuery{Page: client.Page{Limit: api.DefaultLimit, After: v.asked("after")}}
	if on := v.asked("enabled") == "true"; on || v.asked("enabled") == "false" {
		asked.Enabled = &on
	}
	page, err := v.api.ListPolicies(v.Context(), asked)
	if err != nil {
		return err
	}
	return v.show("policies", view{"List": page, "Pages": v.pager(page.Next)})
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
	case v.may("PUT", "/api/policies/{id}") && change == d.Other():
		d.Change = change
	case change == "enable" || change == "disable":
		d.Problem = "There is nothing to " + change + ": the policy is " + change + "d already."
		if !v.may("PUT", "/api/policies/{id}") {
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
	return policyData{Policy: &p}, err
}

// governed fills in who would enforce a policy that is about to be enabled.
func (v *visit) governed(d *policyData) error {
	if d.Governed = "Gateways that enforce policies do so within seconds."; d.Change != "enable" || !v.may("GET", "/api/gateways") {
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
	if err == nil && len(changed.Warnings) > 0 {
		return v.show("policy", policyData{Policy: &changed, Done: "The policy is " + change + "d."})
	}
	refused, err := v.wrote(err)
	if refused == nil {
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
