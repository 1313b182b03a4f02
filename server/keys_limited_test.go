package server

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTeamLimitedKeys: a key with a teamId has the current scopes of the team,
// checked on every request.
func TestTeamLimitedKeys(t *testing.T) {
	r := newRig(t)
	key, team := r.teamKey("readers", "agents:read")
	r.ask(key, "GET", "/api/agents", "").want(200)
	a := r.ask(key, "POST", "/api/agents", `{"name":"x"}`).want(403)
	if !strings.Contains(string(a.raw), "agents:write") {
		t.Errorf("the 403 does not say what is lacking: %s", a.raw)
	}
	r.ask(key, "GET", "/api/teams", "").want(403)
	r.scopes(r.admin, team, "agents:read", "agents:write").want(200)
	r.ask(key, "POST", "/api/agents", `{"name":"x"}`).want(201)
	r.scopes(r.admin, team).want(200)
	r.ask(key, "GET", "/api/agents", "").want(403)
	r.ask(r.admin, "GET", "/api/keys", "").want(200).list()[0].has(t, append(keyItemFields, "teamId")...).is(t, "teamId", team)

	t.Run("an agent key is limited twice", func(t *testing.T) {
		r.scopes(r.admin, team, "agents:read", "agents:write", "teams:read").want(200)
		secret, _ := r.key(r.admin, "agent", "teamId", team)
		r.ask(secret, "GET", "/api/agents", "").want(200)
		r.ask(secret, "POST", "/api/agents", `{"name":"y"}`).want(403) // the scope agent only reads
		r.ask(secret, "GET", "/api/teams", "").want(403)
		r.ask(secret, "GET", "/api/traces", "").want(403) // the team lacks traces:read
	})
	t.Run("SLA violations are open to compliance:read", func(t *testing.T) {
		r.scopes(r.admin, team, "compliance:read").want(200)
		r.ask(key, "GET", "/api/costs/sla/violations", "").want(200)
		r.ask(key, "GET", "/api/costs/sla", "").want(403)
		r.scopes(r.admin, team, "costs:read").want(200)
		r.ask(key, "GET", "/api/costs/sla/violations", "").want(200)
	})
	t.Run("audit:read guards the heads of audit chains only", func(t *testing.T) {
		r.ask(key, "GET", "/api/audit/heads", "").want(403)
		r.scopes(r.admin, team, "audit:read").want(200)
		r.ask(key, "GET", "/api/audit/heads", "").want(200)
		for _, path := range []string{"/api/agents", "/api/teams", "/api/keys", "/api/costs/sla/violations", "/api/traces"} {
			r.ask(key, "GET", path, "").want(403)
		}
	})
	t.Run("keys of a deleted team stop working", func(t *testing.T) {
		r.ask(r.admin, "DELETE", "/api/teams/"+team, "").want(200)
		r.ask(key, "GET", "/api/agents", "").want(401)
	})
}

