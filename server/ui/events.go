package ui

import (
	"time"

	"svc/server/client"
	"svc/store/api"
)

// eventRow is an event with the page of its object, empty for none.
type eventRow struct {
	api.AuditEvent
	Path string
}

// Did is what was done to the object.
func (e eventRow) Did() string {
	switch {
	case e.Object.Kind == "refusedKey":
		return "refused reports signed by another key for"
	case e.Before == "":
		return "created"
	case e.After == "":
		return "deleted"
	}
	return "changed"
}

// Kind is the kind of the object in words.
func (e eventRow) Kind() string {
	if word := map[string]string{"auditKey": "the key of the gateway", "refusedKey": "the gateway", "slaTarget": "SLA target"}[e.Object.Kind]; word != "" {
		return word
	}
	return e.Object.Kind
}

func listEvents(v *visit) error {
	asked := client.EventQuery{Page: client.Page{Limit: listedEvents, After: v.asked("after")}, Actor: v.asked("actor"), Object: v.asked("object"), ObjectID: v.asked("objectId")}
	since, noSince := day(v.asked("since"))
	until, noUntil := day(v.asked("until"))
	d := view{"Kinds": api.AuditObjectKinds, "Problem": "", "Rows": []eventRow(nil), "Filtered": asked.Actor+asked.Object+asked.ObjectID+v.asked("since")+v.asked("until") != ""}
	if noSince != nil || noUntil != nil {
		d["Problem"] = "A day is written as 2026-11-30."
		return v.show("events", d)
	}
	if asked.Since = since; !until.IsZero() {
		asked.Until = until.Add(24*time.Hour - time.Microsecond)
	}
	page, err := v.api.ListAuditEvents(v.Context(), asked)
	if err != nil {
		return err
	}
	var rows []eventRow
	for _, e := range page.Data {
		rows = append(rows, eventRow{e, v.pageOf(e)})
	}
	d["Rows"], d["Pages"] = rows, v.pager(page.Next)
	return v.show("events", d)
}

// day returns the beginning of a day that a form has; the zero time for an empty text.
func day(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, s)
}

// pageOf returns the path of the page of an event's object, empty if there is none, or if the object is gone.
func (v *visit) pageOf(e api.AuditEvent) string {
	to, id := map[string][2]string{
		"agent": {"agents", "/api/agents/{id}"}, "approval": {"approvals", "/api/approvals/{id}"}, "policy": {"policies", "/api/policies/{id}"},
		"gateway": {"gateways", "/api/gateways/{name}"}, "auditKey": {"gateways", "/api/gateways/{name}"}, "refusedKey": {"gateways", "/api/gateways/{name}"},
	}[e.Object.Kind], e.Object.ID
	switch {
	case e.After == "" && e.Object.Kind != "refusedKey", to[0] == "", !v.may("GET", to[1]):
		return ""
	}
	return path(to[0], id)
}
