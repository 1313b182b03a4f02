package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"svc/store/api"
)

var teamFields = []string{"id", "name", "description", "memberCount", "scopes", "createdAt"}

// TestTeamRows has a test per row of the specification's table "Teams" and of
// the endpoints that the design adds for them.
func TestTeamRows(t *testing.T) {
	t.Run("POST /api/teams", func(t *testing.T) {
		r := newRig(t)
		team := r.ask(r.admin, "POST", "/api/teams", `{"name":"Platform","description":"runs it"}`).want(201).data()
		team.has(t, teamFields...).is(t, "name", "Platform", "description", "runs it", "memberCount", 0, "scopes", "[]")
		if at := team.moment(t, "createdAt"); !at.Equal(epoch) {
			t.Errorf("createdAt %s, want %s", at, epoch)
		}
	})
	t.Run("POST /api/teams requires name alone", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "POST", "/api/teams", `{}`).wantDetail("name")
		r.ask(r.admin, "POST", "/api/teams", `{"name":"  "}`).wantDetail("name")
		r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`).want(201).data().is(t, "description", "")
	})
	t.Run("POST /api/teams duplicate name", func(t *testing.T) {
		r := newRig(t)
		r.team(r.admin, "x")
		a := r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`).want(400)
		if got := a.detail("name"); got != "already exists" {
			t.Errorf("details.name is %q", got)
		}
		r.ask(r.other, "POST", "/api/teams", `{"name":"x"}`).want(201) // another tenant's name is free
	})
	t.Run("GET /api/teams", func(t *testing.T) {
		r := newRig(t)
		for i := range 3 {
			r.team(r.admin, fmt.Sprint("team", i))
		}
		a := r.ask(r.admin, "GET", "/api/teams", "").want(200)
		a.object().has(t, "data", "total", "limit", "offset").is(t, "total", 3, "limit", 50, "offset", 0)
		for i, team := range a.list() { // newest first
			team.has(t, teamFields...).is(t, "name", fmt.Sprint("team", 2-i))
		}
	})
	t.Run("GET /api/teams/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.team(r.admin, "x", "agents:read")
		r.ask(r.admin, "GET", "/api/teams/"+id, "").want(200).data().has(t, teamFields...).is(t, "id", id, "scopes", "[agents:read]")
		r.ask(r.admin, "GET", "/api/teams/team_unknown", "").want(404)
	})
	t.Run("PUT /api/teams/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.team(r.admin, "x", "agents:read")
		r.team(r.admin, "taken")
		r.ask(r.admin, "PUT", "/api/teams/"+id, `{"description":"d"}`).want(200).data().
			has(t, teamFields...).is(t, "name", "x", "description", "d", "scopes", "[agents:read]")
		r.ask(r.admin, "PUT", "/api/teams/"+id, `{"name":"taken"}`).wantDetail("name")
		r.ask(r.admin, "PUT", "/api/teams/"+id, `{"scopes":[]}`).wantDetail("scopes") // scopes have an endpoint of their own
		r.ask(r.admin, "PUT", "/api/teams/team_unknown", `{"name":"y"}`).want(404)
	})
	t.Run("DELETE /api/teams/:id", func(t *testing.T) {
		r := newRig(t)
		id := r.team(r.admin, "x")
		r.ask(r.admin, "DELETE", "/api/teams/"+id, "").want(200).object().has(t, "success").is(t, "success", true)
		r.ask(r.admin, "DELETE", "/api/teams/"+id, "").want(404)
		r.ask(r.admin, "GET", "/api/teams/"+id, "").want(404)
	})
	t.Run("PUT /api/teams/:id/scopes", func(t *testing.T) {
		r := newRig(t)
		id := r.team(r.admin, "x", "agents:read", "costs:read")
		team := r.scopes(r.admin, id, "traces:read").want(200).data() // wrapped: {data: Team}
		team.has(t, teamFields...).is(t, "id", id, "scopes", "[traces:read]")
		r.scopes(r.admin, id).want(200).data().is(t, "scopes", "[]")
		r.scopes(r.admin, "team_unknown").want(404)
	})
}

// TestTeamScopeValues: exactly the 13 values of the specification, each once.
func TestTeamScopeValues(t *testing.T) {
	r := newRig(t)
	id := r.team(r.admin, "x")
	all := strings.Fields(`agents:read agents:write policies:read policies:write traces:read costs:read costs:write
		teams:read teams:write keys:read keys:write compliance:read audit:read`)
	if len(all) != 13 {
		t.Fatal("the specification has 13")
	}
	r.scopes(r.admin, id, all...).want(200)
	for _, s := range all {
		r.scopes(r.admin, id, s).want(200).data().is(t, "scopes", "["+s+"]")
	}
	for _, bad := range []string{"traces:write", "audit:write", "compliance:write", "agents", "*", "", "Agents:read", "agents:read "} {
		a := r.scopes(r.admin, id, bad).want(400)
		if a.detail("scopes[0]") == "" {
			t.Errorf("%q: %s", bad, a.raw)
		}
	}
	r.scopes(r.admin, id, "agents:read", "agents:read").wantDetail("scopes[1]")
	for _, body := range []string{`{}`, `{"scopes":null}`, `{"scopes":"agents:read"}`, `{"scopes":{}}`} {
		r.ask(r.admin, "PUT", "/api/teams/"+id+"/scopes", body).wantDetail("scopes")
	}
	r.ask(r.admin, "GET", "/api/teams/"+id, "").want(200).data().is(t, "scopes", "[audit:read]") // rejected requests changed nothing
	if len(api.TeamScopes) != 13 {
		t.Errorf("%d scopes on the wire", len(api.TeamScopes))
	}
}

