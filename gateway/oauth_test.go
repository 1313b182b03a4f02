package gateway

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

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
	o.gateway, err = New(Options{
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

func TestProtectedResourceMetadata(t *testing.T) {
	up := newUpstream(t, echo)
	o := newOAuthRig(t, up.URL, "    required_scopes: [mcp, read]", "", allowAll, nil)
	path := "/.well-known/oauth-protected-resource"
	want := map[string]any{
		"resource": o.base + "/mcp", "authorization_servers": []any{o.issuer.URL},
		"scopes_supported": []any{"mcp", "read"}, "bearer_methods_supported": []any{"header"},
	}
	tests := []struct {
		name, method, path string
		status             int
	}{
		{"GET", http.MethodGet, path, 200},
		{"GET, the form with the path of the resource", http.MethodGet, path + "/mcp", 200},
		{"HEAD", http.MethodHead, path, 200},
		{"POST", http.MethodPost, path, 405},
		{"a path below", http.MethodGet, path + "/x", 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := o.do(tt.method, o.base+tt.path, "", "Authorization", "", "Mcp-Protocol-Version", "2025-06-18")
			if got.status != tt.status {
				t.Fatalf("status %d", got.status)
			}
			if tt.status == 405 && got.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("Allow %q", got.header.Get("Allow"))
			}
			if tt.status != 200 || tt.method == http.MethodHead {
				return
			}
			var doc map[string]any
			if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, doc); diff != "" {
				t.Error(diff)
			}
		})
	}
	if lines := o.all(); len(lines) != 0 {
		t.Errorf("audit lines %v", lines)
	}
	o.edit("    enabled: true\n    issuer", "    enabled: false\n    issuer")
	if err := o.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := o.do(http.MethodGet, o.base+path, ""); got.status != 404 {
		t.Errorf("switched off: status %d", got.status)
	}
	if got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.token(map[string]any{"scope": "mcp read"})); got.status != 401 {
		t.Errorf("switched off, a token: status %d", got.status)
	}
}

// The input rate limit applies to the metadata document too.
func TestMetadataStandsBehindTheInputLimit(t *testing.T) {
	up := newUpstream(t, echo)
	o := newOAuthRig(t, up.URL, "", "", allowAll, nil)
	o.edit("default_upstream", "input_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 2}\ndefault_upstream")
	if err := o.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []int
	for range 3 {
		got = append(got, o.do(http.MethodGet, o.base+"/.well-known/oauth-protected-resource", "").status)
	}
	if diff := cmp.Diff([]int{200, 200, 429}, got); diff != "" {
		t.Error(diff)
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
	o.tune = func(opts *Options) { opts.Now = func() time.Time { return begin.Add(time.Duration(ahead.Load())) } }
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

func TestReloadOfOAuth(t *testing.T) {
	up := newUpstream(t, echo)
	t.Run("enabling tokens with empty fields that need a restart is refused", func(t *testing.T) {
		r := newRig(t, basic(up.URL))
		r.edit("auth:\n  enabled: true\n", "auth:\n  enabled: true\n  oauth: {enabled: true, issuer: 'https://i.example', audience: a, jwks_url: 'https://i.example/k'}\n")
		if err := r.gateway.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "restart") {
			t.Errorf("got %v", err)
		}
		if got := r.post(call("1", "safe")); got.status != 200 {
			t.Errorf("status %d: %s", got.status, got.body)
		}
	})
	t.Run("required_scopes takes effect on the next request", func(t *testing.T) {
		o := newOAuthRig(t, up.URL, "    required_scopes: [mcp]", "", allowAll, nil)
		token := o.token(map[string]any{"scope": "mcp"})
		if got := o.post(call("1", "safe"), "Authorization", "Bearer "+token); got.status != 200 {
			t.Fatalf("status %d", got.status)
		}
		o.edit("required_scopes: [mcp]", "required_scopes: [mcp, more]")
		if err := o.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := o.post(call("1", "safe"), "Authorization", "Bearer "+token)
		if got.status != 403 || !strings.Contains(got.header.Get("WWW-Authenticate"), `scope="mcp more"`) {
			t.Errorf("status %d, %v", got.status, got.header)
		}
	})
}

// A long stream is cut when its token expires, and when a reload makes the token invalid.
func TestStreamsOfTokensAreCut(t *testing.T) {
	for name, drop := range map[string]func(t *testing.T, o *oauthRig){
		"the token expires": func(*testing.T, *oauthRig) {},
		"the issuer withdraws its key": func(t *testing.T, o *oauthRig) {
			fresh := authtest.NewKey(t, "k2", "ES256")
			o.issuer.Publish(fresh)
			old := o.key
			o.key = fresh // the first call of another caller fetches the new key set
			if got := o.post(`[]`, "Authorization", "Bearer "+o.token(nil)); got.status != 400 {
				t.Errorf("a token of the new key: %d", got.status)
			}
			o.key = old
		},
		"a reload switches tokens off": func(t *testing.T, o *oauthRig) {
			o.edit("  oauth:\n    enabled: true", "  oauth:\n    enabled: false")
			if err := o.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"a reload demands another scope": func(t *testing.T, o *oauthRig) {
			o.edit("leeway: 0s", "leeway: 0s\n    required_scopes: [more]")
			if err := o.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := 0; r.Context().Err() == nil; i++ {
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":%d}}\n\n", i)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(20 * time.Millisecond)
				}
			})
			o := newOAuthRig(t, up.URL, "    leeway: 0s", "", allowAll, nil)
			life := time.Hour
			if name == "the token expires" {
				life = 3 * time.Second
			}
			token := o.token(map[string]any{"exp": time.Now().Add(life).Unix()})
			ended := make(chan answer, 1)
			go func() { ended <- o.post(call("1", "safe"), "Authorization", "Bearer "+token) }()
			o.lines(1) // the opening line
			drop(t, o)
			select {
			case got := <-ended:
				if got.status != 200 || !strings.Contains(got.body, `"message":"unauthorized"`) {
					t.Errorf("status %d: %s", got.status, got.body)
				}
				lines := o.all()
				if line := lines[len(lines)-1]; line["error_kind"] != "token_revoked" || line["method"] != "tools/call" {
					t.Errorf("request line %v", line)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the stream goes on")
			}
		})
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

// A reload creates a new fetcher and an empty cache: metadata of a client is fetched again, and
// is not used until then.
func TestReloadBeginsAFreshClientCache(t *testing.T) {
	var id string
	var name atomic.Value
	var asked atomic.Int32
	name.Store("One")
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"client_id": id, "client_name": name.Load()})
	}))
	t.Cleanup(host.Close)
	id = host.URL + "/client"
	roots := x509.NewCertPool()
	roots.AddCert(host.Certificate())
	up := newUpstream(t, echo)
	o := newOAuthRig(t, up.URL, "    cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}", "", allowAll, roots)
	token := "Bearer " + o.token(map[string]any{"client_id": id})
	for i, step := range []struct {
		reload bool
		want   string
		asked  int32
	}{{false, "One", 1}, {false, "One", 1}, {true, "Two", 2}, {false, "Two", 2}} {
		if step.reload {
			if err := o.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		o.post(call("1", "safe"), "Authorization", token)
		name.Store("Two")
		if line := o.lines(i + 1)[i]; line["oauth_client_name"] != step.want || asked.Load() != step.asked {
			t.Errorf("step %d: %v, %d fetches", i, line["oauth_client_name"], asked.Load())
		}
	}
}

