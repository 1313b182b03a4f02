package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// exchanger is a token endpoint that exchanges a user's token for a token of an upstream. At /idp it
// exchanges it for a grant, for which it issues the token: two parties with an account each.
type exchanger struct {
	*httptest.Server
	asked atomic.Int32
	// broken answers instead of the endpoint when it is set.
	broken atomic.Pointer[http.HandlerFunc]
	mu     sync.Mutex
	// revoked are the tokens that the upstream no longer accepts.
	revoked map[string]bool
}

func newExchanger(t *testing.T) *exchanger {
	e := &exchanger{revoked: map[string]bool{}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := e.asked.Load()
		if r.PostFormValue("assertion") == "" {
			n = e.asked.Add(1)
		}
		if broken := e.broken.Load(); broken != nil {
			(*broken)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, secret, _ := r.BasicAuth()
		if grant, ok := strings.CutPrefix(r.PostFormValue("assertion"), "planted-grant-of-"); ok && secret == "planted-secret" {
			fmt.Fprintf(w, `{"access_token":"planted-token-of-%s","token_type":"Bearer","expires_in":3600}`, grant)
			return
		}
		grants := r.URL.Path == "/idp" && r.PostFormValue("requested_token_type") == "urn:ietf:params:oauth:token-type:id-jag" && secret == "planted-idp-secret"
		parts := strings.Split(r.PostFormValue("subject_token"), ".")
		if secret != "planted-secret" && !grants || len(parts) != 3 || r.PostFormValue("audience") != "mail" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_request"}`)
			return
		}
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		var claims struct{ Sub string }
		_ = json.Unmarshal(payload, &claims)
		if grants {
			fmt.Fprintf(w, `{"access_token":"planted-grant-of-%s-%d","token_type":"N_A","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag"}`, claims.Sub, n)
			return
		}
		fmt.Fprintf(w, `{"access_token":"planted-token-of-%s-%d","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":3600}`, claims.Sub, n)
	}))
	t.Cleanup(e.Close)
	return e
}

// user returns the user of a request's token; empty if the upstream does not accept the token.
func (e *exchanger) user(r *http.Request) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer planted-token-of-")
	if !ok || e.revoked[token] {
		return ""
	}
	user, _, _ := strings.Cut(token, "-")
	return user
}

// newMailServer is a server of the official SDK with tools and results for each user.
func newMailServer(t *testing.T, e *exchanger, stateless bool, foreign *syncBuffer) *httptest.Server {
	servers := map[string]*sdk.Server{}
	for _, user := range []string{"alice", "bob"} {
		server := sdk.NewServer(&sdk.Implementation{Name: "mail", Version: "1"}, nil)
		answer := func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "mail of " + user}}}, nil, nil
		}
		sdk.AddTool(server, &sdk.Tool{Name: "read"}, answer)
		sdk.AddTool(server, &sdk.Tool{Name: "only_" + user}, answer)
		servers[user] = server
	}
	handler := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return servers[e.user(r)] }, &sdk.StreamableHTTPOptions{Stateless: stateless})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(foreign, r.Header)
		if e.user(r) == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

const (
	exchangeKeys = "\n    credentials: {token_exchange: {token_url: %q, client_id: gw, client_secret: planted-secret, audience: mail}}"
	grantKeys    = "\n    credentials: {id_jag: {idp: {token_url: \"%[1]s/idp\", client_id: \"https://gw.example/mcp\", client_secret: planted-idp-secret}, token_url: %[1]q, client_id: gw, client_secret: planted-secret, audience: mail, resource: \"https://mail\"}}"
)

// connectAs opens a session of the official client with a token.
func (o *oauthRig) connectAs(token string) *sdk.ClientSession {
	o.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(o.t.Context(), &sdk.StreamableClientTransport{Endpoint: o.url, HTTPClient: &http.Client{Transport: bearer{token}}}, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = session.Close() })
	return session
}

