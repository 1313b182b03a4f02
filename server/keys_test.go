package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/bolt"
)

var keyItemFields = []string{"id", "name", "scope", "prefix", "createdBy", "createdByEmail", "lastUsedAt", "createdAt"}

// TestKeyRows has a test per row of the specification's table "API keys".
func TestKeyRows(t *testing.T) {
	prefixes := map[string]string{"api": "svc_api_", "agent": "svc_agent_", "ingest": "svc_ingest_"}
	t.Run("POST /api/keys", func(t *testing.T) {
		r := newRig(t)
		for scope, prefix := range prefixes {
			k := r.ask(r.admin, "POST", "/api/keys", fmt.Sprintf(`{"name":"ci","scope":%q}`, scope)).want(201).data()
			k.has(t, "id", "name", "scope", "key", "prefix", "createdBy", "createdAt").is(t, "name", "ci", "scope", scope, "createdBy", "usr_admin")
			k.moment(t, "createdAt")
			secret := k["key"].(string)
			if !regexp.MustCompile(`^` + prefix + `[A-Za-z0-9_-]{43}$`).MatchString(secret) {
				t.Errorf("key %q is not the prefix and 256 random bits", secret)
			}
			// the scope prefix plus four more characters
			if got := k["prefix"]; got != secret[:len(prefix)+4] {
				t.Errorf("prefix %q of %q", got, secret)
			}
			if status := r.ask(secret, "GET", "/api/unknown", "").status; status != 404 {
				t.Errorf("the new %s key gets %d", scope, status)
			}
		}
	})
	t.Run("POST /api/keys: name and scope are required", func(t *testing.T) {
		r := newRig(t)
		a := r.ask(r.admin, "POST", "/api/keys", `{}`)
		a.wantDetail("name")
		a.wantDetail("scope")
		for _, scope := range []string{"admin", "API", "*"} {
			r.ask(r.admin, "POST", "/api/keys", fmt.Sprintf(`{"name":"x","scope":%q}`, scope)).wantDetail("scope")
		}
		r.ask(r.admin, "POST", "/api/keys", `{"name":"x","scope":"api","teamId":"team_unknown"}`).wantDetail("teamId")
		r.ask(r.admin, "POST", "/api/keys", `{"name":"x","scope":"api","userId":"usr_unknown"}`).wantDetail("userId")
		r.ask(r.admin, "POST", "/api/keys", `{"name":"x","scope":"api","key":"svc_api_mine"}`).wantDetail("key")
	})
	t.Run("GET /api/keys never has the secret", func(t *testing.T) {
		r := newRig(t)
		secret, id := r.key(r.admin, "agent")
		a := r.ask(r.admin, "GET", "/api/keys", "").want(200)
		a.object().has(t, "data", "total", "limit", "offset").is(t, "total", 2, "limit", 50, "offset", 0)
		list := a.list()
		list[0].has(t, keyItemFields...).is(t, "id", id, "scope", "agent", "createdBy", "usr_admin", "lastUsedAt", nil)
		list[1].has(t, keyItemFields...).is(t, "name", "first")
		random := strings.TrimPrefix(secret, "svc_agent_")
		if bytes.Contains(a.raw, []byte(secret)) || bytes.Contains(a.raw, []byte(random[5:])) {
			t.Errorf("the list holds the secret: %s", a.raw)
		}
	})
	t.Run("GET /api/keys scope filter", func(t *testing.T) {
		r := newRig(t)
		for scope := range prefixes {
			r.key(r.admin, scope)
		}
		for scope, want := range map[string]int{"api": 2, "agent": 1, "ingest": 1} {
			a := r.ask(r.admin, "GET", "/api/keys?scope="+scope, "").want(200)
			a.object().is(t, "total", want)
			for _, k := range a.list() {
				k.is(t, "scope", scope)
			}
		}
		r.ask(r.admin, "GET", "/api/keys?scope=admin", "").wantDetail("scope")
	})
	t.Run("DELETE /api/keys/:id", func(t *testing.T) {
		r := newRig(t)
		secret, id := r.key(r.admin, "api")
		r.ask(secret, "GET", "/api/teams", "").want(200)
		r.ask(r.admin, "DELETE", "/api/keys/"+id, "").want(200).object().has(t, "success").is(t, "success", true)
		r.ask(secret, "GET", "/api/teams", "").want(401) // the very next request
		r.ask(r.admin, "DELETE", "/api/keys/"+id, "").want(404)
	})
}