// The warning when public_url is unset on 0.0.0.0.
func TestPublicURLWarning(t *testing.T) {
	up := newUpstream(t, echo)
	for _, tt := range []struct {
		listen, public string
		want           bool
	}{
		{"0.0.0.0:8081", "", true}, {"'[::]:8081'", "", true}, {"':8081'", "", true},
		{"127.0.0.1:8081", "", false}, {"0.0.0.0:8081", "https://gw.example", false},
	} {
		t.Run(tt.listen+" "+tt.public, func(t *testing.T) {
			o := newOAuthRig(t, up.URL, "", "", allowAll, nil)
			o.stop()
			o.edit("public_url: "+o.base, "public_url: '"+tt.public+"'")
			o.edit("listen: 127.0.0.1:0", "listen: "+tt.listen)
			o.start()
			if got := strings.Contains(o.logs.String(), "auth.oauth.public_url is not set"); got != tt.want {
				t.Errorf("warned: %v", got)
			}
		})
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

// The official Go client discovers the issuer through the gateway, gets a token with the scope of
// the challenge, and calls with it.
func TestGoSDKDiscoversTheIssuerThroughTheGateway(t *testing.T) {
	up := newSDKServer(t, "up", nil)
	o := newOAuthRig(t, up.URL, "    required_scopes: [mcp]", "", allowAll, nil)
	serve := func(doc any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc)
		}
	}
	o.issuer.Handle("/.well-known/oauth-authorization-server", serve(map[string]any{
		"issuer": o.issuer.URL, "authorization_endpoint": o.issuer.URL + "/authorize", "token_endpoint": o.issuer.URL + "/token",
		"jwks_uri": o.issuer.JWKSURL(), "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
	}))
	var mu sync.Mutex
	var asked url.Values
	o.issuer.Handle("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		mu.Lock()
		defer mu.Unlock()
		serve(map[string]any{"access_token": o.token(map[string]any{"scope": asked.Get("scope")}), "token_type": "Bearer", "expires_in": 3600})(w, r)
	})
	handler, err := sdkauth.NewAuthorizationCodeHandler(&sdkauth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: &oauthex.ClientCredentials{ClientID: "sdk"},
		RedirectURL:         "http://127.0.0.1/callback",
		AuthorizationCodeFetcher: func(_ context.Context, args *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
			u, err := url.Parse(args.URL)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			asked = u.Query()
			return &sdkauth.AuthorizationResult{Code: "c", State: asked.Get("state")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: o.url, OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{"text": "hello"}}); err != nil || got.Content[0].(*sdk.TextContent).Text != "up: hello" {
		t.Errorf("got %v, %v", got, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if asked.Get("scope") != "mcp" || asked.Get("resource") != o.url {
		t.Errorf("the client requested %v", asked)
	}
}
