package e2e

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/auth"
	"svc/gateway/auth/authtest"
)

// oauthRig is a gateway that accepts an API key and the tokens of an issuer.
type oauthRig struct {
	*rig
	issuer *authtest.Issuer
	key    *authtest.Key
	apiKey string
	base   string // public_url
}

// newOAuthRig starts an oauthRig in front of an upstream. settings are further lines of
// auth.oauth, header is a line of auth, and rules are those of the policy with default deny.
func newOAuthRig(t *testing.T, upstream, settings, header, rules string, roots *x509.CertPool) *oauthRig {
	t.Helper()
	o := &oauthRig{key: authtest.NewKey(t, "k1", "ES256")}
	o.issuer = authtest.NewIssuer(t, o.key)
	var err error
	if o.apiKey, err = auth.NewKey("ci"); err != nil {
		t.Fatal(err)
	}
	hash, err := auth.Hash(o.apiKey, cheap)
	if err != nil {
		t.Fatal(err)
	}
	o.rig = newRig(t, fmt.Sprintf(`
auth:
  enabled: true
  keys:
    - id: ci
      hash: %s
  oauth:
    enabled: true
    issuer: %s
    audience: https://gw.example/mcp
    jwks_url: %s
    public_url: http://127.0.0.1:1
%s
%s
default_upstream: main
upstreams:
  - name: main
    url: %s
routes:
  - match: {tool_name: "*"}
    upstream: main
policy:
  default_action: deny
  rules:
%s
`, hash, o.issuer.URL, o.issuer.JWKSURL(), settings, header, upstream, rules))
	o.stop()
	// Started again, with the address of the first start in the configuration.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.base = "http://" + ln.Addr().String()
	o.edit("http://127.0.0.1:1\n", o.base+"\n")
	cfg, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	o.gateway, err = gateway.New(gateway.Options{
		Config: cfg, Load: o.load, Version: "test", Roots: roots,
		Logger: slog.New(slog.NewTextHandler(o.logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	o.serve(ln)
	return o
}

// token signs valid claims with changes; nil removes a claim.
func (o *oauthRig) token(changes map[string]any) string {
	claims := map[string]any{"iss": o.issuer.URL, "aud": "https://gw.example/mcp", "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range changes {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return o.key.Token(o.t, claims, nil)
}

const allowAll = "    - {id: all, action: allow, when: {}}"

func TestOAuthCallers(t *testing.T) {
	up := newUpstream(t, echo)
	one := newOAuthRig(t, up.URL, "    required_scopes: [mcp]", "", allowAll, nil)
	two := newOAuthRig(t, up.URL, "", "  header: X-Api-Key\n  scheme: \"\"", allowAll, nil)
	tests := []struct {
		name      string
		rig       *oauthRig
		headers   []string
		status    int
		challenge string // path elements in resource_metadata
		message   string
		principal string
		kind      string
		keyID     any
	}{
		{"one header: a token", one, []string{"Authorization", "Bearer " + one.token(map[string]any{"scope": "mcp"})}, 200, "", "", "alice", "oauth", nil},
		{"one header: a key", one, []string{"Authorization", "Bearer " + one.apiKey}, 200, "", "", "ci", "key", "ci"},
		{"nothing", one, []string{"Authorization", ""}, 401, `, scope="mcp"`, "unauthorized", "127.0.0.1", "ip", nil},
		{"a wrong key", one, []string{"Authorization", "Bearer svc_gw_ci_" + strings.Repeat("x", 43)}, 401, `, error="invalid_token", scope="mcp"`, "unauthorized", "127.0.0.1", "ip", nil},
		{"an expired token", one, []string{"Authorization", "Bearer " + one.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})}, 401, `, error="invalid_token", scope="mcp"`, "unauthorized", "127.0.0.1", "ip", nil},
		{"a token of another issuer", one, []string{"Authorization", "Bearer " + two.token(nil)}, 401, `, error="invalid_token", scope="mcp"`, "unauthorized", "127.0.0.1", "ip", nil},
		{"scopes missing", one, []string{"Authorization", "Bearer " + one.token(map[string]any{"scope": "mcp2"})}, 403, `, error="insufficient_scope", scope="mcp"`, "insufficient_scope", "alice", "oauth", nil},
		{"principal claim absent: client_id", one, []string{"Authorization", "Bearer " + one.token(map[string]any{"scope": "mcp", "sub": nil, "client_id": "app"})}, 200, "", "", "app", "oauth", nil},
		{"neither: the client address", one, []string{"Authorization", "Bearer " + one.token(map[string]any{"scope": "mcp", "sub": nil})}, 200, "", "", "127.0.0.1", "ip", nil},
		{"two headers: both, the token is the identity", two, []string{"Authorization", "Bearer " + two.token(nil), "X-Api-Key", two.apiKey}, 200, "", "", "alice", "oauth", "ci"},
		{"two headers: a good token, a bad key", two, []string{"Authorization", "Bearer " + two.token(nil), "X-Api-Key", "x"}, 401, `, error="invalid_token"`, "unauthorized", "127.0.0.1", "ip", nil},
		{"two headers: a bad token, a good key", two, []string{"Authorization", "Bearer " + one.token(nil), "X-Api-Key", two.apiKey}, 401, `, error="invalid_token"`, "unauthorized", "127.0.0.1", "ip", nil},
		{"two headers: a key", two, []string{"Authorization", "", "X-Api-Key", two.apiKey}, 200, "", "", "ci", "key", "ci"},
		{"two headers: a token", two, []string{"Authorization", "Bearer " + two.token(nil)}, 200, "", "", "alice", "oauth", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(tt.rig.all())
			got := tt.rig.post(call("7", "safe"), tt.headers...)
			if got.status != tt.status {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			want := ""
			if tt.status != 200 {
				want = `Bearer resource_metadata="` + tt.rig.base + `/.well-known/oauth-protected-resource"` + tt.challenge
				if e := got.rpc(t); e.Error.Code != -32005 || e.Error.Message != tt.message || string(e.ID) != "7" {
					t.Errorf("got %s", got.body)
				}
			}
			if c := got.header.Get("WWW-Authenticate"); c != want {
				t.Errorf("challenge %s\nwant %s", c, want)
			}
			line := tt.rig.lines(before + 1)[before]
			kind := map[int]any{401: "unauthorized", 403: "insufficient_scope"}[tt.status]
			if line["error_kind"] != kind || tt.status != 200 && line["action"] != "deny" {
				t.Errorf("audit line %v", line)
			}
			if line["principal"] != tt.principal || line["principal_kind"] != tt.kind || line["key_id"] != tt.keyID {
				t.Errorf("audit line %v", line)
			}
		})
	}
	for _, s := range up.seen() {
		if s.header.Get("Authorization") != "" || s.header.Get("X-Api-Key") != "" {
			t.Error("the caller's credentials reached the upstream")
		}
	}
}

// Claims in rules, end to end, with default deny.
func TestOAuthClaimsRules(t *testing.T) {
	up := newUpstream(t, echo)
	o := newOAuthRig(t, up.URL, "", "", `    - {id: ops, action: allow, when: {tool_name: safe, claims: {groups_in: [ops, admin]}}}
    - {id: writers, action: allow, when: {tool_name: write, claims: {scopes_in: [write], subject_in: [alice]}}}
    - {id: both, action: allow, when: {tool_name: both, claims: {groups: [a, b]}}}`, nil)
	tests := []struct {
		name   string
		tool   string
		auth   string
		status int
	}{
		{"groups_in: a member", "safe", o.token(map[string]any{"groups": []string{"x", "ops"}}), 200},
		{"groups_in: a single string", "safe", o.token(map[string]any{"groups": "admin"}), 200},
		{"groups_in: no member", "safe", o.token(map[string]any{"groups": []string{"opsx"}}), 403},
		{"groups_in: no groups", "safe", o.token(nil), 403},
		{"groups_in: a key never matches", "safe", o.apiKey, 403},
		{"scopes_in and subject_in", "write", o.token(map[string]any{"scope": "read write"}), 200},
		{"scopes_in, another subject", "write", o.token(map[string]any{"scope": "write", "sub": "bob"}), 403},
		{"groups: all", "both", o.token(map[string]any{"groups": []string{"b", "a"}}), 200},
		{"groups: one of two", "both", o.token(map[string]any{"groups": []string{"a"}}), 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := o.post(call("1", tt.tool), "Authorization", "Bearer "+tt.auth)
			if got.status != tt.status {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			if tt.status == 403 && (got.header.Get("WWW-Authenticate") != "" || got.rpc(t).Error.Message != "policy_denied") {
				t.Errorf("a 403 of a rule must have no challenge: %v %s", got.header, got.body)
			}
		})
	}
}

// A token whose groups cannot be read, as one with a number among them or with Entra's reference to
// too many, is denied by a deny rule with groups_in above an allow rule, in calls and in lists, with a
// reason; an allow rule and a view with groups_in do not match it.
func TestUnreadableGroupsFailClosed(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		if !strings.Contains(body, "tools/list") {
			echo(w, body, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"safe","inputSchema":{"type":"object"}},{"name":"pay","inputSchema":{"type":"object"}}]}}`)
	})
	o := newOAuthRig(t, up.URL, "", "", `    - {id: no-contractors, action: deny, when: {tool_name: pay, claims: {groups_in: [contractors]}}}
    - {id: staff-only, action: allow, when: {tool_name: vault, claims: {groups_in: [staff]}}}
    - {id: nobody-else, action: deny, when: {tool_name: vault}}
    - {id: rest, action: allow, when: {tool_name: "*"}}
  filter_lists: true`, nil)
	lines := 0
	for _, tt := range []struct {
		name       string
		claims     map[string]any
		pay, vault int
		kind       any
		listed     bool
	}{
		{"no groups", nil, 200, 403, nil, true},
		{"other groups", map[string]any{"groups": []string{"staff"}}, 200, 200, nil, true},
		{"the denied group", map[string]any{"groups": []string{"contractors"}}, 403, 403, nil, false},
		{"a number among them", map[string]any{"groups": []any{"contractors", 7}}, 403, 403, "claims_unreadable", false},
		{"an object", map[string]any{"groups": map[string]any{"contractors": true}}, 403, 403, "claims_unreadable", false},
		{"elsewhere", map[string]any{"_claim_names": map[string]any{"groups": "src1"}}, 403, 403, "claims_unreadable", false},
		{"the mark", map[string]any{"hasgroups": true}, 403, 403, "claims_unreadable", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bearer := "Bearer " + o.token(tt.claims)
			for tool, want := range map[string]int{"pay": tt.pay, "vault": tt.vault, "safe": 200} {
				got := o.post(call("1", tool), "Authorization", bearer)
				lines++
				line := o.lines(lines)[lines-1]
				if got.status != want {
					t.Errorf("%s: status %d: %s", tool, got.status, got.body)
				}
				if tool == "pay" && line["error_kind"] != tt.kind || tool == "pay" && tt.kind != nil && !strings.Contains(got.body, `"reason":"claims_unreadable"`) {
					t.Errorf("%s: %s, audit line %v", tool, got.body, line)
				}
			}
			list := o.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", bearer)
			lines++
			if o.lines(lines); !strings.Contains(list.body, `"safe"`) || strings.Contains(list.body, `"pay"`) != tt.listed {
				t.Errorf("listed %s", list.body)
			}
		})
	}
}

// While the issuer's keys are unavailable no token is accepted, and the response is no 401, so
// that clients do not start a new authorization.
func TestColdStartWithoutIssuer(t *testing.T) {
	up := newUpstream(t, echo)
	o := newOAuthRig(t, up.URL, "", "", allowAll, nil)
	o.stop()
	o.issuer.Answer(authtest.Fail(500))
	o.start()
	got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.token(nil))
	if got.status != 503 || got.header.Get("WWW-Authenticate") != "" || got.header.Get("Retry-After") == "" {
		t.Errorf("status %d, %v: %s", got.status, got.header, got.body)
	}
	if line := o.lines(1)[0]; line["error_kind"] != "issuer_unavailable" || line["principal_kind"] != "ip" {
		t.Errorf("audit line %v", line)
	}
	if got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.apiKey); got.status != 200 {
		t.Errorf("a key: status %d", got.status)
	}
	if n := len(up.seen()); n != 1 {
		t.Errorf("the upstream received %d requests", n)
	}
}

// A token of a key that the issuer published while a fetch failed is not refused as invalid:
// clients retry instead of asking their users to log in.
func TestATokenOfANewKeyIsUnavailableWhileFetchesFail(t *testing.T) {
	up := newUpstream(t, echo)
	begin := time.Now()
	var ahead atomic.Int64 // of the gateway's clock
	o := newOAuthRig(t, up.URL, "", "", allowAll, nil)
	o.stop()
	o.tune = func(opts *gateway.Options) {
		opts.Now = func() time.Time { return begin.Add(time.Duration(ahead.Load())) }
	}
	o.start()
	if got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.token(nil)); got.status != 200 {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	next := authtest.NewKey(t, "k2", "ES256")
	fresh := next.Token(t, map[string]any{"iss": o.issuer.URL, "aud": "https://gw.example/mcp", "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}, nil)
	o.issuer.Answer(authtest.Fail(500))
	for _, after := range []int64{1, 2, 4, 8} {
		got := o.post(call("2", "safe"), "Authorization", "Bearer "+fresh)
		if got.status != 503 || got.header.Get("Retry-After") != strconv.FormatInt(after, 10) || got.header.Get("WWW-Authenticate") != "" ||
			!strings.Contains(got.body, `"code":-32603`) || !strings.Contains(got.body, "issuer_unavailable") {
			t.Errorf("status %d, %v: %s", got.status, got.header, got.body)
		}
		ahead.Add(after * int64(time.Second))
	}
	if line := o.lines(5)[4]; line["error_kind"] != "issuer_unavailable" {
		t.Errorf("audit line %v", line)
	}
}

// The line of a frame has the same OAuth client as the line of its request.
func TestFrameLinesNameTheOAuthClient(t *testing.T) {
	var id string
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": id, "client_name": "My Agent"})
	}))
	t.Cleanup(host.Close)
	id = host.URL + "/client"
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) {
		io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
	}))
	o := newOAuthRig(t, up.URL, "    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}", "",
		"    - {id: quiet, action: deny, when: {direction: server_to_client, method: notifications/message}}\n"+allowAll, roots)
	if got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.token(map[string]any{"client_id": id})); got.status != 200 || strings.Contains(got.body, "notifications") {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for _, line := range o.lines(3) {
		if line["oauth_client_name"] != "My Agent" {
			t.Errorf("line of kind %v: %v", line["kind"], line)
		}
	}
}

// oauth_client_name is taken from the client's metadata document; a request without it passes.
func TestOAuthClientName(t *testing.T) {
	var id string
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": id, "client_name": "My\nAgent"})
	}))
	t.Cleanup(host.Close)
	id = host.URL + "/client"
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	up := newUpstream(t, echo)
	tests := []struct {
		name     string
		settings string
		claims   map[string]any
		want     any
	}{
		{"client_id", "    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}", map[string]any{"client_id": id}, "My Agent"},
		{"azp as fallback", "    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}", map[string]any{"azp": id}, "My Agent"},
		{"no URL", "    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}", map[string]any{"client_id": "app"}, nil},
		{"switched off", "", map[string]any{"client_id": id}, nil},
		{"an address inside", "    cimd: {enabled: true}", map[string]any{"client_id": id}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOAuthRig(t, up.URL, tt.settings, "", allowAll, roots)
			got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.token(tt.claims))
			if got.status != 200 {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			if line := o.lines(1)[0]; line["oauth_client_name"] != tt.want {
				t.Errorf("audit line %v", line)
			}
		})
	}
}
