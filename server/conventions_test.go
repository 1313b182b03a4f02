package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
)

// TestListPaging: limit and offset of every paged list. All pages together are
// the complete list, until offset is at least total.
func TestListPaging(t *testing.T) {
	r := newRig(t)
	for i := range 7 {
		r.team(r.admin, fmt.Sprint("t", i))
		r.agent(r.admin, fmt.Sprint("a", i))
		r.ask(r.admin, "POST", "/api/policies", policyBody(fmt.Sprint("p", i), "")).want(201)
		r.key(r.admin, "agent")
	}
	agent := r.agent(r.admin, "with history")
	for i := range 7 {
		r.ask(r.admin, "PUT", "/api/agents/"+agent, fmt.Sprintf(`{"configYaml":"v: %d"}`, i)).want(200)
		r.traces(store.Trace{ID: fmt.Sprint(i), AgentID: agent, Status: store.TraceSuccess, ToolName: fmt.Sprint("tool", i), CreatedAt: epoch})
	}
	for _, path := range []string{"/api/teams", "/api/agents", "/api/policies", "/api/keys", "/api/traces",
		"/api/agents/" + agent + "/tools", "/api/agents/" + agent + "/history"} {
		t.Run(path, func(t *testing.T) {
			whole := r.ask(r.admin, "GET", path, "").want(200)
			total := int(whole.object()["total"].(float64))
			var pages []object
			offset := 0
			for ; offset < total; offset += 3 {
				a := r.ask(r.admin, "GET", fmt.Sprintf("%s?limit=3&offset=%d", path, offset), "").want(200)
				members := []string{"data", "total", "limit", "offset"}
				if offset+3 < total && strings.Count(path, "/") == 2 { // tools and history have no cursors
					members = append(members, "next")
				}
				a.object().has(t, members...).is(t, "total", total, "limit", 3, "offset", offset)
				pages = append(pages, a.list()...)
			}
			if got, want := fmt.Sprint(pages), fmt.Sprint(whole.list()); got != want {
				t.Errorf("pages put together differ from the whole list:\n%s\n%s", got, want)
			}
			r.ask(r.admin, "GET", fmt.Sprintf("%s?offset=%d", path, total), "").want(200).object().is(t, "data", "[]", "total", total)
			r.ask(r.admin, "GET", path+"?offset=1000000000000000000000", "").want(200).object().is(t, "data", "[]", "total", total)
			r.ask(r.admin, "GET", path+"?limit=501", "").want(200).object().is(t, "limit", 500)
			for _, bad := range []string{"limit=0", "limit=-1", "limit=abc", "limit=1e3", "limit="} {
				r.ask(r.admin, "GET", path+"?"+bad, "").wantDetail("limit")
			}
			r.ask(r.admin, "GET", path+"?offset=-1", "").wantDetail("offset")
		})
	}
}

// TestIDsAreOpaqueAndOrdered: ids have a prefix and one form, and lists are
// newest first even when all items were created at the same instant.
func TestIDsAreOpaqueAndOrdered(t *testing.T) {
	r := newRig(t) // the clock does not advance
	var made []string
	for i := range 20 {
		made = append(made, r.agent(r.admin, fmt.Sprint("a", i)))
	}
	for i, a := range r.ask(r.admin, "GET", "/api/agents", "").want(200).list() {
		if want := made[len(made)-1-i]; a["id"] != want {
			t.Fatalf("entry %d is %v, want %s", i, a["id"], want)
		}
		if !strings.HasPrefix(a.id(t), "agt_") {
			t.Errorf("id %v", a["id"])
		}
	}
}

// TestPathsThatAreNotIDs: a path segment that cannot be an id is a 404 without a
// query to the store.
func TestPathsThatAreNotIDs(t *testing.T) {
	r := newRig(t)
	r.srv.records = deafStore{r.store}
	for _, id := range []string{"%2e%2e", "a%2Fb", "a%00b", "a%20b", "%C3%A9", "a'b", "a;b", strings.Repeat("x", 65), "*", "a.b", "%FF"} {
		for _, path := range []string{"/api/teams/%s", "/api/agents/%s/tools", "/api/policies/%s"} {
			a := r.ask(r.admin, "GET", fmt.Sprintf(path, id), "")
			if a.status != 404 {
				t.Errorf("%s: %d %s", a.what, a.status, a.raw)
			}
		}
	}
}