// TestKeyLastUsed: lastUsedAt is in the items of lists, is null for an unused
// key, and is updated without a write per request.
func TestKeyLastUsed(t *testing.T) {
	r := newRig(t)
	secret, id := r.key(r.admin, "agent")
	find := func() object {
		for _, k := range r.ask(r.admin, "GET", "/api/keys?scope=agent", "").want(200).list() {
			if k["id"] == id {
				return k
			}
		}
		t.Fatal("the key is not listed")
		return nil
	}
	find().is(t, "lastUsedAt", nil)
	r.clock.advance(time.Minute)
	r.ask(secret, "GET", "/api/agents", "").want(200)
	if at := find().moment(t, "lastUsedAt"); !at.Equal(epoch.Add(time.Minute)) {
		t.Errorf("lastUsedAt %s", at)
	}
	r.clock.advance(time.Minute)
	r.ask(secret, "GET", "/api/teams", "").want(403) // a use, too
	if at := find().moment(t, "lastUsedAt"); !at.Equal(epoch.Add(2 * time.Minute)) {
		t.Errorf("lastUsedAt %s", at)
	}
}

// TestKeyRotation: both keys are valid at the same time; the old one is deleted
// after lastUsedAt shows that the new one is used.
func TestKeyRotation(t *testing.T) {
	r := newRig(t)
	old, oldID := r.key(r.admin, "agent")
	fresh, _ := r.key(r.admin, "agent")
	r.ask(old, "GET", "/api/agents", "").want(200)
	r.ask(fresh, "GET", "/api/agents", "").want(200)
	r.ask(r.admin, "DELETE", "/api/keys/"+oldID, "").want(200)
	r.ask(old, "GET", "/api/agents", "").want(401)
	r.ask(fresh, "GET", "/api/agents", "").want(200)
}

// TestAuthorizationHeader: Authorization: Bearer <API_KEY>; a missing or invalid
// key is 401, and the response never has the reason.
func TestAuthorizationHeader(t *testing.T) {
	r := newRig(t)
	key := r.admin
	for _, tc := range []struct {
		name   string
		values []string
		status int
	}{
		{"good", []string{"Bearer " + key}, 200},
		{"scheme in lower case", []string{"bearer " + key}, 200},
		{"two spaces", []string{"Bearer  " + key}, 200},
		{"none", nil, 401},
		{"empty", []string{""}, 401},
		{"scheme alone", []string{"Bearer"}, 401},
		{"scheme and space", []string{"Bearer "}, 401},
		{"key alone", []string{key}, 401},
		{"other scheme", []string{"Basic " + key}, 401},
		{"two headers", []string{"Bearer " + key, "Bearer " + key}, 401},
		{"two keys in one", []string{"Bearer " + key + " " + key}, 401},
		{"unknown key", []string{"Bearer " + NewSecret(store.ScopeAPI)}, 401},
		{"prefix of another scope", []string{"Bearer svc_agent_" + strings.TrimPrefix(key, "svc_api_")}, 401},
		{"no prefix", []string{"Bearer " + strings.TrimPrefix(key, "svc_api_")}, 401},
		{"cut", []string{"Bearer " + key[:len(key)-1]}, 401},
		{"one character more", []string{"Bearer " + key + "a"}, 401},
		{"other case", []string{"Bearer svc_api_" + strings.ToUpper(strings.TrimPrefix(key, "svc_api_"))}, 401},
		{"short", []string{"Bearer svc_api_x"}, 401},
		{"long", []string{"Bearer svc_api_" + strings.Repeat("x", 1<<20)}, 401},
		{"a gateway key", []string{"Bearer svc_gw_ci_" + strings.Repeat("x", 43)}, 401},
		{"NUL", []string{"Bearer " + key + "\x00"}, 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var header []string
			for _, v := range tc.values {
				header = append(header, "Authorization", v)
			}
			a := r.ask("", "GET", "/api/teams", "", header...).want(tc.status)
			if tc.status != 401 {
				return
			}
			if got := string(a.raw); got != `{"error":"missing or invalid API key"}` {
				t.Errorf("body %s", got)
			}
			if got := a.header.Get("WWW-Authenticate"); got != "Bearer" {
				t.Errorf("WWW-Authenticate %q", got)
			}
		})
	}
	if strings.Contains(r.log.String(), key) {
		t.Error("the key is in the log")
	}
}

