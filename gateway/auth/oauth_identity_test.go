package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/policy"
)

// groupIDs are n object ids, the groups of a caller in tokens of Entra ID.
func groupIDs(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%08x-7d1c-4e2b-9a53-%012x", i*2654435761, i)
	}
	return list
}

// Tokens of callers with many groups are accepted up to 32 KiB through the header too, and do not
// let the cache of tokens grow: it holds as many bytes of them as of short ones.
func TestTokensWithManyGroups(t *testing.T) {
	r := newOAuthRig(t)
	tokens := r.tokens(t)
	long := r.token(t, map[string]any{"groups": groupIDs(200)})
	if len(long) < 10<<10 {
		t.Fatalf("the token has %d bytes only", len(long))
	}
	c, err := NewHeader("Authorization", "Bearer").Credentials(http.Header{"Authorization": {"Bearer " + long}})
	if err != nil || c.Token != long {
		t.Fatalf("credentials %.40q: %v", c.Token, err)
	}
	token, err := tokens.Verify(t.Context(), c.Token, "")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(token.Principal("192.0.2.7").Claims.Groups); n != 200 {
		t.Errorf("%d groups", n)
	}
	shard := tokens.verified[r.oauth.digester.sum(long)[0]%tokenShards]
	if shard.cost != 1+len(long)/tokenUnit {
		t.Errorf("a token of %d bytes costs %d", len(long), shard.cost)
	}
	for i := range 3 * tokensPerShard {
		shard.putCost(digest{byte(i), byte(i >> 8)}, token, token.ExpiresAt, 9)
	}
	if shard.cost > tokensPerShard || shard.order.Len() != tokensPerShard/9 || len(shard.byKey) != shard.order.Len() {
		t.Errorf("the cache has %d tokens of a cost of %d", shard.order.Len(), shard.cost)
	}
}

