package server

import "svc/store"

// route is one endpoint: what it is called, who may call it, which window it
// counts in, and its handler.
type route struct {
	method, path string
	keys         []store.KeyScope // the key scopes that may call it
	team         []string         // a team-limited key needs one of these; none: team limits do not concern it
	window       windowKind
	once         bool // takes an Idempotency-Key
	open         bool // needs no API key; the handler sees to everything itself
	handle       func(*Server, *call) error
}

// windowKind says which rate window a route counts in.
type windowKind int

const (
	apiWindow     windowKind = iota // requests of the tenant
	ingestWindow                    // ingest requests of the tenant
	addressWindow                   // requests of the client's address
)

// Who may call a route (control-plane specification, API keys, 3; design: which
// key may do what).
var (
	admins  = []store.KeyScope{store.ScopeAPI}
	readers = []store.KeyScope{store.ScopeAPI, store.ScopeAgent}
	ingests = []store.KeyScope{store.ScopeAPI, store.ScopeIngest}
)

// routes is every endpoint of the API.
func routes() []route {
	return []route{
		{method: "GET", path: "/api/teams", keys: admins, team: []string{"teams:read"}, handle: (*Server).listTeams},
		{method: "POST", path: "/api/teams", keys: admins, team: []string{"teams:write"}, once: true, handle: (*Server).createTeam},
		{method: "GET", path: "/api/teams/{id}", keys: admins, team: []string{"teams:read"}, handle: (*Server).getTeam},
		{method: "PUT", path: "/api/teams/{id}", keys: admins, team: []string{"teams:write"}, handle: (*Server).updateTeam},
		{method: "DELETE", path: "/api/teams/{id}", keys: admins, team: []string{"teams:write"}, handle: (*Server).deleteTeam},
		{method: "PUT", path: "/api/teams/{id}/scopes", keys: admins, team: []string{"teams:write"}, handle: (*Server).replaceTeamScopes},
		{method: "GET", path: "/api/teams/{id}/members", keys: admins, team: []string{"teams:read"}, handle: (*Server).listMembers},
		{method: "POST", path: "/api/teams/{id}/members", keys: admins, team: []string{"teams:write"}, once: true, handle: (*Server).addMember},
		{method: "DELETE", path: "/api/teams/{id}/members", keys: admins, team: []string{"teams:write"}, handle: (*Server).removeMember},
	}
}