func TestSecretForm(t *testing.T) {
	random := strings.Repeat("a", 43)
	for _, tc := range []struct {
		name, secret string
		scope        store.KeyScope
		prefix       string
	}{
		{"api", "svc_api_" + random, "api", "svc_api_aaaa"},
		{"agent", "svc_agent_" + random, "agent", "svc_agent_aaaa"},
		{"ingest", "svc_ingest_" + random, "ingest", "svc_ingest_aaaa"},
		{"shortest", "svc_api_" + strings.Repeat("-", 32), "api", "svc_api_----"},
		{"too short", "svc_api_" + strings.Repeat("a", 31), "", ""},
		{"too long", "svc_api_" + strings.Repeat("a", 129), "", ""},
		{"other characters", "svc_api_" + random + "+", "", ""},
		{"unknown scope", "svc_root_" + random, "", ""},
		{"empty", "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scope, err := SecretScope(tc.secret)
			if scope != tc.scope || (err == nil) != (tc.scope != "") {
				t.Errorf("got %q, %v", scope, err)
			}
			if got := SecretPrefix(tc.secret); got != tc.prefix {
				t.Errorf("prefix %q, want %q", got, tc.prefix)
			}
			if err != nil && strings.Contains(err.Error(), random) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
	seen := map[string]bool{}
	for range 1000 {
		s := NewSecret(store.ScopeAPI)
		if scope, err := SecretScope(s); scope != store.ScopeAPI || err != nil || seen[s] {
			t.Fatalf("%q: %v, %v", s, scope, err)
		}
		seen[s] = true
	}
}

// TestTeamsAreChangedOneAtATime: a limited key cannot change a team on the basis
// of scopes that have changed meanwhile.
func TestTeamsAreChangedOneAtATime(t *testing.T) {
	r := newRig(t)
	limited, _ := r.teamKey("limited", "teams:write", "agents:read")
	target := r.team(r.admin, "target")
	r.srv.records = hesitantStore{r.store}
	for range 20 {
		r.scopes(r.admin, target, "agents:read").want(200)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { r.scopes(limited, target, "agents:read") })
		}
		wg.Go(func() { r.scopes(r.admin, target, "keys:write") })
		wg.Wait()
		r.ask(r.admin, "GET", "/api/teams/"+target, "").want(200).data().is(t, "scopes", "[keys:write]")
	}
}

// hesitantStore pauses between reading a team and changing it.
type hesitantStore struct{ store.Records }

type hesitantTenant struct{ store.Tenant }

func (s hesitantStore) Tenant(id string) store.Tenant { return hesitantTenant{s.Records.Tenant(id)} }

func (t hesitantTenant) UpdateTeam(ctx context.Context, id string, up store.TeamUpdate) (store.Team, error) {
	time.Sleep(rand.N(time.Millisecond))
	return t.Tenant.UpdateTeam(ctx, id, up)
}

// TestKeysAreStoredAsDigests: the store file never contains a secret.
func TestKeysAreStoredAsDigests(t *testing.T) {
	r := newRig(t)
	file, ok := r.store.(*bolt.Store)
	if !ok {
		return // the test of store/postgres reads its tables instead
	}
	secret, _ := r.key(r.admin, "api")
	r.ask(r.admin, "POST", "/api/keys", `{"name":"again","scope":"api"}`, "Idempotency-Key", "k1").want(201)
	var dump bytes.Buffer
	if _, err := file.Backup(context.Background(), &dump); err != nil {
		t.Fatal(err)
	}
	var created struct{ Data struct{ Key string } }
	if err := json.Unmarshal(r.ask(r.admin, "POST", "/api/keys", `{"name":"third","scope":"api"}`, "Idempotency-Key", "k2").raw, &created); err != nil || created.Data.Key == "" {
		t.Fatal(err)
	}
	dump.Reset()
	if _, err := file.Backup(context.Background(), &dump); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{secret, r.admin, created.Data.Key} {
		if bytes.Contains(dump.Bytes(), []byte(s[len("svc_api_")+5:])) {
			t.Error("a secret is in the store")
		}
	}
}