// toolsOf returns the names of the tools that a session lists.
func toolsOf(t *testing.T, s *sdk.ClientSession) (names []string) {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// Two users of one gateway reach an upstream as themselves, by token exchange and with grants, with
// sessions and without, with federation and without: each gets its own tools and its own results. Their own tokens reach
// only the token endpoint, and no secret is in a log, an audit line or a response.
func TestTwoUsersReachAnUpstreamAsThemselves(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{exchangeKeys, grantKeys} {
		for i := range 4 {
			federated, stateless := i&2 != 0, i&1 != 0
			t.Run(fmt.Sprintf("grants=%v,federated=%v,stateless=%v", keys == grantKeys, federated, stateless), func(t *testing.T) {
				var reached syncBuffer
				e := newExchanger(t)
				up := newMailServer(t, e, stateless, &reached)
				o := newOAuthRig(t, up.URL+fmt.Sprintf(keys, e.URL), "", "", allowAll, nil)
				prefix := ""
				if federated {
					prefix = "m_"
					o.edit("default_upstream: main\n", "federation: {enabled: true}\n")
					o.edit("  - name: main\n", "  - name: main\n    prefix: m_\n")
					o.edit("routes:\n  - match: {tool_name: \"*\"}\n    upstream: main\n", "")
					o.stop()
					o.start()
				}
				tokens := map[string]string{"alice": o.token(nil), "bob": o.token(map[string]any{"sub": "bob"})}
				sessions := map[string]*sdk.ClientSession{}
				for user, token := range tokens {
					sessions[user] = o.connectAs(token)
				}
				for range 2 {
					for user, s := range sessions {
						if got, want := toolsOf(t, s), []string{prefix + "only_" + user, prefix + "read"}; !slices.Equal(got, want) {
							t.Errorf("%s sees %v", user, got)
						}
						got, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: prefix + "read"})
						if err != nil || got.Content[0].(*sdk.TextContent).Text != "mail of "+user {
							t.Errorf("%s: %v %v", user, got, err)
						}
					}
				}
				if n := e.asked.Load(); n != 2 {
					t.Errorf("%d exchanges for two users", n)
				}

				// An API key has no user, so no user's mail is reached.
				before := reached.String()
				if got := o.post(call("1", prefix+"read"), "Authorization", "Bearer "+o.apiKey); got.status != http.StatusForbidden || got.rpc(t).Error.Code != -32005 || got.rpc(t).Error.Message != "no_subject_token" {
					t.Errorf("a key: %d %s", got.status, got.body)
				}
				if federated {
					if got := o.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer "+o.apiKey); got.status != http.StatusOK || strings.Contains(got.body, "m_") || strings.Contains(got.body, "unavailable") {
						t.Errorf("the list of a key: %d %s", got.status, got.body)
					}
				}
				if reached.String() != before {
					t.Error("a caller without a token reached the upstream")
				}
				for user, token := range tokens {
					if strings.Contains(reached.String(), token) || strings.Contains(reached.String(), strings.Split(token, ".")[2]) {
						t.Errorf("the own token of %s reached the upstream", user)
					}
				}
				o.stop()
				audit, err := os.ReadFile(o.auditPath())
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(audit), `"error_kind":"no_subject_token"`) {
					t.Errorf("no audit line of the key: %s", audit)
				}
				for where, text := range map[string]string{"audit lines": string(audit), "log": o.logs.String()} {
					if strings.Contains(text, "planted") || strings.Contains(text, strings.Split(tokens["alice"], ".")[2]) {
						t.Errorf("a secret is in the %s", where)
					}
				}
			})
		}
	}
}

