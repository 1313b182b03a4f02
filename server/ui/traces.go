package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// tracesPage is the number of traces on a page.
const tracesPage = 50

// filterField is a parameter of GET /api/traces that the page can filter by.
type filterField struct {
	Name, Label, Hint string
	Options           []string // of a choice
	Always            bool     // visible without opening the details
}

var filterFields = []filterField{
	{Name: "agentName", Label: "Agent", Always: true},
	{Name: "toolName", Label: "Tool", Always: true},
	{Name: "status", Label: "Outcome", Options: api.TraceOutcomes, Always: true},
	{Name: "startDate", Label: "From (UTC)", Hint: "2026-01-31T09:30Z", Always: true},
	{Name: "endDate", Label: "Until (UTC)", Hint: "2026-01-31T09:30Z", Always: true},
	{Name: "ruleId", Label: "Rule"}, {Name: "policyId", Label: "Policy id"}, {Name: "environment", Label: "Environment"},
	{Name: "principal", Label: "Principal"}, {Name: "client", Label: "Client"}, {Name: "sessionId", Label: "Session"},
	{Name: "requestId", Label: "Request id"}, {Name: "agentId", Label: "Agent id"}, {Name: "modelName", Label: "Model"},
	{Name: "pii", Label: "PII", Hint: "EMAIL"}, {Name: "minDurationMs", Label: "At least, ms"},
	{Name: "minCostUsd", Label: "At least, USD"}, {Name: "maxCostUsd", Label: "At most, USD"},
	{Name: "minInjectionScore", Label: "Injection score at least", Hint: "0 to 1"},
}

// filterInput is a field of the form with what was typed, and what is wrong with it.
type filterInput struct {
	filterField
	Value, Problem string
}

// traceFilter is the form of the filter.
type traceFilter struct {
	typed  url.Values // without empty values
	Inputs []filterInput
	// Problems are errors that belong to no field.
	Problems []string
}

// typedFilter reads the filter of a request. The control plane checks it.
func typedFilter(v *visit) *traceFilter {
	f := &traceFilter{typed: v.URL.Query()}
	f.typed.Del("after")
	for name, values := range f.typed {
		if strings.Join(values, "") == "" {
			f.typed.Del(name)
		}
	}
	for _, field := range filterFields {
		f.Inputs = append(f.Inputs, filterInput{filterField: field, Value: f.typed.Get(field.Name)})
	}
	for name := range f.typed {
		if !slices.ContainsFunc(filterFields, func(field filterField) bool { return field.Name == name }) {
			f.Problems = append(f.Problems, name+": there is no such filter")
		}
	}
	slices.Sort(f.Problems)
	return f
}

// refused puts errors of the control plane at their fields; false when they are of another kind.
func (f *traceFilter) refused(err error) bool {
	answer := refusal(err, http.StatusBadRequest)
	if answer == nil {
		return false
	}
	for name, problem := range answer.Details {
		if i := slices.IndexFunc(f.Inputs, func(in filterInput) bool { return in.Name == name }); i >= 0 {
			f.Inputs[i].Problem = problem
		} else {
			f.Problems = append(f.Problems, name+": "+problem)
		}
	}
	if len(answer.Details) == 0 {
		f.Problems = append(f.Problems, answer.Message)
	}
	slices.Sort(f.Problems)
	return true
}

// api returns the filter for the client of the API.
func (f *traceFilter) api() client.TraceFilter { return client.TraceFilter{Typed: f.typed} }

// Shown returns the fields that are always visible, and Folded the others.
func (f *traceFilter) Shown() []filterInput  { return f.where(true) }
func (f *traceFilter) Folded() []filterInput { return f.where(false) }

func (f *traceFilter) where(always bool) (list []filterInput) {
	for _, in := range f.Inputs {
		if in.Always == always {
			list = append(list, in)
		}
	}
	return list
}

// Open reports whether a folded field is in use.
func (f *traceFilter) Open() bool {
	return slices.ContainsFunc(f.Folded(), func(in filterInput) bool { return in.Value+in.Problem != "" })
}

// Failed reports whether the filter has an error.
func (f *traceFilter) Failed() bool {
	return len(f.Problems) > 0 || slices.ContainsFunc(f.Inputs, func(in filterInput) bool { return in.Problem != "" })
}

// Any reports whether the filter is in use.
func (f *traceFilter) Any() bool { return len(f.typed) > 0 }

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
	if id := strings.TrimSpace(v.FormValue("id")); id != "" { // the form that jumps to an id
		http.Redirect(v.w, v.Request, path("traces", id), http.StatusSeeOther)
		return nil
	}
	f, after := typedFilter(v), v.FormValue("after")
	f.typed.Del("id")
	data := tracesData{traceFilter: f, Pages: v.pager("")}
	if len(f.Problems) == 0 {
		page, err := v.api.ListTraces(v.Context(), client.TraceQuery{Page: client.Page{Limit: tracesPage, After: after}, TraceFilter: f.api()})
		if err != nil && !f.refused(err) {
			return err
		}
		data.Rows, data.Total, data.AtLeast = page.Data, page.Total, page.TotalIsLowerBound
		data.Pages = v.pager(page.Next)
		if !f.Failed() && after == "" && v.may("GET", "/api/traces/stream") {
			data.Live = "/traces/live"
			if f.Any() {
				data.Live += "?" + f.typed.Encode()
			}
		}
	}
	return v.show("traces", data)
}
