package ui

import (
	"net/http"
	"strings"
	"time"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// traceData is what the page of a trace shows.
type traceData struct {
	api.Trace
	Outcome display.Word
	Why     display.Why
	Stages  []display.Stage
	Total   float64
}

// sentences returns the words of a decision for the page: longer than those of a cell, and the names in them cannot hide
// anything.
func sentences(w display.Why) display.Why {
	w.Decision = strings.ToUpper(w.Decision[:1]) + w.Decision[1:] + "."
	for _, s := range []*string{&w.Decision, &w.Cause, &w.Told, &w.Do} {
		*s = visible(*s, false)
	}
	return w
}

// Share returns a part of the time of the trace in percent.
func (d traceData) Share(ms float64) float64 { return display.Share(ms, d.Total) }

// Bar returns the width of a stage in a picture that is 100 wide: the shortest one can still be seen.
func (d traceData) Bar(s display.Stage) float64 { return max(0.5, d.Share(s.Ms)) }

// Who returns who can do what is to be done, where that takes a command: not everybody who reads the page has one.
func (d traceData) Who() string {
	switch {
	case strings.Contains(d.Why.Do, "svc approvals "):
		return " (whoever decides about calls)"
	case strings.Contains(d.Why.Do, "svc policies "):
		return " (whoever manages the policies of the control plane)"
	case strings.Contains(d.Why.Do, "svc "):
		return " (whoever runs the gateway)"
	}
	return ""
}

// At returns where a stage begins in that picture.
func (d traceData) At(s display.Stage) float64 { return min(d.Share(s.From), 99.5) }

func showTrace(v *visit) error {
	id := v.PathValue("id")
	t, err := v.api.GetTrace(v.Context(), id)
	if refusal(err, http.StatusNotFound) != nil {
		return v.findRequest(id)
	}
	if err != nil {
		return err
	}
	d := display.DecisionOf(&t)
	data := traceData{Trace: t, Outcome: d.Word(), Why: sentences(d.Why())}
	data.Stages, data.Total = display.Waterfall(&t)
	return v.show("trace", data)
}

// findRequest shows the trace of a request id.
func (v *visit) findRequest(id string) error {
	page, err := v.api.ListTraces(v.Context(), client.TraceQuery{Page: client.Page{Limit: 1}, TraceFilter: client.TraceFilter{RequestID: id}})
	switch {
	case refusal(err, http.StatusBadRequest) != nil: // too long, or no text
	case err != nil:
		return err
	case len(page.Data) > 0:
		http.Redirect(v.w, v.Request, path("traces", page.Data[0].ID), http.StatusSeeOther)
		return nil
	}
	kept := "Traces are not removed by their age."
	if keep := v.page.o.TraceRetention; keep > 0 {
		kept = "Traces are kept for " + spell(keep) + "."
	}
	v.page.fail(v.w, v.Request, v, http.StatusNotFound, "No trace has this id or request id. "+kept+
		" Requests that a gateway refuses before it reads them have none: svc why ID --audit FILE searches its audit file.")
	return nil
}

// spell returns a duration in words.
func spell(d time.Duration) string {
	if days := int(d / (24 * time.Hour)); d%(24*time.Hour) == 0 {
		return display.Plural(days, "day", "days")
	}
	return display.Span(d)
}
