package server

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// details returns the details of a 400; nil for no error.
func details(t *testing.T, err error) map[string]string {
	t.Helper()
	if err == nil {
		return nil
	}
	var f *failure
	if !errors.As(err, &f) || f.status != 400 {
		t.Fatalf("got %v, want a 400", err)
	}
	return f.details
}

// TestPaging: limit above 500 is clamped; below 1 or not a number, and an
// offset below 0, are 400.
func TestPaging(t *testing.T) {
	for _, tc := range []struct {
		name, raw string
		want      store.Page
		wrong     string
	}{
		{"default", "", store.Page{Limit: 50}, ""},
		{"given", "limit=7&offset=3", store.Page{Limit: 7, Offset: 3}, ""},
		{"one", "limit=1", store.Page{Limit: 1}, ""},
		{"largest", "limit=500", store.Page{Limit: 500}, ""},
		{"above is clamped", "limit=501", store.Page{Limit: 500}, ""},
		{"far above is clamped", "limit=99999999999999999999", store.Page{Limit: 500}, ""},
		{"zero", "limit=0", store.Page{}, "limit"},
		{"negative", "limit=-1", store.Page{}, "limit"},
		{"word", "limit=abc", store.Page{}, "limit"},
		{"exponent", "limit=1e3", store.Page{}, "limit"},
		{"fraction", "limit=1.5", store.Page{}, "limit"},
		{"plus", "limit=%2B5", store.Page{}, "limit"},
		{"empty", "limit=", store.Page{}, "limit"},
		{"other digits", "limit=%D9%A3", store.Page{}, "limit"},
		{"repeated", "limit=1&limit=2", store.Page{}, "limit"},
		{"offset beyond everything", "offset=1000000000000000000", store.Page{Limit: 50, Offset: maxInteger}, ""},
		{"offset negative", "offset=-1", store.Page{}, "offset"},
		{"offset word", "offset=x", store.Page{}, "offset"},
		{"unknown parameters are for checkQuery", "page=2&_=1", store.Page{Limit: 50}, ""},
		{"semicolon", "limit=1;offset=2", store.Page{}, "query"},
		{"bad escape", "limit=%zz", store.Page{}, "query"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := newQuery(tc.raw)
			got := q.page(50)
			wrong := details(t, q.err())
			if tc.wrong != "" {
				if wrong[tc.wrong] == "" {
					t.Fatalf("details %v do not name %s", wrong, tc.wrong)
				}
				return
			}
			if wrong != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, wrong, tc.want)
			}
		})
	}
}

