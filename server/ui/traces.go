package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/server"
	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// tracesPage is the number of traces on a page.
const tracesPage = 50

// filterField is a parameter of GET /api/traces that the page can filter by, with what was typed, and what is wrong
// with it.
type filterField struct {
	Name, Label, Hint string
	Options           []string // of a choice
	Value, Problem    string
}

// shownFields are always visible, foldedFields when somebody opens them.
var (
	shownFields = []filterField{
		{Name: "agentName", Label: "Agent"}, {Name: "toolName", Label: "Tool"}, {Name: "status", Label: "Outcome", Options: api.TraceOutcomes},
		{Name: "startDate", Label: "From (UTC)", Hint: "2026-01-31T09:30Z"}, {Name: "endDate", Label: "Until (UTC)", Hint: "2026-01-31T09:30Z"},
	}
	foldedFields = []filterField{
		{Name: "ruleId", Label: "Rule"}, {Name: "policyId", Label: "Policy id"}, {Name: "environment", Label: "Environment"},
		{Name: "principal", Label: "Principal"}, {Name: "client", Label: "Client"}, {Name: "sessionId", Label: "Session"},
		{Name: "requestId", Label: "Request id"}, {Name: "agentId", Label: "Agent id"}, {Name: "modelName", Label: "Model"},
		{Name: "pii", Label: "PII", Hint: "EMAIL"}, {Name: "minDurationMs", Label: "At least, ms"},
		{Name: "minCostUsd", Label: "At least, USD"}, {Name: "maxCostUsd", Label: "At most, USD"},
		{Name: "minInjectionScore", Label: "Injection score at least", Hint: "0 to 1"},
	}
)

// traceFilter is the form of the filter.
type traceFilter struct {
	typed         url.Values // without empty values
	Shown, Folded []filterField
	Problems      []string // errors that belong to no field
	Any           bool     // the filter is in use
	Open, Failed  bool     // a folded field is in use; the filter has an error
}

// typedFilter reads the filter of a request. The control plane checks it.
func typedFilter(v *visit) *traceFilter {
	f := &traceFilter{typed: v.URL.Query(), Shown: slices.Clone(shownFields), Folded: slices.Clone(foldedFields)}
	for name, values := range f.typed {
		if strings.Join(values, "") == "" || name == "after" {
			f.typed.Del(name)
		} else if in := f.field(name); in != nil {
			in.Value, f.Any = f.typed.Get(name), true
		} else {
			f.problem(name, "there is no such filter")
		}
	}
	f.Open = slices.ContainsFunc(f.Folded, func(in filterField) bool { return in.Value != "" })
	return f
}

// field returns the field with a name, nil for none.
func (f *traceFilter) field(name string) *filterField {
	for _, list := range [][]filterField{f.Shown, f.Folded} {
		if i := slices.IndexFunc(list, func(in filterField) bool { return in.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// problem notes what is wrong with a parameter.
func (f *traceFilter) problem(name, problem string) {
	f.Failed = true
	if in := f.field(name); in != nil {
		in.Problem = problem
		return
	}
	f.Problems = append(f.Problems, name+": "+problem)
	slices.Sort(f.Problems)
}

// refused puts errors of the control plane at their fields; false when they are of another kind.
func (f *traceFilter) refused(err error) bool {
	answer := refusal(err, http.StatusBadRequest)
	if answer == nil {
		return false
	}
	f.Failed = true
	for name, problem := range answer.Details {
		f.problem(name, problem)
	}
	if len(answer.Details) == 0 {
		f.Problems = append(f.Problems, answer.Message)
	}
	return true
}

// api returns the filter for the client of the API.
func (f *traceFilter) api() client.TraceFilter { return client.TraceFilter{Typed: f.typed} }

// ended reports whether no new trace can match, because the time of the filter is over.
func (f *traceFilter) ended(now time.Time) bool {
	end, ok := server.Timestamp(f.typed.Get("endDate"), true)
	return ok && end.Before(now)
}

// decision returns why a trace has its outcome.
func decision(t api.TraceItem) *display.Decision { return display.DecisionOf(&api.Trace{TraceItem: t}) }

// tracesData is what the page of the list shows.
type tracesData struct {
	*traceFilter
	Rows    []api.TraceItem
	Total   int
	AtLeast bool // Total is a lower bound
	Pages   pager
	Live    string // path of the stream of new rows; empty for none
}

func listTraces(v *visit) error {
	q := v.URL.Query()
	if id := strings.TrimSpace(q.Get("id")); id != "" { // the form that jumps to an id
		http.Redirect(v.w, v.Request, path("traces", id), http.StatusSeeOther)
		return nil
	}
	f, after := typedFilter(v), q.Get("after")
	data := tracesData{traceFilter: f, Pages: v.pager("")}
	if len(f.Problems) == 0 {
		page, err := v.api.ListTraces(v.Context(), client.TraceQuery{Page: client.Page{Limit: tracesPage, After: after}, TraceFilter: f.api()})
		if err != nil && !f.refused(err) {
			return err
		}
		data.Rows, data.Total, data.AtLeast = page.Data, page.Total, page.TotalIsLowerBound
		data.Pages = v.pager(page.Next)
		if !f.Failed && after == "" && !f.ended(v.now) && v.may("GET", "/api/traces/stream") {
			data.Live = "/traces/live"
			if f.Any {
				data.Live += "?" + f.typed.Encode()
			}
		}
	}
	return v.show("traces", data)
}