// TestMemberRows has a test per row of the table about members, and one per
// transition of team membership.
func TestMemberRows(t *testing.T) {
	memberFields := []string{"userId", "email", "role", "joinedAt"}
	members := func(team string) string { return "/api/teams/" + team + "/members" }
	count := func(r *rig, team string, want int) {
		t.Helper()
		r.ask(r.admin, "GET", "/api/teams/"+team, "").want(200).data().is(t, "memberCount", want)
	}
	t.Run("POST /api/teams/:id/members by userId", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		m := r.ask(r.admin, "POST", members(team), `{"userId":"usr_admin","role":"admin"}`).want(201).object() // without data
		m.has(t, memberFields...).is(t, "userId", "usr_admin", "role", "admin")
		m.moment(t, "joinedAt")
		count(r, team, 1)
	})
	t.Run("POST /api/teams/:id/members by email, not known: invited", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		m := r.ask(r.admin, "POST", members(team), `{"email":"new@example.com"}`).want(201).object()
		m.has(t, memberFields...).is(t, "email", "new@example.com", "role", "member") // the default role
		if m["userId"] == "" {
			t.Error("an invited user has no id")
		}
		count(r, team, 1)
	})
	t.Run("POST /api/teams/:id/members by unknown userId: invited", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		r.ask(r.admin, "POST", members(team), `{"userId":"auth0|abc"}`).want(201).object().is(t, "userId", "auth0|abc")
	})
	t.Run("roles", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		for i, role := range []string{"owner", "admin", "member", "viewer"} {
			r.ask(r.admin, "POST", members(team), fmt.Sprintf(`{"email":"u%d@example.com","role":%q}`, i, role)).
				want(201).object().is(t, "role", role)
		}
		for _, role := range []string{"boss", "Owner"} {
			r.ask(r.admin, "POST", members(team), fmt.Sprintf(`{"email":"z@example.com","role":%q}`, role)).wantDetail("role")
		}
	})
	t.Run("neither userId nor email", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		r.ask(r.admin, "POST", members(team), `{"role":"member"}`).wantDetail("userId")
		r.ask(r.admin, "POST", members(team), `{"email":"nobody"}`).wantDetail("email")
		r.ask(r.admin, "POST", members(team), `{"userId":5}`).wantDetail("userId")
	})
	t.Run("already a member", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		r.ask(r.admin, "POST", members(team), `{"email":"a@example.com"}`).want(201)
		r.ask(r.admin, "POST", members(team), `{"email":"a@example.com"}`).want(400)
		r.ask(r.admin, "POST", members(team), `{"email":"A@Example.com"}`).want(400)
		count(r, team, 1)
	})
	t.Run("GET /api/teams/:id/members has data and total only", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		empty := r.ask(r.admin, "GET", members(team), "").want(200)
		empty.object().has(t, "data", "total").is(t, "total", 0, "data", "[]")
		for i := range 60 { // more than a page, because this list has no pages
			r.ask(r.admin, "POST", members(team), fmt.Sprintf(`{"email":"u%d@example.com"}`, i)).want(201)
		}
		a := r.ask(r.admin, "GET", members(team)+"?limit=5", "").want(200)
		a.object().has(t, "data", "total").is(t, "total", 60)
		list := a.list()
		if len(list) != 60 {
			t.Fatalf("%d members", len(list))
		}
		list[0].has(t, memberFields...).is(t, "email", "u59@example.com")
	})
	t.Run("DELETE /api/teams/:id/members", func(t *testing.T) {
		r := newRig(t)
		team := r.team(r.admin, "x")
		r.ask(r.admin, "POST", members(team), `{"userId":"usr_admin"}`).want(201)
		r.ask(r.admin, "DELETE", members(team), `{"userId":"usr_admin"}`).want(200).object().has(t, "success").is(t, "success", true)
		count(r, team, 0)
		r.ask(r.admin, "DELETE", members(team), `{"userId":"usr_admin"}`).want(404) // a second time
		r.ask(r.admin, "DELETE", members(team), `{}`).wantDetail("userId")
		r.ask(r.admin, "DELETE", members(team), "").want(400)
	})
	t.Run("unknown team", func(t *testing.T) {
		r := newRig(t)
		r.ask(r.admin, "GET", members("team_unknown"), "").want(404)
		r.ask(r.admin, "POST", members("team_unknown"), `{"userId":"usr_admin"}`).want(404)
		r.ask(r.admin, "DELETE", members("team_unknown"), `{"userId":"usr_admin"}`).want(404)
	})
}

// TestConcurrentCreatesWithOneName: one is created, the others get the error
// that the name is taken; for every resource with unique names.
func TestConcurrentCreatesWithOneName(t *testing.T) {
	r := newRig(t)
	agent := r.agent(r.admin, "billing")
	for path, body := range map[string]string{
		"/api/teams":         `{"name":"one"}`,
		"/api/agents":        `{"name":"one"}`,
		"/api/costs/budgets": fmt.Sprintf(`{"name":"one","agentId":%q,"period":"daily","limitUsd":1}`, agent),
		"/api/policies":      `{"name":"one","phase":"request","action":"warn","condition":{"type":"always"}}`,
	} {
		t.Run(path, func(t *testing.T) {
			const n = 16
			replies := make(chan *reply, n)
			for range n {
				go func() { replies <- r.ask(r.admin, "POST", path, body) }()
			}
			created := 0
			for range n {
				switch a := <-replies; a.status {
				case 201:
					created++
				case 400:
					var e api.Error
					if err := json.Unmarshal(a.raw, &e); err != nil || e.Details["name"] != "already exists" {
						t.Errorf("%s", a.raw)
					}
				default:
					t.Errorf("%d: %s", a.status, a.raw)
				}
			}
			if created != 1 {
				t.Errorf("%d created", created)
			}
		})
	}
}