// TestNoKeyMintsBeyondItself: no key can create a key, or extend a team, with
// scopes that it does not hold itself.
func TestNoKeyMintsBeyondItself(t *testing.T) {
	setup := func(t *testing.T) (r *rig, key, team string) {
		r = newRig(t)
		key, team = r.teamKey("key admins", "keys:read", "keys:write", "teams:read", "teams:write", "agents:read")
		return r, key, team
	}
	mint := func(r *rig, key, more string) *reply {
		return r.ask(key, "POST", "/api/keys", `{"name":"x","scope":"api"`+more+`}`)
	}
	t.Run("agent and ingest keys make none", func(t *testing.T) {
		r, _, _ := setup(t)
		for _, scope := range []string{"agent", "ingest"} {
			secret, _ := r.key(r.admin, scope)
			mint(r, secret, "").want(403)
		}
	})
	t.Run("a limited key makes no unlimited one", func(t *testing.T) {
		r, key, _ := setup(t)
		for _, scope := range []string{"api", "agent", "ingest"} {
			r.ask(key, "POST", "/api/keys", fmt.Sprintf(`{"name":"x","scope":%q}`, scope)).want(403)
		}
	})
	t.Run("a limited key makes and deletes none that ingests", func(t *testing.T) {
		r, key, team := setup(t)
		const ingest = `{"name":"x","scope":"ingest","teamId":%q}`
		a := r.ask(key, "POST", "/api/keys", fmt.Sprintf(ingest, team)).want(403)
		if !strings.Contains(string(a.raw), "scope ingest") {
			t.Errorf("%s", a.raw)
		}
		_, id := r.key(r.admin, "ingest", "teamId", team)
		r.ask(key, "DELETE", "/api/keys/"+id, "").want(403)
		r.ask(r.admin, "DELETE", "/api/keys/"+id, "").want(200)
	})
	t.Run("a limited key makes keys for its own team", func(t *testing.T) {
		r, key, team := setup(t)
		mint(r, key, `,"teamId":"`+team+`"`).want(201).data().is(t, "teamId", team)
	})
	t.Run("and for teams that may do no more", func(t *testing.T) {
		r, key, _ := setup(t)
		lesser := r.team(r.admin, "lesser", "agents:read")
		mint(r, key, `,"teamId":"`+lesser+`"`).want(201)
	})
	t.Run("but not for teams that may do more", func(t *testing.T) {
		r, key, _ := setup(t)
		greater := r.team(r.admin, "greater", "agents:read", "costs:write")
		a := mint(r, key, `,"teamId":"`+greater+`"`).want(403)
		if !strings.Contains(string(a.raw), "costs:write") {
			t.Errorf("%s", a.raw)
		}
		mint(r, key, `,"teamId":"team_unknown"`).wantDetail("teamId")
	})
	t.Run("nor for another user", func(t *testing.T) {
		r, key, team := setup(t)
		r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
		mint(r, key, `,"teamId":"`+team+`","userId":"u1"`).want(403)
		mint(r, key, `,"teamId":"`+team+`","userId":"usr_admin"`).want(201) // its own user
	})
	t.Run("it adds to a team only what it holds", func(t *testing.T) {
		r, key, own := setup(t)
		other := r.team(r.admin, "other", "keys:read")
		r.scopes(key, other, "keys:read", "agents:read").want(200)
		r.scopes(key, other, "keys:read", "costs:write").want(403)
		r.scopes(key, other, "agents:read").want(200)
		r.scopes(key, own, "keys:write", "teams:write", "policies:write").want(403)
		r.scopes(key, own, "keys:write", "teams:write").want(200)
		r.ask(r.admin, "GET", "/api/teams/"+other, "").want(200).data().is(t, "scopes", "[agents:read]")
	})
	t.Run("an unlimited key makes keys for other users", func(t *testing.T) {
		r, _, _ := setup(t)
		r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
		mint(r, r.admin, `,"userId":"u1"`).want(201).data().is(t, "createdBy", "u1")
		r.ask(r.admin, "GET", "/api/keys", "").want(200).list()[0].is(t, "createdBy", "u1", "createdByEmail", "u1@example.com")
	})
	t.Run("the user of a new key is the user of the one that makes it", func(t *testing.T) {
		r, _, _ := setup(t)
		r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
		secret, _ := r.key(r.admin, "api", "userId", "u1")
		mint(r, secret, "").want(201).data().is(t, "createdBy", "u1")
	})
}

// TestALimitedKeyChangesOnlyWhatItCouldHaveMade: a limited key cannot change keys
// and teams with more permissions, or keys of other users.
func TestALimitedKeyChangesOnlyWhatItCouldHaveMade(t *testing.T) {
	r := newRig(t)
	limited, own := r.teamKey("limited", "keys:read", "keys:write", "teams:read", "teams:write")
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
	greater := r.team(r.admin, "greater", "agents:read")
	lesser := r.team(r.admin, "lesser", "keys:read")
	keyID := func(more ...string) string {
		t.Helper()
		_, id := r.key(r.admin, "api", more...)
		return id
	}
	unlimited := r.ask(r.admin, "GET", "/api/keys", "").want(200).list()
	for name, id := range map[string]string{
		"the first key":             unlimited[len(unlimited)-1]["id"].(string),
		"an unlimited key":          keyID(),
		"a key of a greater team":   keyID("teamId", greater),
		"a key of another user":     keyID("teamId", lesser, "userId", "u1"),
		"an unlimited ingest key":   func() string { _, id := r.key(r.admin, "ingest"); return id }(),
		"another user's unlimited ": keyID("userId", "u1"),
	} {
		if a := r.ask(limited, "DELETE", "/api/keys/"+id, ""); a.status != 403 {
			t.Errorf("%s was deleted: %d", name, a.status)
		}
	}
	r.ask(limited, "DELETE", "/api/keys/"+keyID("teamId", lesser), "").want(200)
	r.ask(limited, "DELETE", "/api/keys/"+keyID("teamId", own), "").want(200)
	r.ask(limited, "DELETE", "/api/keys/some_id", "").want(404)

	r.ask(r.admin, "POST", "/api/teams/"+greater+"/members", `{"userId":"u1"}`).want(201)
	for _, ask := range [][3]string{
		{"PUT", "", `{"name":"renamed"}`},
		{"PUT", "/scopes", `{"scopes":[]}`},
		{"PUT", "/scopes", `{"scopes":["agents:read"]}`},
		{"POST", "/members", `{"userId":"usr_admin"}`},
		{"DELETE", "/members", `{"userId":"u1"}`},
		{"DELETE", "", ""},
	} {
		a := r.ask(limited, ask[0], "/api/teams/"+greater+ask[1], ask[2]).want(403)
		if !strings.Contains(string(a.raw), "agents:read") {
			t.Errorf("%s %s does not say what is missing: %s", ask[0], ask[1], a.raw)
		}
		r.ask(limited, ask[0], "/api/teams/team_unknown"+ask[1], ask[2]).want(404)
	}
	r.ask(limited, "PUT", "/api/teams/"+lesser, `{"name":"renamed"}`).want(200)
	r.ask(limited, "POST", "/api/teams/"+lesser+"/members", `{"userId":"u1"}`).want(201)
	r.ask(limited, "DELETE", "/api/teams/"+lesser+"/members", `{"userId":"u1"}`).want(200)
	r.ask(limited, "DELETE", "/api/teams/"+lesser, "").want(200)
}