// Claims may be nested; a name that does not start with / is a whole name.
func TestIdentity(t *testing.T) {
	r := newOAuthRig(t)
	keycloak := map[string]any{
		"preferred_username": "ana", "azp": "shop-agent", "scope": "openid profile", "nested": map[string]any{"name": "deep"},
		"realm_access":    map[string]any{"roles": []string{"stock-readers", "offline_access"}},
		"resource_access": map[string]any{"shop/gateway": map[string]any{"roles": []string{"clerk"}}, "account": map[string]any{"roles": []string{"view-profile"}}},
	}
	tests := []struct {
		name     string
		identity Identity
		changes  map[string]any
		want     Principal
		client   string
	}{
		{"sub, groups a list, scope a text", Identity{"sub", "groups"},
			map[string]any{"groups": []string{"a", "b"}, "scope": "read write"},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Groups: []string{"a", "b"}, Scopes: []string{"read", "write"}}}, ""},
		{"groups a single string", Identity{"sub", "groups"}, map[string]any{"groups": "ops team"},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Groups: []string{"ops team"}}}, ""},
		{"scope a list", Identity{"sub", "groups"}, map[string]any{"scope": []string{"read"}},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Scopes: []string{"read"}}}, ""},
		{"scp a list", Identity{"sub", "groups"}, map[string]any{"scp": []string{"read", "write"}},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Scopes: []string{"read", "write"}}}, ""},
		{"scp a text", Identity{"sub", "groups"}, map[string]any{"scp": "read  write"},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Scopes: []string{"read", "write"}}}, ""},
		{"scope before scp", Identity{"sub", "groups"}, map[string]any{"scope": "read", "scp": "admin"},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Scopes: []string{"read"}}}, ""},
		{"groups and scope of a wrong type", Identity{"sub", "groups"}, map[string]any{"groups": []any{"a", 1}, "scope": 7},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Unreadable: policy.UnreadableGroups | policy.UnreadableScopes}}, ""},
		{"scope null: scp", Identity{"sub", "groups"}, map[string]any{"scope": json.RawMessage("null"), "scp": "admin"},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Scopes: []string{"admin"}}}, ""},
		{"a subject that is no text", Identity{"uid", "groups"}, map[string]any{"uid": "u7", "sub": 7},
			Principal{Kind: KindOAuth, Value: "u7", Claims: &policy.Claims{Unreadable: policy.UnreadableSubject}}, ""},
		{"some groups, and others elsewhere", Identity{"sub", "/teams/all"}, map[string]any{"teams": map[string]any{"all": []string{"a"}}, "_claim_names": map[string]any{"teams": "s"}},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Groups: []string{"a"}, Unreadable: policy.UnreadableGroups}}, ""},
		{"claims of the configuration", Identity{"email", "roles"}, map[string]any{"email": "a@b.c", "roles": []string{"r"}, "groups": "g"},
			Principal{Kind: KindOAuth, Value: "a@b.c", Claims: &policy.Claims{Subject: "alice", Groups: []string{"r"}}}, ""},
		{"principal claim absent: client_id", Identity{"email", "groups"}, map[string]any{"client_id": "app", "azp": "other"},
			Principal{Kind: KindOAuth, Value: "app", Claims: &policy.Claims{Subject: "alice"}}, "app"},
		{"principal claim of a wrong type: client_id", Identity{"email", "groups"}, map[string]any{"email": []string{"x"}, "client_id": "app"},
			Principal{Kind: KindOAuth, Value: "app", Claims: &policy.Claims{Subject: "alice"}}, "app"},
		{"neither: the client address", Identity{"email", "groups"}, map[string]any{"azp": "app"},
			Principal{Kind: KindIP, Value: "192.0.2.7", Claims: &policy.Claims{Subject: "alice"}}, "app"},
		{"Keycloak: roles of the realm", Identity{"preferred_username", "/realm_access/roles"}, keycloak,
			Principal{Kind: KindOAuth, Value: "ana", Claims: &policy.Claims{Subject: "alice", Groups: []string{"stock-readers", "offline_access"}, Scopes: []string{"openid", "profile"}}}, "shop-agent"},
		{"Keycloak: roles of a client", Identity{"/nested/name", "/resource_access/shop~1gateway/roles"}, keycloak,
			Principal{Kind: KindOAuth, Value: "deep", Claims: &policy.Claims{Subject: "alice", Groups: []string{"clerk"}, Scopes: []string{"openid", "profile"}}}, "shop-agent"},
		{"Auth0: a claim whose name is a URL", Identity{"sub", "https://shop.example/roles"}, map[string]any{"https://shop.example/roles": []string{"clerk"}},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Groups: []string{"clerk"}}}, ""},
		{"a pointer through a text", Identity{"sub", "/sub/roles"}, nil,
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice", Unreadable: policy.UnreadableGroups}}, ""},
		{"a pointer through null", Identity{"sub", "/realm/roles"}, map[string]any{"realm": json.RawMessage("null")},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice"}}, ""},
		{"an integer", Identity{"uid", "groups"}, map[string]any{"uid": 12345},
			Principal{Kind: KindOAuth, Value: "12345", Claims: &policy.Claims{Subject: "alice"}}, ""},
		{"azp as fallback of the client", Identity{"sub", "groups"}, map[string]any{"azp": "https://app.example/client"},
			Principal{Kind: KindOAuth, Value: "alice", Claims: &policy.Claims{Subject: "alice"}}, "https://app.example/client"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tokens, err := r.oauth.Tokens(r.cfg, tt.identity)
			if err != nil {
				t.Fatal(err)
			}
			token, err := tokens.Verify(t.Context(), r.token(t, tt.changes), "")
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Kind == KindOAuth {
				tt.want.Issuer = r.issuer.URL
			}
			if diff := cmp.Diff(tt.want, token.Principal("192.0.2.7")); diff != "" {
				t.Error(diff)
			}
			if token.ClientID != tt.client {
				t.Errorf("client %q, want %q", token.ClientID, tt.client)
			}
		})
	}
}

