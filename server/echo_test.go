package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// echoes maps paths to the kinds of objects that PUT changes.
var echoes = map[string]echo{
	"/api/teams/{id}": teams.echo, "/api/agents/{id}": agents.echo, "/api/costs/budgets/{id}": budgets.echo,
	"/api/costs/sla/{id}": slas.echo, "/api/policies/{id}": policies.echo, "/api/webhooks/{id}": webhooks.echo,
}

// PUT accepts the object that GET returned and changes nothing. A read-only member
// with another value is a 400 that names it, unless traffic may have changed it
// since.
func TestPutTakesWhatGetAnswers(t *testing.T) {
	doc, _ := servedDocument(t)
	b := newBodyRig(t, doc)
	for path, e := range echoes {
		t.Run(path, func(t *testing.T) {
			url := strings.Replace(path, "{id}", b.ids[path], 1)
			read := b.ask(b.admin, "GET", url, "").want(200)
			tag, object := read.header.Get("ETag"), read.data()
			b.ask(b.admin, "PUT", url, text(t, object)).want(200)
			if again := b.ask(b.admin, "GET", url, "").want(200).header.Get("ETag"); again != tag {
				t.Errorf("the ETag was %s and is %s", tag, again)
			}
			changed := func(name string) string {
				one := maps.Clone(object)
				switch v := one[name].(type) {
				case string:
					one[name] = v + "x"
					if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
						one[name] = at.Add(time.Nanosecond)
					}
				case float64:
					one[name] = v + 1
				case []any:
					one[name] = append(v, "keys:read")
				default:
					t.Fatalf("%s is %v", name, v)
				}
				return text(t, one)
			}
			for _, name := range e.fixed {
				b.ask(b.admin, "PUT", url, changed(name)).wantDetail(name)
			}
			for _, name := range e.measured {
				b.ask(b.admin, "PUT", url, changed(name)).want(200)
				one := maps.Clone(object)
				one[name] = []any{}
				b.ask(b.admin, "PUT", url, text(t, one)).wantDetail(name)
			}
			for _, name := range e.counted {
				b.ask(b.admin, "PUT", url, changed(name)).wantDetail(name)
				one := maps.Clone(object)
				one[name] = object[name].(float64) - 1
				b.ask(b.admin, "PUT", url, text(t, one)).want(200)
			}
			// Other errors in the body are reported too.
			wrong := maps.Clone(object)
			wrong["id"], wrong["unnamed"] = "other", 1
			b.ask(b.admin, "PUT", url, text(t, wrong)).wantDetail("id").wantDetail("unnamed")
			for _, name := range []string{"id", "name"} {
				null := maps.Clone(object)
				null[name] = nil
				b.ask(b.admin, "PUT", url, text(t, null)).wantDetail(name)
			}
			// Members that can be changed are changed along with them.
			if _, ok := object["name"]; ok {
				object["name"] = "another"
				b.ask(b.admin, "PUT", url, text(t, object)).want(200).data().is(t, "name", "another", "id", object["id"])
			}
			b.ask(b.admin, "PUT", strings.Replace(path, "{id}", "unknown", 1), text(t, object)).want(404)
		})
	}
}

// Equal timestamps and numbers may be written in any form, and timestamps in any
// time zone.
func TestPutComparesValuesNotTexts(t *testing.T) {
	r := newRig(t)
	url := "/api/agents/" + r.agent(r.admin, "one")
	object := r.ask(r.admin, "GET", url, "").data()
	at := object.moment(t, "createdAt")
	r.ask(r.admin, "PUT", url, fmt.Sprintf(`{"createdAt":%q}`, at.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano))).want(200)
	team := "/api/teams/" + r.team(r.admin, "one", "agents:read")
	r.ask(r.admin, "PUT", team, `{"memberCount":0.0,"scopes":["agents:read"]}`).want(200)
	if got := r.ask(r.admin, "PUT", team, `{"scopes":[]}`).wantDetail("scopes").detail("scopes"); !strings.Contains(got, "PUT /api/teams/{id}/scopes") {
		t.Errorf("the detail does not name the way to change scopes: %s", got)
	}
}

// A name that was stored before names were normalized is accepted unchanged.
func TestPutKeepsAnOldSpelling(t *testing.T) {
	r := newRig(t)
	old := "caf\u0065\u0301"
	made, err := r.store.Tenant("one").CreateAgent(t.Context(), store.AgentCreate{Name: old})
	if err != nil {
		t.Fatal(err)
	}
	url := "/api/agents/" + made.ID
	object := r.ask(r.admin, "GET", url, "").want(200).data()
	object["description"] = "new"
	r.ask(r.admin, "PUT", url, text(t, object)).want(200).data().is(t, "name", old, "description", "new")
}

// Either measure of an SLA target can be removed, but not both.
func TestNullTakesAFigureOfAnSLATargetAway(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "one")
	url := "/api/costs/sla/" + r.ask(r.admin, "POST", "/api/costs/sla",
		`{"name":"s","agentId":"`+agent+`","p99LatencyMs":100,"errorRatePercent":1,"evaluationPeriod":"24h"}`).want(201).object().id(t)
	r.ask(r.admin, "PUT", url, `{"p99LatencyMs":null,"errorRatePercent":null}`).wantDetail("errorRatePercent")
	r.ask(r.admin, "PUT", url, `{"p99LatencyMs":null}`, "If-Match", `"0"`).want(412)
	r.ask(r.admin, "PUT", url, `{"p99LatencyMs":null}`).want(200).data().is(t, "p99LatencyMs", nil, "errorRatePercent", 1)
	r.ask(r.admin, "PUT", url, `{"p99LatencyMs":null}`).want(200)
	r.ask(r.admin, "PUT", url, `{"errorRatePercent":null}`).wantDetail("errorRatePercent")
	r.ask(r.admin, "PUT", url, `{"errorRatePercent":null,"p99LatencyMs":50}`).want(200).data().is(t, "p99LatencyMs", 50, "errorRatePercent", nil)
	r.ask(r.admin, "PUT", url, `{"evaluationPeriod":null}`).wantDetail("evaluationPeriod")
}

// Objects of every kind can be read by id.
func TestEveryKindIsReadByID(t *testing.T) {
	doc, _ := servedDocument(t)
	b := newBodyRig(t, doc)
	_, key := b.key(b.admin, "ingest")
	paths := map[string]string{"/api/keys/{id}": key}
	for path := range echoes {
		paths[path] = b.ids[path]
	}
	for path, id := range paths {
		got := b.ask(b.admin, "GET", strings.Replace(path, "{id}", id, 1), "").want(200)
		got.data().is(t, "id", id)
		if got.header.Get("ETag") == "" || !json.Valid(got.raw) {
			t.Errorf("%s: no ETag", path)
		}
	}
}