// deafStore supports only the methods for keys: any other call panics.
type deafStore struct{ store.Records }

type deafTenant struct{ store.Tenant }

func (s deafStore) Tenant(id string) store.Tenant { return deafTenant{s.Records.Tenant(id)} }

func (deafTenant) GetTeam(context.Context, string) (store.Team, error)     { panic("asked") }
func (deafTenant) GetPolicy(context.Context, string) (store.Policy, error) { panic("asked") }
func (deafTenant) GetAgent(context.Context, string) (store.Agent, error)   { panic("asked") }

// TestUnknownPathsAndMethods: 404 and 405 have the JSON error body, never the
// texts and redirects of net/http; ask checks the conventions.
func TestUnknownPathsAndMethods(t *testing.T) {
	r := newRig(t)
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/api", 404},
		{"GET", "/api/", 404},
		{"GET", "/api/nothing", 404},
		{"GET", "/api//agents", 404},
		{"GET", "//api/agents", 404},
		{"POST", "/api//agents", 404},
		{"GET", "/api/./agents", 404},
		{"GET", "/api/x/../agents", 404},
		{"GET", "/x/../api/agents", 404},
		{"GET", "/api/agents/", 404},
		{"GET", "/api/agents//tools", 404},
		{"GET", "/API/agents", 404},
		{"GET", "/", 404},
		{"GET", "/nothing", 404},
		{"GET", "/healthz/", 404},
		{"PATCH", "/api/agents", 405},
		{"HEAD", "/api/agents", 405},
		{"OPTIONS", "/api/agents", 405},
		{"DELETE", "/api/agents", 405},
		{"BREW", "/api/agents", 405},
		{"POST", "/api/traces/stats", 405},
		{"POST", "/healthz", 405},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			a := r.ask(r.admin, tc.method, tc.path, "").want(tc.status)
			if (a.header.Get("Allow") != "") != (tc.status == 405) {
				t.Errorf("Allow is %q", a.header.Get("Allow"))
			}
			if a.header.Get("Location") != "" {
				t.Errorf("redirected to %s", a.header.Get("Location"))
			}
			if a.object()["error"] == "" {
				t.Errorf("%s", a.raw)
			}
		})
	}
	if got := r.ask(r.admin, "PATCH", "/api/agents", "").header.Get("Allow"); got != "GET, POST" {
		t.Errorf("Allow is %q", got)
	}
}