// A verified token that gives its caller no groups is counted by the reason and logged at level
// debug, once and not for each request: with conditions on groups its caller is denied.
func TestTokensWithoutReadableGroups(t *testing.T) {
	for _, tt := range []struct {
		name, claim string
		changes     map[string]any
		want        NoGroups
		reason      string
	}{
		{"a list", "groups", map[string]any{"groups": []string{"a"}}, NoGroups{}, ""},
		{"an empty list", "groups", map[string]any{"groups": []string{}}, NoGroups{}, ""},
		{"no claim", "groups", nil, NoGroups{Absent: 1}, "no such claim"},
		{"null", "groups", map[string]any{"groups": json.RawMessage("null")}, NoGroups{Absent: 1}, "no such claim"},
		{"an object: roles of Keycloak", "realm_access", map[string]any{"realm_access": map[string]any{"roles": []string{"a"}}}, NoGroups{Form: 1}, "neither a text"},
		{"a list of objects", "groups", map[string]any{"groups": []any{map[string]any{"id": "a"}}}, NoGroups{Form: 1}, "neither a text"},
		{"Entra ID: groups that are elsewhere", "groups", map[string]any{"_claim_names": map[string]any{"groups": "src1"},
			"_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/users/1/getMemberObjects"}}}, NoGroups{Elsewhere: 1}, "app roles"},
		{"Entra ID: the mark of an implicit grant", "groups", map[string]any{"hasgroups": true}, NoGroups{Elsewhere: 1}, "app roles"},
		{"Entra ID: the mark, and a pointer to the claim", "/groups", map[string]any{"hasgroups": true}, NoGroups{Elsewhere: 1}, "app roles"},
		{"Entra ID: the mark, and a pointer into the claim", "/groups/all", map[string]any{"hasgroups": true}, NoGroups{Elsewhere: 1}, "app roles"},
		{"references that cannot be read", "groups", map[string]any{"_claim_names": "groups"}, NoGroups{Elsewhere: 1}, "app roles"},
		{"Entra ID: other claims are not elsewhere", "roles", map[string]any{"hasgroups": true, "_claim_names": map[string]any{"groups": "src1"}}, NoGroups{Absent: 1}, "no such claim"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newOAuthRig(t)
			r.oauth.log = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
			tokens, err := r.oauth.Tokens(r.cfg, Identity{"sub", tt.claim})
			if err != nil {
				t.Fatal(err)
			}
			presented := r.token(t, tt.changes)
			for range 3 {
				if _, err := tokens.Verify(t.Context(), presented, ""); err != nil {
					t.Fatal(err)
				}
			}
			if got := tokens.Stats().NoGroups; got != tt.want {
				t.Errorf("counted %+v, want %+v", got, tt.want)
			}
			logged := strings.Count(r.logs.String(), "a verified token gives its caller no groups")
			if tt.reason == "" && logged > 0 || tt.reason != "" && (logged != 1 || !strings.Contains(r.logs.String(), tt.reason)) {
				t.Errorf("logged %d times: %s", logged, r.logs)
			}
			unreadable := tt.want.Form+tt.want.Elsewhere > 0
			if warned := strings.Contains(r.logs.String(), "level=WARN"); warned != unreadable {
				t.Errorf("a warning: %v, in %s", warned, r.logs)
			}
			if token, err := tokens.Verify(t.Context(), presented, ""); err != nil || token.principal.Claims.Unreadable&policy.UnreadableGroups != 0 != unreadable {
				t.Errorf("%+v, %v", token.principal.Claims, err)
			}
		})
	}
}

func TestRequiredScopes(t *testing.T) {
	r := newOAuthRig(t)
	r.cfg.RequiredScopes = []string{"read", "write"}
	tokens := r.tokens(t)
	tests := []struct {
		name    string
		changes map[string]any
		want    error
	}{
		{"both", map[string]any{"scope": "write other read"}, nil},
		{"one", map[string]any{"scope": "read"}, ErrScope},
		{"a substring is no scope", map[string]any{"scope": "readonly write"}, ErrScope},
		{"none", nil, ErrScope},
		{"scp", map[string]any{"scp": []string{"read", "write"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := r.token(t, tt.changes)
			for range 2 { // verified, then cached
				token, err := tokens.Verify(t.Context(), text, "")
				if !errors.Is(err, tt.want) || err == nil && tt.want != nil {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if token == nil {
					t.Error("the caller is not known")
				}
			}
		})
	}
}