func TestQueryValues(t *testing.T) {
	allowed := []string{"request", "response"}
	for _, tc := range []struct {
		name, raw string
		wrong     bool
		read      func(*query) any
		want      any
	}{
		{"enum", "v=request", false, func(q *query) any { return q.enum("v", "", allowed) }, "request"},
		{"enum default", "", false, func(q *query) any { return q.enum("v", "response", allowed) }, "response"},
		{"enum unknown value", "v=both", true, func(q *query) any { return q.enum("v", "", allowed) }, nil},
		{"enum empty", "v=", true, func(q *query) any { return q.enum("v", "", allowed) }, nil},
		{"enum repeated", "v=request&v=response", true, func(q *query) any { return q.enum("v", "", allowed) }, nil},
		{"boolean", "v=true", false, func(q *query) any { return *q.boolean("v") }, true},
		{"boolean false", "v=false", false, func(q *query) any { return *q.boolean("v") }, false},
		{"boolean number", "v=1", true, func(q *query) any { return q.boolean("v") }, nil},
		{"number", "v=0.5", false, func(q *query) any { return *q.number("v", 0, 1) }, 0.5},
		{"number exponent", "v=5e-1", false, func(q *query) any { return *q.number("v", 0, 1) }, 0.5},
		{"number minus zero", "v=-0", false, func(q *query) any { return *q.number("v", 0, 1) == 0 }, true},
		{"number above", "v=1.01", true, func(q *query) any { return q.number("v", 0, 1) }, nil},
		{"number below", "v=-0.1", true, func(q *query) any { return q.number("v", 0, 1) }, nil},
		{"NaN", "v=NaN", true, func(q *query) any { return q.number("v", 0, 1) }, nil},
		{"infinity", "v=Inf", true, func(q *query) any { return q.number("v", 0, 1) }, nil},
		{"hexadecimal", "v=0x1p-1", true, func(q *query) any { return q.number("v", 0, 1) }, nil},
		{"number empty", "v=", true, func(q *query) any { return q.number("v", 0, 1) }, nil},
		{"text", "v=prod", false, func(q *query) any { return q.text("v") }, "prod"},
		{"text empty is no filter", "v=", false, func(q *query) any { return q.text("v") }, ""},
		{"text NUL", "v=a%00", true, func(q *query) any { return q.text("v") }, nil},
		{"text invalid UTF-8", "v=%ff", true, func(q *query) any { return q.text("v") }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := newQuery(tc.raw)
			if tc.wrong {
				_ = tc.read(q)
				if wrong := details(t, q.err()); wrong["v"] == "" {
					t.Fatalf("details %v do not name v", wrong)
				}
				return
			}
			if got := tc.read(q); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if err := q.err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestQueryTimestamp(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		end         bool
		want        string // RFC 3339, empty for an error
	}{
		{"UTC", "2026-01-31T09:30:00Z", false, "2026-01-31T09:30:00Z"},
		{"fraction", "2026-01-31T09:30:00.25Z", false, "2026-01-31T09:30:00.25Z"},
		{"offset", "2026-01-31T09:30:00+02:00", false, "2026-01-31T07:30:00Z"},
		{"without a zone it is UTC", "2026-01-31T09:30:00", false, "2026-01-31T09:30:00Z"},
		{"without seconds", "2026-01-31T09:30Z", false, "2026-01-31T09:30:00Z"},
		{"date as start", "2026-01-31", false, "2026-01-31T00:00:00Z"},
		{"date as inclusive end", "2026-01-31", true, "2026-01-31T23:59:59.999999999Z"},
		{"bad zone", "2026-01-31T09:30:00+99:99", false, ""},
		{"zone name", "2026-01-31T09:30:00 CET", false, ""},
		{"no such day", "2026-02-30", false, ""},
		{"leap second", "2026-06-30T23:59:60Z", false, "2026-06-30T23:59:59.999999999Z"},
		{"no leap second", "2026-06-30T23:58:60Z", false, ""},
		{"seconds", "1769851800", false, ""},
		{"empty", "", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := newQuery(url.Values{"at": {tc.value}}.Encode())
			got := q.timestamp("at", tc.end)
			if tc.want == "" {
				if wrong := details(t, q.err()); wrong["at"] == "" {
					t.Fatalf("got %v, details %v", got, wrong)
				}
				return
			}
			if err := q.err(); err != nil {
				t.Fatal(err)
			}
			if s := got.Format(time.RFC3339Nano); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
	q := newQuery("at=2026-01-31T09:30:00+02:00") // the + was not escaped
	if got := q.timestamp("at", false); got == nil || got.Hour() != 7 {
		t.Errorf("got %v, %v", got, q.err())
	}
}

// Routes for people reject unknown parameters; routes for programs ignore them.
func TestUnknownParametersAreRefused(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "a")
	for _, path := range []string{"/api/teams", "/api/agents", "/api/agents/" + agent, "/api/agents/" + agent + "/tools", "/api/costs/budgets",
		"/api/costs/sla", "/api/costs/sla/violations", "/api/costs/breakdown", "/api/policies", "/api/policies/templates", "/api/keys", "/api/traces", "/api/traces/stats",
		"/api/traces/stream", "/api/audit/heads", "/api/openapi.json"} {
		r.ask(r.admin, "GET", path+"?enviroment=x", "").wantDetail("enviroment")
		r.ask(r.admin, "GET", path+"?%00=&"+strings.Repeat("x", 100)+"=1", "").want(400)
	}
	r.ask(r.admin, "POST", "/api/teams?dryRun=1", `{"name":"x"}`).wantDetail("dryRun")
	r.ask(r.admin, "DELETE", "/api/agents/"+agent+"?force=1", "").wantDetail("force")
	r.ask(r.admin, "GET", "/api/teams?"+manyParameters(10_000), "").want(400)

	for _, path := range []string{"/api/costs/budgets", "/api/costs/sla", "/api/costs/sla/violations", "/api/policies/templates", "/api/audit/heads"} {
		r.ask(r.admin, "GET", path+"?limit=7&offset=3", "").want(200)
		r.ask(r.admin, "GET", path+"?limit=x", "").wantDetail("limit")
		r.ask(r.admin, "GET", path+"?offset=-1", "").wantDetail("offset")
	}
}

// Every route for programs ignores unknown parameters of any form, so that a
// sender of a later release is supported; the request has its effect.
func TestRoutesOfProgramsIgnoreUnknownParameters(t *testing.T) {
	r := newRig(t)
	event := fmt.Sprintf(`{"type":"user.created","createdAt":%q,"data":{"userId":"usr_later","email":"later@example.com","orgId":"org_one"}}`,
		epoch.Format(time.RFC3339))
	gateway, _ := r.key(r.admin, "ingest")
	asked := "/api/approvals/" + r.ask(gateway, "POST", "/api/approvals", approvalBody("key:bob", 1)).want(201).data().id(t)
	r.ask(r.admin, "POST", asked+"/decision", `{"decision":"grant"}`).want(200)
	seq := 0
	requests := map[string]func(parameters string) *reply{
		"POST /api/approvals": func(p string) *reply {
			return r.ask(gateway, "POST", "/api/approvals"+p, approvalBody("key:bob", 1)).want(200)
		},
		"POST /api/approvals/{id}/claim": func(p string) *reply {
			return r.ask(gateway, "POST", asked+"/claim"+p, claimBody(1, 1)).want(200)
		},
		"POST /api/approvals/{id}/release": func(p string) *reply {
			return r.ask(gateway, "POST", asked+"/release"+p, claimBody(1, 1)).want(200)
		},
		"POST /api/traces": func(p string) *reply {
			return r.ask(r.admin, "POST", "/api/traces"+p, `{"agentName":"a","status":"success"}`).want(201)
		},
		"POST /api/otlp/v1/traces": func(p string) *reply {
			return r.ask(r.admin, "POST", "/api/otlp/v1/traces"+p, `{"resourceSpans":[]}`).want(200)
		},
		"GET /api/governance": func(p string) *reply {
			return r.ask(r.admin, "GET", "/api/governance"+p, "").want(200)
		},
		"POST /api/audit/heads": func(p string) *reply {
			return r.ask(r.admin, "POST", "/api/audit/heads"+p, auditHeadBody("gateway-1", 7, "a")).want(201)
		},
		"PUT /api/gateways/{name}": func(p string) *reply {
			seq++
			return r.ask(gateway, "PUT", "/api/gateways/g"+p, reportBody(seq, seq)).want(200)
		},
		"POST /api/auth/webhook": func(p string) *reply {
			return r.ask("", "POST", "/api/auth/webhook"+p, event, signatureHeader, sign(webhookSecret, r.clock.Now().Unix(), event)).want(200)
		},
	}
	for _, rt := range routes() {
		name := rt.method + " " + rt.path
		if rt.window == apiWindow {
			continue
		}
		send, ok := requests[name]
		if !ok {
			t.Errorf("%s has no request here", name)
			continue
		}
		plain := send("")
		for _, parameters := range []string{"?later=1", "?limit=x&offset=-1", "?userId=usr_other&tenant=two&later=1&later=2", "?a;b=%zz&=", "?" + manyParameters(10_000)} {
			if a := send(parameters); a.status != plain.status || name == "GET /api/governance" && string(a.raw) != string(plain.raw) {
				t.Errorf("%s%.40s: %d %s", name, parameters, a.status, a.raw)
			}
		}
	}
	if got := r.ask(r.admin, "GET", "/api/traces?limit=1", "").want(200).object()["total"]; got != 6.0 {
		t.Errorf("%v traces, want 6", got)
	}
	team := r.team(r.admin, "of the event")
	r.ask(r.admin, "POST", "/api/teams/"+team+"/members", `{"userId":"usr_later"}`).want(201).object().is(t, "email", "later@example.com")
}

func manyParameters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "p%d=&", i)
	}
	return b.String()
}