// TestLimitedKeysDoNotIngest: no team scope covers ingesting traces and reporting
// audit heads, and reading the governance bundle, which has the secret for
// redactions, takes policies:read. Keys of scope ingest are not affected.
func TestLimitedKeysDoNotIngest(t *testing.T) {
	r := newRig(t)
	const trace = `{"agentName":"bot","status":"success","durationMs":1,"costUsd":9999}`
	limited, team := r.teamKey("limited", "traces:read")
	a := r.ask(limited, "POST", "/api/traces", trace).want(403)
	if !strings.Contains(string(a.raw), "scope ingest") {
		t.Errorf("the 403 does not say which key may: %s", a.raw)
	}
	r.ask(limited, "POST", "/api/otlp/v1/traces", `{}`).want(403)
	r.ask(limited, "POST", "/api/audit/heads", `{}`).want(403)
	r.ask(limited, "GET", "/api/governance", "").want(403)
	r.ask(r.admin, "GET", "/api/agents", "").want(200).object().is(t, "total", 0)
	r.scopes(r.admin, team, "policies:read").want(200)
	r.ask(limited, "GET", "/api/governance", "").want(200)

	r.scopes(r.admin, team).want(200)
	gateway, _ := r.key(r.admin, "ingest", "teamId", team)
	r.ask(gateway, "POST", "/api/traces", trace).want(201)
	r.ask(gateway, "GET", "/api/governance", "").want(200)
}

// TestTheLastUnlimitedKeyStays: a tenant's last unlimited key cannot be deleted
// by a request.
func TestTheLastUnlimitedKeyStays(t *testing.T) {
	r := newRig(t)
	first := r.ask(r.admin, "GET", "/api/keys", "").want(200).list()[0]["id"].(string)
	r.teamKey("limited", "keys:write") // keys of other kinds do not count
	r.key(r.admin, "ingest")
	refused := func(key string) {
		t.Helper()
		a := r.ask(key, "DELETE", "/api/keys/"+first, "").wantDetail("id")
		if !strings.Contains(string(a.raw), "last working API key") {
			t.Errorf("the answer does not give the reason: %s", a.raw)
		}
	}
	refused(r.admin)
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
	theirs, id := r.key(r.admin, "api", "userId", "u1")
	r.webhook("user.deactivated", epoch.Add(time.Second), "u1", "", "org_one").want(200)
	refused(r.admin) // the other key does not work
	r.webhook("user.reactivated", epoch.Add(2*time.Second), "u1", "", "org_one").want(200)
	r.ask(theirs, "DELETE", "/api/keys/"+first, "").want(200)
	r.ask(theirs, "DELETE", "/api/keys/"+id, "").wantDetail("id")
	if strings.Contains(r.log.String(), "svc tenant key") {
		t.Errorf("a warning was logged although a key works:\n%s", r.log)
	}
	r.webhook("user.deactivated", epoch.Add(3*time.Second), "u1", "", "org_one").want(200)
	if !strings.Contains(r.log.String(), "svc tenant key") {
		t.Errorf("no warning was logged:\n%s", r.log)
	}
}
