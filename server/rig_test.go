package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store"
)

// clock is a clock that tests advance.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

const webhookSecret = "whsec_of_the_tests"

// rig is a control plane over a real store with two tenants.
type rig struct {
	t     testing.TB
	store store.Engine
	srv   *Server
	clock *clock
	log   *journal

	admin string // an api key of tenant one
	other string // an api key of tenant two

	delivery string            // of the webhook of tenant one, if it has specimens
	gateways map[string]string // keys of scope ingest by tenant, of those that have specimens
}

// newRig starts a control plane with rate limits that tests do not reach; change changes
// its options.
func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, clock: &clock{t: epoch}, log: &journal{}}
	st, err := openStore(t, r.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	r.store = st
	r.admin = r.tenant("one", "org_one")
	r.other = r.tenant("two", "org_two")
	o := Options{
		Records: st, Traces: st, Now: r.clock.Now, IdentitySecret: webhookSecret,
		RateLimit: 1_000_000, IngestRateLimit: 1_000_000,
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&o)
	}
	if r.srv, err = New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// journal records log output.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// tenant makes a tenant and returns the secret of its first key.
func (r *rig) tenant(id, org string) string {
	r.t.Helper()
	secret := NewSecret(store.ScopeAPI)
	_, _, err := r.store.CreateTenant(context.Background(), store.TenantCreate{
		ID: id, Name: id, OrgID: org,
		Key: &store.KeyCreate{Name: "first", Scope: store.ScopeAPI, Prefix: SecretPrefix(secret), Digest: store.DigestKey(secret)},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

// reply is a response of the control plane.
type reply struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	raw    []byte
}

// ask sends a request with a key (empty: none) and a JSON body (empty: none); header is
// name, value, name, value… Every response is checked against the shared conventions.
func (r *rig) ask(key, method, path, body string, header ...string) *reply {
	r.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	a := r.send(req)
	if a.status < 300 {
		checkRequest(r.t, method, req.URL.Path, body)
	}
	return a
}

func (r *rig) send(req *http.Request) *reply {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.srv.ServeHTTP(w, req)
	a := &reply{t: r.t, what: req.Method + " " + req.URL.String(), status: w.Code, header: w.Header(), raw: w.Body.Bytes()}
	a.conventions(underAPI(req.URL.Path))
	checkAnswer(r.t, req.Method, req.URL.Path, a.status, a.header, a.raw)
	return a
}

// conventions checks the rules that every response follows.
func (a *reply) conventions(underAPI bool) {
	a.t.Helper()
	if got := a.header.Get("X-Content-Type-Options"); got != "nosniff" {
		a.t.Errorf("%s: X-Content-Type-Options is %q", a.what, got)
	}
	if a.header.Get("X-Request-Id") == "" {
		a.t.Errorf("%s: no X-Request-Id", a.what)
	}
	if underAPI {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			if a.header.Get(name) == "" {
				a.t.Errorf("%s: %d without %s", a.what, a.status, name)
			}
		}
	}
	if (a.header.Get("Retry-After") != "") != (a.status == 429 || a.status == 503 && underAPI) {
		a.t.Errorf("%s: %d with Retry-After %q", a.what, a.status, a.header.Get("Retry-After"))
	}
	if a.status == http.StatusNotModified {
		return
	}
	otlp := strings.Contains(a.what, "/api/otlp/") && a.status == http.StatusOK // responses in the format of the OTLP protocol
	exported := a.status == 200 && strings.Contains(a.what, "/api/traces/export")
	if got := a.header.Get("Content-Type"); got != "application/json; charset=utf-8" && !otlp && !exported {
		a.t.Errorf("%s: Content-Type %q: %s", a.what, got, a.raw)
	}
	if a.status < 400 || !underAPI {
		return
	}
	var body struct {
		Error   string            `json:"error"`
		Details map[string]string `json:"details"`
	}
	d := json.NewDecoder(bytes.NewReader(a.raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil || body.Error == "" {
		a.t.Errorf("%s: %d with a body that is not {error, details?}: %s", a.what, a.status, a.raw)
	}
}

// want fails the test unless the response has the status.
func (a *reply) want(status int) *reply {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d: %s", a.what, a.status, status, a.raw)
	}
	return a
}

// object is the body as an object, without the warning that no gateway runs, which few tests have.
func (a *reply) object() object {
	a.t.Helper()
	var o object
	if err := json.Unmarshal(a.raw, &o); err != nil {
		a.t.Fatalf("%s: %v: %s", a.what, err, a.raw)
	}
	if warnings, ok := o["warnings"].([]any); ok {
		if warnings = slices.DeleteFunc(warnings, func(w any) bool { return w == noGatewayRuns }); len(warnings) == 0 {
			delete(o, "warnings")
		} else {
			o["warnings"] = warnings
		}
	}
	return o
}

// data is the object in {"data": …}; data must be the body's only member.
func (a *reply) data() object {
	a.t.Helper()
	o := a.object()
	o.has(a.t, "data")
	return toObject(a.t, o["data"])
}

// list returns the entries of data.
func (a *reply) list() []object {
	a.t.Helper()
	items, ok := a.object()["data"].([]any)
	if !ok {
		a.t.Fatalf("%s: data is no list: %s", a.what, a.raw)
	}
	out := make([]object, len(items))
	for i, v := range items {
		out[i] = toObject(a.t, v)
	}
	return out
}

// detail returns one entry of the error's details.
func (a *reply) detail(field string) string {
	a.t.Helper()
	d, _ := a.object()["details"].(map[string]any)
	s, _ := d[field].(string)
	return s
}

// wantDetail fails the test unless the response is a 400 about the field.
func (a *reply) wantDetail(field string) *reply {
	a.t.Helper()
	if a.status != 400 || a.detail(field) == "" {
		a.t.Fatalf("%s: got %d, want 400 with details.%s: %s", a.what, a.status, field, a.raw)
	}
	return a
}

type object map[string]any

func toObject(t testing.TB, v any) object {
	t.Helper()
	m, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("%v is no object", v)
	}
	return m
}

// has fails the test unless the object has exactly these members.
func (o object) has(t testing.TB, names ...string) object {
	t.Helper()
	got := slices.Sorted(maps.Keys(o))
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("members are %v, want %v", got, names)
	}
	return o
}

