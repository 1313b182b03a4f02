package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store/api"
)

// TestAuditEventsOfAdministrators: each change has one event with the user and the
// request's id, and a client can verify the hash chain of the events.
func TestAuditEventsOfAdministrators(t *testing.T) {
	r := newRig(t)
	secret, id := r.key(r.admin, "api")
	keyName, _ := r.ask(r.admin, "GET", "/api/keys/"+id, "").want(200).data()["name"].(string)
	a := r.ask(secret, "POST", "/api/policies", policyBody("p", "")).want(201)
	policy := a.data().id(t)
	r.ask(secret, "PUT", "/api/policies/"+policy, `{"enabled":false}`).want(200)
	r.ask(secret, "PUT", "/api/policies/"+policy, `{"enabled":"x"}`).want(400)
	r.ask(secret, "POST", "/api/policies", policyBody("q", ""), "Idempotency-Key", "once").want(201)
	r.ask(secret, "POST", "/api/policies", policyBody("q", ""), "Idempotency-Key", "once").want(201) // the stored response
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)

	var page api.AuditEvents
	raw := r.ask(r.admin, "GET", "/api/audit/events", "").want(200).raw
	if err := json.Unmarshal(raw, &page); err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{secret, r.admin, "u1@example.com"} {
		if strings.Contains(string(raw), hidden) {
			t.Errorf("the events contain %s", hidden)
		}
	}
	var got []string
	for _, e := range page.Data {
		got = append(got, fmt.Sprint(e.Method, " ", e.Route, " ", e.Object.Kind, " ", strings.Join(e.Changed, ","), " ", e.Actor.KeyID == id))
	}
	want := []string{
		"POST /api/auth/webhook user displayName,email,role,status false",
		"POST /api/policies policy action,condition,enabled,name,on,phase,redactionStrategy true",
		"PUT /api/policies/{id} policy enabled true",
		"POST /api/policies policy action,condition,enabled,name,on,phase,redactionStrategy true",
		"POST /api/keys key createdBy,name,prefix,scope,teamId false",
	}
	if len(got) != 7 || strings.Join(got[:5], "\n") != strings.Join(want, "\n") { // the tenant and its first key are events too
		t.Errorf("events are\n%s", strings.Join(got, "\n"))
	}
	if first := page.Data[3]; first.RequestID != a.header.Get("X-Request-Id") || first.Address != "192.0.2.1" || first.Object.ID != policy || first.Object.Name != "p" {
		t.Errorf("%+v", first)
	}
	if name := page.Data[3].Actor.KeyName; name == "" || name != keyName {
		t.Errorf("the key of a change has the name %q, its event shows %q", keyName, name)
	}
	for i, e := range page.Data {
		before := page.PreviousHash
		if i+1 < len(page.Data) {
			before = page.Data[i+1].Hash
		}
		if e.Link(before) != e.Hash {
			t.Errorf("event %d is not linked to the one before", i)
		}
	}

	one := r.ask(r.admin, "GET", "/api/audit/events?limit=1&object=policy&objectId="+policy, "").want(200).object()
	if next, _ := one["next"].(string); next == "" || len(r.ask(r.admin, "GET", "/api/audit/events?limit=1&object=policy&objectId="+policy+"&after="+next, "").want(200).list()) != 1 {
		t.Errorf("pages of a filtered list: %v", one)
	}
	r.ask(r.admin, "GET", "/api/audit/events?object=planet", "").wantDetail("object")
	if n := len(r.ask(r.other, "GET", "/api/audit/events?object=policy", "").want(200).list()); n != 0 {
		t.Errorf("another tenant sees %d events", n)
	}
	// The digest after the change is the ETag of the object.
	if tag := r.ask(r.admin, "GET", "/api/policies/"+policy, "").header.Get("ETag"); tag != `"`+page.Data[2].After+`"` {
		t.Errorf("ETag %s, digest %s", tag, page.Data[2].After)
	}
	r.ask(r.admin, "DELETE", "/api/keys/"+id, "").want(200)
	if raw := r.ask(r.admin, "GET", "/api/audit/events?object=policy&limit=1", "").want(200).raw; strings.Contains(string(raw), "keyName") || !strings.Contains(string(raw), id) {
		t.Errorf("an event of a deleted key: %s", raw)
	}
}

// TestIfMatch: a change with the ETag of an older version is 412, for every kind.
func TestIfMatch(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "planner")
	_, key := r.key(r.admin, "agent")
	budget := r.ask(r.admin, "POST", "/api/costs/budgets", budgetBody("b", agent, "daily", 1)).want(201).object().id(t)
	sla := r.ask(r.admin, "POST", "/api/costs/sla", slaBody("s", agent, `"p99LatencyMs":1,`, "1h")).want(201).object().id(t)
	policy := r.ask(r.admin, "POST", "/api/policies", policyBody("p", "")).want(201).data().id(t)
	for _, path := range []string{
		"/api/teams/" + r.team(r.admin, "t"), "/api/policies/" + policy, "/api/costs/budgets/" + budget, "/api/costs/sla/" + sla,
		"/api/agents/" + agent, "/api/keys/" + key,
	} {
		tag := r.ask(r.admin, "GET", path, "").want(200).header.Get("ETag")
		if tag == "" {
			t.Fatalf("%s has no ETag", path)
		}
		if !strings.HasPrefix(path, "/api/keys") {
			changed := r.ask(r.admin, "PUT", path, `{"name":"another"}`, "If-Match", tag).want(200)
			if now := changed.header.Get("ETag"); now == tag || now == "" {
				t.Errorf("%s: ETag %s after the change", path, now)
			}
			r.ask(r.admin, "PUT", path, `{"name":"a third"}`, "If-Match", tag).want(412)
			r.ask(r.admin, "DELETE", path, "", "If-Match", tag).want(412)
			tag = changed.header.Get("ETag")
		}
		r.ask(r.admin, "DELETE", path, "", "If-Match", "nonsense").wantDetail("If-Match")
		r.ask(r.admin, "DELETE", path, "", "If-Match", `"00000000000000000000000000000000"`).want(412)
		r.ask(r.admin, "DELETE", path, "", "If-Match", `"0", `+tag).want(200)
	}
}

