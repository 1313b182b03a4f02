//go:build unix

package e2e

import (
	"strings"
	"testing"

	"svc/gateway/auth/authtest"
	"svc/gateway/redis/redistest"
)

// The same subject of two issuers is two callers: neither has the other's session, tasks or rate
// limit.
func TestOneSubjectOfTwoIssuersIsTwoCallers(t *testing.T) {
	t.Parallel()
	first, second := newScripted(t), taskUpstream(t, jsonTask)
	o := newOAuthRig(t, first.URL+"\n  - name: second\n    url: "+second.URL, "", "",
		"    - {id: limit, action: rate_limit, tokens_per_second: 0.001, burst: 1, when: {tool_name: limited}}\n"+allowAll, nil)
	o.edit("routes:\n", "routes:\n  - {match: {tool_name: slow}, upstream: second}\n")
	o.edit("default_upstream: main", inRedis(redistest.Start(t).URL(), "operation_timeout: 5s")+"default_upstream: main") // Redis keeps tasks and buckets across the restart
	o.stop()
	o.start()
	before := []string{"Authorization", "Bearer " + o.token(nil)}
	opened := o.post(initialize, before...)
	sid := opened.header.Get("Mcp-Session-Id")
	if opened.status != 200 || sid == "" {
		t.Fatalf("initialize: %d %s", opened.status, opened.body)
	}
	o.makeTask("t-1", before...)
	limited := func(headers []string, want int) {
		t.Helper()
		if got := o.post(call("3", "limited"), append(headers, "Mcp-Session-Id", sid)...); got.status != want {
			t.Errorf("a limited call: %d %s, want %d", got.status, got.body, want)
		}
	}
	limited(before, 200)
	limited(before, 429)
	if got := o.askTask("tasks/get", "t-1", before...); got.status != 200 || len(askedAbout(second, "t-1")) != 1 {
		t.Errorf("the owner's task: %d %s", got.status, got.body)
	}

	o.stop()
	o.start() // the refusal alone does not remove the session
	if got := o.post(call("4", "safe"), append(before, "Mcp-Session-Id", sid)...); got.status != 200 {
		t.Errorf("the session after a restart: %d %s", got.status, got.body)
	}
	limited(before, 429)
	if o.askTask("tasks/get", "t-1", before...); len(askedAbout(second, "t-1")) != 2 {
		t.Error("the task after a restart was not followed to its upstream")
	}

	other := authtest.NewIssuer(t, o.key)
	o.edit(o.issuer.URL+"\n", other.URL+"\n")
	o.edit(o.issuer.JWKSURL(), other.JWKSURL())
	o.stop()
	o.start()
	after := []string{"Authorization", "Bearer " + o.token(map[string]any{"iss": other.URL})}
	if got := o.post(call("4", "safe"), append(after, "Mcp-Session-Id", sid)...); got.status != 404 {
		t.Errorf("the other's session: %d %s", got.status, got.body)
	}
	o.askTask("tasks/get", "t-1", after...)
	if n := len(askedAbout(second, "t-1")); n != 2 {
		t.Errorf("the other's task was followed to its upstream: %d requests", n)
	}
	again := o.post(initialize, after...)
	sid = again.header.Get("Mcp-Session-Id")
	limited(after, 200)
	limited(after, 429)
}

// askedAbout returns the requests about a task that an upstream received.
func askedAbout(u *upstreamServer, handle string) (out []seen) {
	for _, s := range u.seen() {
		if strings.Contains(s.body, "tasks/get") && strings.Contains(s.body, handle) {
			out = append(out, s)
		}
	}
	return out
}
