package e2e

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/auth/authtest"
)

func TestReloadOfOAuth(t *testing.T) {
	up := newUpstream(t, echo)
	t.Run("adding OAuth waits for a restart, and the rest of the file takes effect", func(t *testing.T) {
		r := newRig(t, basic(up.URL))
		r.edit("auth:\n  enabled: true\n", "auth:\n  enabled: true\n  oauth: {enabled: true, issuer: 'https://i.example', audience: a, jwks_url: 'https://i.example/k'}\n")
		r.edit("when: {tool_name: danger}", "when: {tool_name: safe}")
		at := strings.Index(r.yaml, "    - id: bob")
		lines := strings.SplitAfter(r.yaml[at:], "\n")
		r.edit(lines[0]+lines[1], "")
		if err := r.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := r.post(call("1", "safe")); got.status != 403 {
			t.Errorf("a new deny rule: %d %s", got.status, got.body)
		}
		if got := r.post(call("1", "notes"), "Authorization", "Bearer "+r.other); got.status != 401 {
			t.Errorf("a key that the file no longer has: %d", got.status)
		}
		want := `{"status":"ok","restart_pending":["auth.oauth.issuer","auth.oauth.audience","auth.oauth.jwks_url","auth.oauth.enabled"]}`
		if got := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/readyz", ""); got.body != want {
			t.Errorf("readyz: %s", got.body)
		}
	})
	t.Run("removing OAuth and its keys takes effect, with the rest of the file", func(t *testing.T) {
		o := newOAuthRig(t, up.URL, "", "", allowAll, nil)
		token := "Bearer " + o.token(nil)
		if got := o.post(call("1", "safe"), "Authorization", token); got.status != 200 {
			t.Fatalf("status %d", got.status)
		}
		at := strings.Index(o.yaml, "  oauth:\n")
		o.edit(o.yaml[at:at+strings.Index(o.yaml[at:], "default_upstream:")], "")
		o.edit("default_action: deny\n  rules:\n", "default_action: deny\n  rules:\n    - {id: first, action: deny, when: {tool_name: safe}}\n")
		if err := o.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := o.post(call("1", "safe"), "Authorization", token); got.status != 401 {
			t.Errorf("a token: %d %s", got.status, got.body)
		}
		if got := o.post(call("1", "safe"), "Authorization", "Bearer "+o.apiKey); got.status != 403 {
			t.Errorf("a new deny rule: %d %s", got.status, got.body)
		}
	})
	t.Run("authentication that is switched on with OAuth alone admits nobody before the restart", func(t *testing.T) {
		r := newRig(t, "\nauth: {enabled: false}\n"+basic(up.URL))
		if got := r.post(call("1", "safe")); got.status != 200 {
			t.Fatalf("status %d", got.status)
		}
		r.edit("auth: {enabled: false}", "auth: {enabled: true, oauth: {enabled: true, issuer: 'https://i.example', audience: a, jwks_url: 'https://i.example/k'}}")
		if err := r.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := r.post(call("1", "safe")); got.status != 401 {
			t.Errorf("status %d: %s", got.status, got.body)
		}
		if !strings.Contains(r.logs.String(), "path=auth.keys") {
			t.Errorf("the log does not say why: %s", r.logs)
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
	t.Parallel()
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
			case <-time.After(20 * time.Second):
				t.Fatal("the stream goes on")
			}
		})
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
