package ui

import (
	"strings"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// eventsData is what the page of administrators' events shows.
type eventsData struct {
	Actor, Object, ObjectID, Since, Until string // the filters
	Problem                               string
	Kinds                                 []string
	Rows                                  []eventRow
	Pages                                 pager
}

// Filtered reports whether the list has filters.
func (d eventsData) Filtered() bool {
	return d.Actor+d.Object+d.ObjectID+d.Since+d.Until != ""
}

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
	q := v.URL.Query()
	of := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	d := eventsData{Actor: of("actor"), Object: of("object"), ObjectID: of("objectId"), Since: of("since"), Until: of("until"), Kinds: api.AuditObjectKinds}
	asked := client.EventQuery{Page: client.Page{Limit: listedEvents, After: q.Get("after")}, Actor: d.Actor, Object: d.Object, ObjectID: d.ObjectID}
	var ok [2]bool
	asked.Since, ok[0] = day(d.Since, 0)
	asked.Until, ok[1] = day(d.Until, 24*time.Hour-time.Microsecond)
	if !ok[0] || !ok[1] {
		d.Problem = "A day is written as 2026-11-30."
		return v.show("events", d)
	}
	page, err := v.api.ListAuditEvents(v.Context(), asked)
	if err != nil {
		return err
	}
	for _, e := range page.Data {
		d.Rows = append(d.Rows, eventRow{e, v.pageOf(e)})
	}
	d.Pages = v.pager(page.Next)
	return v.show("events", d)
}

// day returns a moment of a day that a form has; the zero time for an empty text.
func day(s string, after time.Duration) (t time.Time, ok bool) {
	if s == "" {
		return t, true
	}
	t, err := time.Parse(time.DateOnly, s)
	return t.Add(after), err == nil
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
