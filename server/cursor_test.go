package server

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// TestCursorsLeadThroughLists: paging by cursor returns every item that existed at the
// start exactly once and in order, even when items are added meanwhile.
func TestCursorsLeadThroughLists(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "agent")
	r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, `"p99LatencyMs":1,`, "1h")).want(201)
	slas, err := r.store.Tenant(tenantOf(t, r)).ListSLAs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	add := map[string]func(){
		"/api/teams":    func() { r.team(r.admin, fmt.Sprint("t", n)) },
		"/api/agents":   func() { r.agent(r.admin, fmt.Sprint("a", n)) },
		"/api/policies": func() { r.ask(r.admin, "POST", "/api/policies", policyBody(fmt.Sprint("p", n), "")).want(201) },
		"/api/keys":     func() { r.key(r.admin, "agent") },
		"/api/traces": func() {
			r.traces(store.Trace{ID: fmt.Sprint(n), AgentID: agent, Status: store.TraceSuccess, CreatedAt: epoch.Add(time.Duration(n/3) * time.Second)})
		},
		"/api/costs/sla/violations": func() {
			at := epoch.Add(-time.Hour + time.Duration(n)*time.Second)
			_, err := r.store.Tenant(tenantOf(t, r)).RecordViolation(t.Context(), store.SLAViolation{SLAID: slas[0].ID, Type: "latency", PeriodStart: at, PeriodEnd: at.Add(time.Minute)})
			if err != nil {
				t.Fatal(err)
			}
		},
	}
	for path, one := range add {
		for range 11 {
			n++
			one()
		}
		want := r.ask(r.admin, "GET", path, "").want(200).list()
		var got []object
		after := ""
		for pages := 0; pages < 100; pages++ {
			a := r.ask(r.admin, "GET", path+"?limit=3&after="+url.QueryEscape(after), "").want(200)
			got = append(got, a.list()...)
			next, _ := a.object()["next"].(string)
			if next == "" {
				break
			}
			after = next
			n++
			one()
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: from cursor to cursor\n%v\nwant\n%v", path, got, want)
		}
		if after == "" {
			t.Fatalf("%s has no cursors", path)
		}
		r.ask(r.admin, "GET", path+"?offset=0&after="+after, "").wantDetail("after")
		for _, bad := range []string{"x", "!!", after + "A", after[:len(after)-1], strings.Repeat("A", 600)} {
			r.ask(r.admin, "GET", path+"?after="+bad, "").wantDetail("after")
		}
		for other := range add {
			if other != path {
				r.ask(r.admin, "GET", other+"?after="+after, "").wantDetail("after")
			}
		}
	}
}

func tenantOf(t *testing.T, r *rig) string {
	t.Helper()
	cred, err := r.store.Authenticate(t.Context(), store.DigestKey(r.admin))
	if err != nil {
		t.Fatal(err)
	}
	return cred.TenantID
}

// TestLongOffsetsLinkToACursor: beyond offset 100,000 a page takes a slot for long
// pages, and a Link header has a cursor for the next page.
func TestLongOffsetsLinkToACursor(t *testing.T) {
	r := newRig(t)
	var batch []store.Trace
	for i := range longOffset + 5 {
		batch = append(batch, store.Trace{ID: fmt.Sprint(i), AgentName: "a", Status: store.TraceSuccess, CreatedAt: epoch})
		if len(batch) == store.MaxIngestBatch || i == longOffset+4 {
			r.traces(batch...)
			batch = nil
		}
	}
	near := r.ask(r.admin, "GET", fmt.Sprintf("/api/traces?limit=2&offset=%d", longOffset), "").want(200)
	if near.header.Get("Link") != "" {
		t.Errorf("Link %q at offset %d", near.header.Get("Link"), longOffset)
	}
	far := r.ask(r.admin, "GET", fmt.Sprintf("/api/traces?status=success&limit=2&offset=%d", longOffset+1), "").want(200)
	link, ok := strings.CutPrefix(far.header.Get("Link"), "<")
	link, rel, _ := strings.Cut(link, ">")
	if !ok || rel != `; rel="next"` {
		t.Fatalf("Link %q", far.header.Get("Link"))
	}
	next := r.ask(r.admin, "GET", link, "").want(200)
	if list := next.list(); len(list) != 2 || list[0]["id"] != "1" || list[1]["id"] != "0" || next.object()["next"] != nil {
		t.Errorf("the page of the link: %v", next.object())
	}
	last := r.ask(r.admin, "GET", fmt.Sprintf("/api/traces?offset=%d", longOffset+3), "").want(200)
	if last.header.Get("Link") != "" {
		t.Errorf("the last page has the link %q", last.header.Get("Link"))
	}
	for range cap(r.srv.largePageSlots) {
		r.srv.largePageSlots <- struct{}{}
	}
	r.ask(r.admin, "GET", "/api/traces?limit=2", "").want(200) // takes no slot
}

// TestExportOfTraces: all traces that pass the filters, as NDJSON or as CSV without
// formulas in cells.
func TestExportOfTraces(t *testing.T) {
	r := newRig(t)
	var batch []store.Trace
	const n = 1203
	for i := range n {
		status := store.TraceSuccess
		if i%2 == 1 {
			status = store.TraceError
		}
		batch = append(batch, store.Trace{ID: fmt.Sprint(i), AgentName: "=cmd|' /C calc'!A0", Status: status, ToolName: "a,\"b\"\nc", CreatedAt: epoch.Add(time.Duration(i/10) * time.Second)})
		if len(batch) == 500 || i == n-1 {
			r.traces(batch...)
			batch = nil
		}
	}
	a := r.ask(r.admin, "GET", "/api/traces/export", "").want(200)
	lines := strings.Split(strings.TrimSuffix(string(a.raw), "\n"), "\n")
	if len(lines) != n {
		t.Fatalf("%d lines, want %d", len(lines), n)
	}
	whole := r.ask(r.admin, "GET", "/api/traces?limit=500", "").want(200).list()
	for i, line := range lines {
		var item object
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatal(err)
		}
		if i < len(whole) && fmt.Sprint(item) != fmt.Sprint(whole[i]) {
			t.Fatalf("line %d is %v, the list has %v", i, item, whole[i])
		}
	}
	records, err := csv.NewReader(strings.NewReader(string(r.ask(r.admin, "GET", "/api/traces/export?format=csv&status=error", "").want(200).raw))).ReadAll()
	if err != nil || len(records) != 1+n/2 || !slices.Equal(records[0], exportColumns) {
		t.Fatalf("%d records, %v: %q", len(records), err, records[0])
	}
	for _, rec := range records[1:] {
		if rec[3] != "'=cmd|' /C calc'!A0" || rec[4] != "error" || rec[10] != "a,\"b\"\nc" {
			t.Fatalf("record %q", rec)
		}
	}
	if got := r.ask(r.admin, "GET", "/api/traces/export?environment=none", "").want(200); len(got.raw) != 0 {
		t.Errorf("an empty export is %q", got.raw)
	}
	r.ask(r.admin, "GET", "/api/traces/export?format=xml", "").wantDetail("format")
	r.ask(r.admin, "GET", "/api/traces/export?limit=3", "").wantDetail("limit")
}