// A caller whose token is not an ID token for the gateway's client at the identity provider gets an
// error with a reason of its own, and its token is sent to nobody. With federation it does not see
// the tools of the upstream. A token that the gateway does not accept at all is 401.
func TestACallerWithoutAnIDToken(t *testing.T) {
	t.Parallel()
	var reached syncBuffer
	e := newExchanger(t)
	up := newMailServer(t, e, true, &reached)
	o := newOAuthRig(t, up.URL+strings.Replace(fmt.Sprintf(grantKeys, e.URL), "https://gw.example/mcp", "svc-gateway", 1), "", "", allowAll, nil)
	post := func(body string, aud any) answer {
		return o.post(body, "Authorization", "Bearer "+o.token(map[string]any{"aud": aud}))
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if got := post(call("1", "read"), "https://gw.example/mcp"); got.status != http.StatusForbidden || got.rpc(t).Error.Message != "no_subject_token" || !strings.Contains(got.body, `"reason":"subject_token_audience"`) {
		t.Errorf("an access token: %d %s", got.status, got.body)
	}
	if got := post(call("1", "read"), "svc-gateway"); got.status != http.StatusUnauthorized {
		t.Errorf("a token that is not for the gateway: %d %s", got.status, got.body)
	}
	o.edit("default_upstream: main\n", "federation: {enabled: true}\n")
	o.edit("routes:\n  - match: {tool_name: \"*\"}\n    upstream: main\n", "")
	o.stop()
	o.start()
	if got := post(list, "https://gw.example/mcp"); got.status != http.StatusOK || strings.Contains(got.body, "read") || strings.Contains(got.body, "unavailable") {
		t.Errorf("the list of an access token: %d %s", got.status, got.body)
	}
	if n := e.asked.Load(); n != 0 || reached.String() != "" {
		t.Errorf("%d requests to the identity provider, upstream: %s", n, reached.String())
	}
	if got := post(list, []string{"https://gw.example/mcp", "svc-gateway"}); got.status != http.StatusOK || !strings.Contains(got.body, "only_alice") {
		t.Errorf("the list of an ID token: %d %s", got.status, got.body)
	}
	o.stop()
	if audit, err := os.ReadFile(o.auditPath()); err != nil || !strings.Contains(string(audit), `"error_kind":"subject_token_audience"`) {
		t.Errorf("%v %s", err, audit)
	}
}

// Clients of 2026-07-28 reach a server with sessions as themselves too, from the first call on:
// each session that the gateway opens is for one user.
func TestTwoUsersReachAServerOfTheOtherGenerationAsThemselves(t *testing.T) {
	t.Parallel()
	var reached syncBuffer
	e := newExchanger(t)
	up := newMailServer(t, e, false, &reached)
	o := newOAuthRig(t, up.URL+fmt.Sprintf(exchangeKeys, e.URL), "", "", allowAll, nil)
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	modern := func(credential string) answer {
		return o.post(body, "Authorization", "Bearer "+credential, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "read")
	}
	// The first caller has no token; the failure must not be stored as the server's protocol
	// generation.
	if got := modern(o.apiKey); got.status != http.StatusForbidden {
		t.Errorf("a key: %d %s", got.status, got.body)
	}
	tokens := map[string]string{"alice": o.token(nil), "bob": o.token(map[string]any{"sub": "bob"})}
	for range 3 {
		for user, token := range tokens {
			if got := modern(token); got.status != http.StatusOK || !strings.Contains(got.body, "mail of "+user) {
				t.Errorf("%s: %d %s", user, got.status, got.body)
			}
		}
	}
	if n := e.asked.Load(); n != 2 {
		t.Errorf("%d exchanges for two users", n)
	}
}

// A failure of a token endpoint reaches the caller as one error without its text, and does not
// affect callers with a valid token.
func TestHostileExchangeEndpoints(t *testing.T) {
	up := newUpstream(t, echo)
	e := newExchanger(t)
	o := newOAuthRig(t, up.URL+fmt.Sprintf(exchangeKeys, e.URL), "", "", allowAll, nil)
	good := []string{"Authorization", "Bearer " + o.token(nil)}
	if got := o.post(call("1", "x"), good...); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	const js = "application/json"
	own := func(r *http.Request) string { return r.PostFormValue("subject_token") }
	for i, tt := range []struct {
		status int
		media  string
		body   func(r *http.Request) string
	}{
		{400, js, func(*http.Request) string {
			return `{"error":"invalid_grant","error_description":"planted-description"}`
		}},
		{200, js, func(*http.Request) string { return strings.Repeat("planted", 1<<17) }},
		{302, js, func(*http.Request) string { return `{}` }},
		{200, "text/html", func(*http.Request) string { return "planted" }},
		{200, js, func(r *http.Request) string {
			return fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, own(r))
		}},
		{200, js, func(*http.Request) string {
			return `{"access_token":"planted","token_type":"DPoP","issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`
		}},
		{200, js, func(*http.Request) string {
			return `{"access_token":"planted","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:saml2"}`
		}},
	} {
		answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", tt.media)
			w.Header().Set("Location", up.URL+"/elsewhere?subject_token=planted") // the log names the address without its query
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.body(r))
		})
		e.broken.Store(&answer)
		before := len(up.seen())
		got := o.post(call("1", "x"), "Authorization", "Bearer "+o.token(map[string]any{"sub": fmt.Sprintf("user%d", i)}))
		if got.status != http.StatusBadGateway || got.rpc(t).Error.Message != "upstream_credentials" || strings.Contains(got.body, "planted") {
			t.Errorf("%d: %d %s", i, got.status, got.body)
		}
		if len(up.seen()) != before {
			t.Errorf("%d: the upstream was reached", i)
		}
		if got := o.post(call("2", "x"), good...); got.status != http.StatusOK {
			t.Errorf("%d: a good token: %d %s", i, got.status, got.body)
		}
	}
	if strings.Contains(o.logs.String(), "planted") {
		t.Error("a secret is in the log")
	}
}