// is fails the test unless the members have these values; want is name, value…
func (o object) is(t testing.TB, want ...any) object {
	t.Helper()
	for i := 0; i+1 < len(want); i += 2 {
		name := want[i].(string)
		got, expect := fmt.Sprint(o[name]), fmt.Sprint(want[i+1])
		if _, ok := o[name]; !ok || got != expect {
			t.Errorf("%s is %v, want %v", name, o[name], want[i+1])
		}
	}
	return o
}

func (o object) id(t testing.TB) string {
	t.Helper()
	s, _ := o["id"].(string)
	if s == "" {
		t.Fatalf("no id in %v", o)
	}
	return s
}

// moment returns a member that must be an ISO 8601 UTC timestamp.
func (o object) moment(t testing.TB, name string) time.Time {
	t.Helper()
	s, _ := o[name].(string)
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !strings.HasSuffix(s, "Z") {
		t.Errorf("%s is %v, not an ISO 8601 UTC timestamp", name, o[name])
	}
	return at
}

// The following functions create resources that many tests need; each returns the id.

func (r *rig) agent(key, name string) string {
	r.t.Helper()
	return r.ask(key, "POST", "/api/agents", fmt.Sprintf(`{"name":%q}`, name)).want(201).data().id(r.t)
}

func (r *rig) team(key, name string, scopes ...string) string {
	r.t.Helper()
	id := r.ask(key, "POST", "/api/teams", fmt.Sprintf(`{"name":%q}`, name)).want(201).data().id(r.t)
	if len(scopes) > 0 {
		r.scopes(key, id, scopes...).want(200)
	}
	return id
}

func (r *rig) scopes(key, team string, scopes ...string) *reply {
	r.t.Helper()
	b, _ := json.Marshal(map[string]any{"scopes": append([]string{}, scopes...)})
	return r.ask(key, "PUT", "/api/teams/"+team+"/scopes", string(b))
}

// key makes a key; more is name, value pairs of the body. It returns the secret and the id.
func (r *rig) key(by, scope string, more ...string) (secret, id string) {
	r.t.Helper()
	body := map[string]string{"name": "a " + scope + " key", "scope": scope}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i]] = more[i+1]
	}
	b, _ := json.Marshal(body)
	d := r.ask(by, "POST", "/api/keys", string(b)).want(201).data()
	return d["key"].(string), d.id(r.t)
}

// teamKey makes a team with the scopes and an api key that is limited to it.
func (r *rig) teamKey(name string, scopes ...string) (secret, team string) {
	r.t.Helper()
	team = r.team(r.admin, name, scopes...)
	secret, _ = r.key(r.admin, "api", "teamId", team)
	return secret, team
}

// traces stores traces of tenant one directly.
func (r *rig) traces(batch ...store.Trace) {
	r.t.Helper()
	if _, err := r.store.TracesOf("one").Ingest(context.Background(), store.Batch{Traces: batch}); err != nil {
		r.t.Fatal(err)
	}
}

// webhook delivers a signed identity event, after the clock has reached the time of the
// event.
func (r *rig) webhook(typ string, at time.Time, user, email, org string) *reply {
	r.t.Helper()
	if ahead := at.Sub(r.clock.Now()); ahead > 0 {
		r.clock.advance(ahead)
	}
	return r.deliver(fmt.Sprintf(`{"type":%q,"createdAt":%q,"data":{"userId":%q,"email":%q,"displayName":"Some One","orgId":%q}}`,
		typ, at.UTC().Format(time.RFC3339Nano), user, email, org))
}

func (r *rig) deliver(body string) *reply {
	r.t.Helper()
	return r.ask("", "POST", "/api/auth/webhook", body, signatureHeader, sign(webhookSecret, r.clock.Now().Unix(), body))
}