// TestWhoami: every key can read its own tenant and scopes.
func TestWhoami(t *testing.T) {
	r := newRig(t)
	limited, team := r.teamKey("limited", "costs:read")
	got := r.ask(limited, "GET", "/api/whoami", "").want(200).data()
	toObject(t, got["tenant"]).is(t, "id", "one")
	toObject(t, got["key"]).is(t, "scope", "api", "teamId", team)
	toObject(t, got["team"]).is(t, "name", "limited", "scopes", "[costs:read]")
	toObject(t, got["limits"]).is(t, "requestsPerMinute", "1e+06")
	ingest, _ := r.key(r.admin, "ingest")
	r.ask(ingest, "GET", "/api/whoami", "").want(200).data().has(t, "tenant", "key", "user", "limits")
}

// TestGovernanceWait: a long poll is answered within a second of the change, also of a
// change by another process, and the number of polls is bounded.
func TestGovernanceWait(t *testing.T) {
	r := newRig(t)
	ingest, id := r.key(r.admin, "ingest")
	tag := r.ask(ingest, "GET", "/api/governance", "").want(200).header.Get("ETag")
	r.ask(ingest, "GET", "/api/governance?wait=soon", "").wantDetail("wait")
	r.ask(ingest, "GET", "/api/governance?wait=1ms", "", "If-None-Match", tag).want(304)
	if a := r.ask(ingest, "GET", "/api/governance?wait=30s", "", "If-None-Match", `"other"`); a.status != 200 {
		t.Errorf("a request with another ETag than the current one waited: %d", a.status)
	}

	var wg sync.WaitGroup
	woken := make([]time.Time, 3)
	for i := range woken {
		wg.Go(func() {
			r.ask(ingest, "GET", "/api/governance?wait=60s", "", "If-None-Match", tag).want(200)
			woken[i] = time.Now()
		})
	}
	waitFor(t, func() bool {
		r.srv.bundles.mu.Lock()
		defer r.srv.bundles.mu.Unlock()
		return r.srv.bundles.byKey[id] == 3
	})
	changed := time.Now()
	r.ask(r.admin, "POST", "/api/policies", policyBody("p", "")).want(201)
	wg.Wait()
	for _, at := range woken {
		if took := at.Sub(changed); took > 5*time.Second { // one second, on an idle machine
			t.Errorf("answered after %s", took)
		}
	}

	// Polls beyond the bound are answered at once.
	tag = r.ask(ingest, "GET", "/api/governance", "").want(200).header.Get("ETag")
	for range maxWaitingOfKey {
		if !r.srv.bundles.enter(id) {
			t.Fatal("the bound is lower")
		}
	}
	r.ask(ingest, "GET", "/api/governance?wait=60s", "", "If-None-Match", tag).want(304)
	for range maxWaitingOfKey {
		r.srv.bundles.leave(id)
	}
	// A drain answers the waiting polls. A key that is deleted while it waits gets 401, when
	// the bundle changes and when the time is over.
	done := make(chan int, 2)
	gone, goneID := r.key(r.admin, "ingest")
	wait := func(key, atMost string) {
		req := httptest.NewRequest("GET", "/api/governance?wait="+atMost, nil)
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		r.srv.ServeHTTP(w, req)
		done <- w.Code
	}
	go wait(gone, "60s")
	waitFor(t, func() bool {
		r.srv.bundles.mu.Lock()
		defer r.srv.bundles.mu.Unlock()
		return r.srv.bundles.byKey[goneID] == 1
	})
	r.ask(r.admin, "DELETE", "/api/keys/"+goneID, "").want(200)
	r.ask(r.admin, "POST", "/api/policies", policyBody("another", "")).want(201)
	if code := <-done; code != 401 {
		t.Errorf("a key that was deleted got %d", code)
	}
	tag = r.ask(ingest, "GET", "/api/governance", "").want(200).header.Get("ETag")
	gone, goneID = r.key(r.admin, "ingest")
	go wait(gone, "1s")
	waitFor(t, func() bool {
		r.srv.bundles.mu.Lock()
		defer r.srv.bundles.mu.Unlock()
		return r.srv.bundles.byKey[goneID] == 1
	})
	r.ask(r.admin, "DELETE", "/api/keys/"+goneID, "").want(200)
	if code := <-done; code != 401 {
		t.Errorf("a key that was deleted got %d when the time was over", code)
	}
	go wait(ingest, "60s")
	waitFor(t, func() bool {
		r.srv.bundles.mu.Lock()
		defer r.srv.bundles.mu.Unlock()
		return r.srv.bundles.byKey[id] == 1
	})
	r.srv.Drain()
	if code := <-done; code != 304 {
		t.Errorf("after the drain: %d", code)
	}
}

// waitFor polls until a condition is true.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it never holds")
		}
	}
}
