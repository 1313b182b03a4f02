package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/server"
	"svc/store"
	"svc/store/bolt"
)

// epoch is the time at which the clocks of tests begin.
var epoch = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// rig is a control plane with the page over a store, as a server of its own, with two tenants.
type rig struct {
	t            testing.TB
	store        store.Engine
	url          string
	passed       atomic.Int64 // time since epoch
	admin, other string       // keys of scope api: of tenant one, of tenant two
	reports      int64        // of gateways
}

func (r *rig) now() time.Time { return epoch.Add(time.Duration(r.passed.Load())) }

func (r *rig) advance(d time.Duration) { r.passed.Add(int64(d)) }

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t}
	st, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{NoSync: true, Now: r.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	r.store = st
	r.admin, r.other = r.tenant("one"), r.tenant("two")
	r.serve()
	return r
}

// serve starts a server of the page over the store, which browsers use from then on.
func (r *rig) serve() (*server.Server, *Page) {
	r.t.Helper()
	srv, err := server.New(server.Options{Records: r.store, Traces: r.store, Now: r.now, RateLimit: 1_000_000, IngestRateLimit: 1_000_000})
	if err != nil {
		r.t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(nil)
	_, port, _ := strings.Cut(ts.Listener.Addr().String(), ":")
	page := New(Options{API: srv, Records: r.store, Name: "127.0.0.1", Port: port, Now: r.now})
	ts.Config.Handler = page
	ts.Start()
	r.t.Cleanup(ts.Close)
	r.url = ts.URL
	return srv, page
}

// tenant makes a tenant and returns the secret of its first key.
func (r *rig) tenant(id string) string {
	r.t.Helper()
	secret := server.NewSecret(store.ScopeAPI)
	_, _, err := r.store.CreateTenant(context.Background(), store.TenantCreate{ID: id, Name: id,
		Key: &store.KeyCreate{Name: "first", Scope: store.ScopeAPI, Prefix: server.SecretPrefix(secret), Digest: store.DigestKey(secret)}})
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

// ask calls the API, which must answer 2xx, and returns the data of the answer.
func (r *rig) ask(key, method, path, body string) map[string]any {
	r.t.Helper()
	var out struct{ Data any }
	r.decode(key, method, path, body, &out)
	data, _ := out.Data.(map[string]any)
	return data
}

// decode calls the API, which must answer 2xx, and decodes its answer.
func (r *rig) decode(key, method, path, body string, out any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(text, out); err != nil || resp.StatusCode > 299 {
		r.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
}

// key makes a key; more is name, value pairs of the body.
func (r *rig) key(scope string, more ...string) string {
	r.t.Helper()
	body := map[string]string{"name": scope, "scope": scope}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i]] = more[i+1]
	}
	b, _ := json.Marshal(body)
	return r.ask(r.admin, "POST", "/api/keys", string(b))["key"].(string)
}

// teamKey makes a key that is limited to a new team with some scopes.
func (r *rig) teamKey(name string, scopes ...string) (key, team string) {
	r.t.Helper()
	team = r.ask(r.admin, "POST", "/api/teams", fmt.Sprintf(`{"name":%q}`, name))["id"].(string)
	b, _ := json.Marshal(map[string]any{"scopes": scopes})
	r.ask(r.admin, "PUT", "/api/teams/"+team+"/scopes", string(b))
	return r.key("api", "name", name, "teamId", team), team
}

var tokens = regexp.MustCompile(`name="token" value="([^"]+)"`)

// browser is a browser that is signed in.
type browser struct {
	r     *rig
	c     *http.Client
	token string
}

// seen is a page that a browser got.
type seen struct {
	status     int
	body, goes string // goes is where a redirect leads
}

// signIn signs in with a key.
func (r *rig) signIn(key string) *browser {
	r.t.Helper()
	jar, _ := cookiejar.New(nil)
	b := &browser{r: r, c: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if got := b.post("/signin", "key", key); got.status != http.StatusSeeOther {
		r.t.Fatalf("sign-in: %d %s", got.status, got.body)
	}
	for _, path := range []string{"/", "/traces", "/policies", "/agents"} { // one that the key may see
		if found := tokens.FindStringSubmatch(b.get(path).body); found != nil {
			b.token = found[1]
			return b
		}
	}
	r.t.Fatal("no page has the token of the session")
	return nil
}

func (b *browser) get(path string) seen { return b.send("GET", path, nil) }

// post sends a form with fields, as name, value pairs, and the token of the session.
func (b *browser) post(path string, fields ...string) seen {
	form := url.Values{}
	if b.token != "" {
		form.Set("token", b.token)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.send("POST", path, form)
}

func (b *browser) send(method, path string, form url.Values) seen {
	b.r.t.Helper()
	req, err := http.NewRequestWithContext(b.r.t.Context(), method, b.r.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.r.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.r.url)
	}
	resp, err := b.c.Do(req)
	if err != nil {
		b.r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.r.t.Fatal(err)
	}
	return seen{resp.StatusCode, string(text), resp.Header.Get("Location")}
}

// want fails the test unless the page has a status, and texts, and not those that begin with "!".
func (s seen) want(t testing.TB, status int, texts ...string) seen {
	t.Helper()
	if s.status != status {
		t.Errorf("status %d, want %d: %s", s.status, status, s.body)
	}
	for _, text := range texts {
		if part, not := strings.CutPrefix(text, "!"); not == strings.Contains(s.body, part) {
			t.Errorf("%q: not as wanted in %s", text, s.body)
		}
	}
	return s
}