// TestOverTheWire sends requests that httptest's recorder cannot: unusual
// request lines.
func TestOverTheWire(t *testing.T) {
	r := newRig(t)
	ts := httptest.NewServer(r.srv)
	defer ts.Close()
	send := func(t *testing.T, raw string) *http.Response {
		t.Helper()
		conn, err := net.Dial("tcp", ts.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		raw = strings.ReplaceAll(raw, "KEY", r.admin)
		if _, err := io.WriteString(conn, strings.ReplaceAll(raw, "\n", "\r\n")); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: strings.Fields(raw)[0]})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for _, tc := range []struct {
		name, raw string
		status    int
	}{
		{"plain", "GET /api/teams HTTP/1.1\nHost: x\nAuthorization: Bearer KEY\n\n", 200},
		{"absolute form", "GET http://evil.example/api/teams HTTP/1.1\nHost: x\nAuthorization: Bearer KEY\n\n", 200},
		{"two slashes", "GET //api/teams HTTP/1.1\nHost: x\nAuthorization: Bearer KEY\n\n", 404},
		{"connect", "CONNECT /api/teams HTTP/1.1\nHost: x\n\n", 404},
		{"connect to a host", "CONNECT evil.example:443 HTTP/1.1\nHost: x\n\n", 404},
		{"head", "HEAD /api/teams HTTP/1.1\nHost: x\nAuthorization: Bearer KEY\n\n", 405},
		{"health by head", "HEAD /healthz HTTP/1.1\nHost: x\n\n", 200},
		{"body longer than 1 MiB by its length", "POST /api/teams HTTP/1.1\nHost: x\nAuthorization: Bearer KEY\nContent-Length: 1048577\n\n", 400},
		{"body cut short", "POST /api/teams HTTP/1.1\nHost: x\nAuthorization: Bearer KEY\nTransfer-Encoding: chunked\n\nzz\n", 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := send(t, tc.raw)
			if resp.StatusCode != tc.status {
				t.Errorf("%d, want %d", resp.StatusCode, tc.status)
			}
			if got := resp.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
}

// TestBodyLimits: 1 MiB on the API, with and without a length, and no
// compression.
func TestBodyLimits(t *testing.T) {
	r := newRig(t)
	pad := func(n int) string { return `{"name":"x"` + strings.Repeat(" ", n-len(`{"name":"x"}`)) + `}` }
	r.ask(r.admin, "POST", "/api/teams", pad(1<<20)).want(201)
	r.ask(r.admin, "POST", "/api/teams", pad(1<<20+1)).wantDetail("body")
	r.ask(r.admin, "POST", "/api/teams", pad(10<<20)).wantDetail("body")
	req := httptest.NewRequest("POST", "/api/teams", io.MultiReader(strings.NewReader(pad(2<<20)))) // no length
	req.Header.Set("Authorization", "Bearer "+r.admin)
	r.send(req).wantDetail("body")
	r.ask(r.admin, "POST", "/api/teams", pad(2<<20), "Idempotency-Key", "k").wantDetail("body")
	r.ask(r.admin, "POST", "/api/teams", "\x1f\x8b\x08", "Content-Encoding", "gzip").wantDetail("Content-Encoding")
	r.ask(r.admin, "POST", "/api/teams", `{"name":"y"}`, "Content-Encoding", "identity").want(201)
}

// TestBodiesAreStrict: every endpoint with a body rejects what decode_test
// rejects.
func TestBodiesAreStrict(t *testing.T) {
	r := newRig(t)
	ids := r.specimens(r.admin, "one")
	for _, rt := range routes() {
		good := goodBody(&rt, ids["/api/agents/"])
		if good == "" || strings.HasPrefix(rt.path, "/api/otlp/") {
			continue
		}
		key := r.admin
		if slices.Equal(rt.keys, []store.KeyScope{store.ScopeIngest}) {
			key = r.gateways["one"]
		}
		path := rt.path
		if i := strings.Index(path, "{id}"); i >= 0 {
			path = path[:i] + ids[path[:i]] + path[i+len("{id}"):]
		}
		for name, body := range map[string]string{
			"unknown field":   strings.Replace(good, "{", `{"unknown_field":1,`, 1),
			"duplicate field": strings.Replace(good, "{", `{"name":"a","name":"b",`, 1),
			"trailing data":   good + "{}",
			"array":           "[" + good + "]",
			"not JSON":        "name=x",
			"empty":           "",
			"null":            "null",
			"deep":            strings.Replace(good, "{", `{"name":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`,`, 1),
		} {
			if a := r.ask(key, rt.method, path, body); a.status != 400 {
				t.Errorf("%s, %s: %d %s", a.what, name, a.status, a.raw)
			}
		}
	}
}

// TestRateLimitOverHTTP: 60 requests per minute and tenant, 429 beyond them, the
// three headers on every response, Retry-After on 429 only.
func TestRateLimitOverHTTP(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit = 0 }) // the default
	second, _ := r.key(r.admin, "agent")                 // the first request
	for i := 2; i <= 60; i++ {
		key, path := r.admin, "/api/agents"
		switch i % 4 {
		case 1:
			key = second // the window belongs to the tenant, not to the key
		case 2:
			path = "/api/nothing" // a 404 counts, too
		}
		a := r.ask(key, "GET", path, "")
		if a.status == 429 {
			t.Fatalf("request %d: 429", i)
		}
		for name, want := range map[string]string{
			"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": strconv.Itoa(60 - i),
			"X-RateLimit-Reset": strconv.FormatInt(epoch.Add(time.Minute).Unix(), 10),
		} {
			if got := a.header.Get(name); got != want {
				t.Fatalf("request %d: %s is %s, want %s", i, name, got, want)
			}
		}
	}
	a := r.ask(r.admin, "GET", "/api/agents", "").want(429)
	if a.header.Get("Retry-After") != "60" || a.header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("%v", a.header)
	}
	a.object().has(t, "error")
	r.ask(r.other, "GET", "/api/agents", "").want(200) // another tenant
	r.clock.advance(time.Minute - time.Nanosecond)
	if a := r.ask(r.admin, "GET", "/api/agents", "").want(429); a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %s", a.header.Get("Retry-After"))
	}
	r.clock.advance(time.Nanosecond)
	r.ask(r.admin, "GET", "/api/agents", "").want(200)
}

// TestRateLimitEdgeUnderConcurrency: of concurrent requests exactly as many as
// the limit are accepted.
func TestRateLimitEdgeUnderConcurrency(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit = 60 })
	for round := range 3 {
		var in, out atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 10 {
					switch a := r.ask(r.admin, "GET", "/api/teams", ""); a.status {
					case 200:
						in.Add(1)
					case 429:
						out.Add(1)
					default:
						t.Errorf("%d", a.status)
					}
				}
			})
		}
		wg.Wait()
		if in.Load() != 60 || out.Load() != 100 {
			t.Errorf("round %d: %d in, %d out", round, in.Load(), out.Load())
		}
		r.clock.advance(time.Minute)
	}
}

// TestIngestHasItsOwnWindow: ingest requests do not count in the API's window,
// and vice versa.
func TestIngestHasItsOwnWindow(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit, o.IngestRateLimit = 3, 2 })
	ingest, _ := r.key(r.admin, "ingest")
	for range 2 {
		a := r.ask(ingest, "GET", "/api/governance", "").want(200)
		if a.header.Get("X-RateLimit-Limit") != "2" {
			t.Errorf("limit %s", a.header.Get("X-RateLimit-Limit"))
		}
	}
	r.ask(ingest, "POST", "/api/traces", `{"agentName":"x","status":"success","durationMs":1}`).want(429)
	for range 2 {
		r.ask(r.admin, "GET", "/api/teams", "").want(200)
	}
	r.ask(r.admin, "GET", "/api/teams", "").want(429)
	r = newRig(t, func(o *Options) { o.IngestRateLimit = 0 })
	if got := r.ask(r.admin, "GET", "/api/governance", "").header.Get("X-RateLimit-Limit"); got != "600" {
		t.Errorf("the default ingest window is %s", got)
	}
}

// TestNoValidKeyCountsByAddress: requests without a valid key count in a window
// of the client address, with the headers, and in no tenant's window.
func TestNoValidKeyCountsByAddress(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit = 3 })
	from := func(address, key, path string) *reply {
		req := httptest.NewRequest("GET", path, nil)
		req.RemoteAddr = address
		req.Header.Set("X-Forwarded-For", fmt.Sprint(time.Now().UnixNano())) // a forwarding header, which is ignored
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		return r.send(req)
	}
	for i, path := range []string{"/api/teams", "/api/nothing", "/api/teams"} {
		a := from("192.0.2.1:1000", "", path).want(401)
		if got := a.header.Get("X-RateLimit-Remaining"); got != strconv.Itoa(2-i) {
			t.Errorf("remaining %s", got)
		}
	}
	from("192.0.2.1:2000", NewSecret(store.ScopeAPI), "/api/teams").want(429)
	from("192.0.2.2:1000", "", "/api/teams").want(401)
	from("192.0.2.1:1000", r.admin, "/api/teams").want(200) // a valid key is not limited by its address
	r.clock.advance(time.Minute)
	from("192.0.2.1:1000", "", "/api/teams").want(401)
}

// TestHealth: /healthz and /readyz are outside /api, need no key, and have no
// rate window.
func TestHealth(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RateLimit = 1 })
	for range 5 {
		for _, path := range []string{"/healthz", "/readyz"} {
			a := r.ask("", "GET", path, "").want(200)
			a.object().is(t, "status", "ok")
			if a.header.Get("X-RateLimit-Limit") != "" {
				t.Errorf("%s has a window", path)
			}
		}
	}
	r.srv.records = sickStore{r.store}
	r.ask("", "GET", "/healthz", "").want(200)
	a := r.ask("", "GET", "/readyz", "").want(503)
	if strings.Contains(string(a.raw), "disk") || !strings.Contains(r.log.String(), "disk") {
		t.Errorf("the cause must be in the log and not in the response: %s", a.raw)
	}
}

// sickStore returns an error with a path from every method.
type sickStore struct{ store.Records }

var errDisk = errors.New("write /var/lib/svc/svc.db: no space left on disk")

func (sickStore) Ready(context.Context) error { return errDisk }
func (sickStore) Authenticate(context.Context, store.KeyDigest) (store.Credential, error) {
	return store.Credential{}, errDisk
}

// TestInternalErrors: an unexpected error is a 500 with a request id that is
// also in the log; the text of the error is only in the log.
func TestInternalErrors(t *testing.T) {
	r := newRig(t)
	check := func(a *reply, inLog string) {
		t.Helper()
		a.want(500).object().has(t, "error", "details").is(t, "error", "internal server error")
		id := a.detail("requestId")
		if id == "" || id != a.header.Get("X-Request-Id") || !strings.Contains(r.log.String(), id) {
			t.Errorf("request id %q is not in the log", id)
		}
		if !strings.Contains(r.log.String(), inLog) {
			t.Errorf("the log lacks %q:\n%s", inLog, r.log)
		}
		for _, secret := range []string{"/var/lib", "disk", "cheese", "goroutine", ".go:"} {
			if strings.Contains(string(a.raw), secret) {
				t.Errorf("the answer shows %q: %s", secret, a.raw)
			}
		}
	}
	r.srv.records = sickStore{r.store}
	check(r.ask(r.admin, "GET", "/api/teams", ""), "no space left on disk")
	r.srv.records = panickyStore{r.store}
	check(r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`), "out of cheese")
	r.srv.records = r.store
	r.ask(r.admin, "POST", "/api/teams", `{"name":"x"}`).want(201) // the process stays healthy
}

// TestPanicMidAnswer: after a panic in a handler that has begun its response,
// the connection is aborted; no error body is appended to the partial response.
func TestPanicMidAnswer(t *testing.T) {
	r := newRig(t)
	r.srv.mux = r.srv.newMux([]route{{method: "GET", path: "/api/teams", keys: admins, handle: func(_ *Server, c *call) error {
		c.w.WriteHeader(200)
		_, _ = io.WriteString(c.w, `{"data":[`)
		panic("mid-answer")
	}}})
	ts := httptest.NewServer(r.srv)
	defer ts.Close()
	req, _ := http.NewRequest("GET", ts.URL+"/api/teams", nil)
	req.Header.Set("Authorization", "Bearer "+r.admin)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if err == nil {
		t.Error("a partial response looks complete")
	}
	if !strings.Contains(r.log.String(), "mid-answer") {
		t.Error("the panic is not in the log")
	}
}

// TestSecretsStayOutOfTheLog: at level debug, neither keys nor bodies nor
// signatures are logged.
func TestSecretsStayOutOfTheLog(t *testing.T) {
	r := newRig(t)
	secret, _ := r.key(r.admin, "api")
	r.ask(secret, "POST", "/api/agents", `{"name":"x","configYaml":"password: hunter2"}`).want(201)
	r.ask(secret, "POST", "/api/agents", `{"name":"x","configYaml":"password: hunter2"}`).want(400)
	r.ask("svc_api_"+strings.Repeat("z", 43), "GET", "/api/agents?x=hunter2", "").want(401)
	r.webhook("user.created", epoch, "u1", "u1@example.com", "org_one").want(200)
	for _, s := range []string{secret, r.admin, "hunter2", strings.Repeat("z", 43), webhookSecret} {
		if strings.Contains(r.log.String(), s) {
			t.Errorf("%q is in the log", s)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	r := newRig(t)
	for name, o := range map[string]Options{
		"no store":              {},
		"negative limit":        {Records: r.store, Traces: r.store, RateLimit: -1},
		"negative ingest limit": {Records: r.store, Traces: r.store, IngestRateLimit: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
