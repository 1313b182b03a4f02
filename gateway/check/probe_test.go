package check

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/upstream/stdio"
)

// fileWith parses a configuration that contains these lines.
func fileWith(t *testing.T, lines string) *config.File {
	t.Helper()
	text := "listen: 127.0.0.1:0\nlicense: {path: /l}\npolicy: {default_action: deny}\naudit: {path: " + filepath.Join(t.TempDir(), "a.jsonl") + "}\n" + lines
	f, found := config.Parse("svc.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if diag.HasErrors(found) {
		t.Fatal(diag.Err(found))
	}
	return f
}

func probeRun(t *testing.T, f *config.File) []ProbeResult {
	t.Helper()
	return Probe(t.Context(), f, ProbeOptions{Version: "1", Now: time.Now, Timeout: 5 * time.Second})
}

// sdkServer is a server of the official SDK with these tools.
func sdkServer(t *testing.T, stateless bool, tools ...string) *httptest.Server {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	for _, name := range tools {
		sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return nil, nil, nil
		})
	}
	server.AddPrompt(&sdk.Prompt{Name: "greet"}, nil)
	server.AddResource(&sdk.Resource{URI: "file:///a", Name: "a"}, nil)
	server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "file:///{p}", Name: "p"}, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// oldServer is a server of the official SDK with the transport of 2024-11-05.
func oldServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	s := httptest.NewServer(sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(s.Close)
	return s
}

// A working server's items are counted, in both protocol generations.
func TestAServerThatWorksIsCounted(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		s := sdkServer(t, stateless, "one", "two")
		r := probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+s.URL+`/mcp"}]
routes: [{match: {tool_name: one}, upstream: a}]`))[0]
		if !r.OK || r.Tools != 2 || r.Prompts != 1 || r.Resources != 2 || r.Revision == "" || r.Cause != "" {
			t.Errorf("stateless %v: %+v", stateless, r)
		}
		if !slices.Equal(r.Unrouted, []string{"two: no route matches"}) || !strings.Contains(r.Advice, "routes") {
			t.Errorf("unrouted %q, advice %q", r.Unrouted, r.Advice)
		}
		if r.Date.IsZero() {
			t.Error("the clock of the server was not noted")
		}
	}
}

// The JSON form has all documented members, and lists are never null.
func TestTheFormOfAResult(t *testing.T) {
	s := sdkServer(t, true)
	raw, err := json.Marshal(probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+s.URL+`/mcp"}]`)))
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
		t.Fatalf("%s: %v", raw, err)
	}
	want := []string{"advice", "cause", "clashes", "kind", "left_out", "ms", "name", "ok", "prompts", "resources", "revision", "skills", "skills_changed", "skills_invalid", "tools", "unrouted"}
	var got []string
	for name := range list[0] {
		got = append(got, name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || string(list[0]["clashes"]) != "[]" || string(list[0]["left_out"]) != "[]" {
		t.Errorf("%s", raw)
	}
}

// Conflicts between servers: a clash is reported for the later server in the file, and a
// prefix resolves it.
func TestClashesOfNamesAreTold(t *testing.T) {
	a, b := sdkServer(t, true, "search"), sdkServer(t, true, "search", "other")
	text := `federation: {enabled: true}
routes: [{match: {tool_name: other}, upstream: a}]
upstreams:
  - {name: a, url: "` + a.URL + `/mcp"%s}
  - {name: b, url: "` + b.URL + `/mcp"%s}`
	results := probeRun(t, fileWith(t, fmt.Sprintf(text, "", "")))
	if len(results[0].Clashes) != 0 || !slices.Contains(results[1].Clashes, "tool search belongs to a") || !strings.Contains(results[1].Advice, "prefix") {
		t.Errorf("%+v", results)
	}
	if !slices.Equal(results[1].Unrouted, []string{"other: a route leads to a"}) {
		t.Errorf("unrouted: %q", results[1].Unrouted)
	}
	results = probeRun(t, fileWith(t, fmt.Sprintf(text, ", prefix: a_", ", prefix: b_")))
	for _, clash := range results[1].Clashes {
		if strings.HasPrefix(clash, "tool ") {
			t.Errorf("with prefixes: %q", clash)
		}
	}
}

// A tool with a name that looks like that of another server's tool is named at both servers, with
// the advice to compare them.
func TestNamesThatLookAlikeAreProbed(t *testing.T) {
	a, b := sdkServer(t, true, "weigh_crate", "same"), sdkServer(t, true, "Weigh_crate_", "other")
	text := `federation: {enabled: true}
upstreams:
  - {name: a, url: "` + a.URL + `/mcp"}
  - {name: b, url: "` + b.URL + `/mcp"}`
	results := probeRun(t, fileWith(t, text))
	for i, want := range []string{"tool weigh_crate looks like Weigh_crate_ of b", "tool Weigh_crate_ looks like weigh_crate of a"} {
		if r := results[i]; !r.OK || !slices.Contains(r.Clashes, want) || !strings.Contains(r.Advice, "may imitate") {
			t.Errorf("want %q in %+v", want, r)
		}
	}
}

// What is left out although it is valid says by itself what to do; advice about definitions is for those that
// are not valid.
func TestWhatIsLeftOutAndValid(t *testing.T) {
	capabilities := &sdk.ServerCapabilities{}
	capabilities.AddExtension("com.example/x", map[string]any{})
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{Capabilities: capabilities})
	sdk.AddTool(server, &sdk.Tool{Name: "move", Meta: sdk.Meta{"ui": map[string]any{"resourceUri": "ui://x/page", "visibility": []string{"app"}}}},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{}, nil, nil
		})
	page := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(page.Close)
	r := probeRun(t, fileWith(t, `federation: {enabled: true}
upstreams:
  - {name: a, url: "`+page.URL+`"}
  - {name: b, url: "`+page.URL+`", prefix: b_}`))[0]
	want := []string{"extension com.example/x: the gateway does not declare it to clients, because it does not route its messages", "tool move: for apps alone; give the upstream a view of its own"}
	if !r.OK || !slices.Equal(r.LeftOut, want) || r.Advice != "" {
		t.Errorf("%q, advice %q", r.LeftOut, r.Advice)
	}
}

// Two servers whose names are the same in addresses are a problem if they have skills or pages of apps.
func TestNamesThatAreTheSameInAddresses(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	server.AddResource(&sdk.Resource{URI: "ui://x/page", Name: "page"}, nil)
	page := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(page.Close)
	plain := sdkServer(t, true, "one")
	results := probeRun(t, fileWith(t, `federation: {enabled: true}
upstreams:
  - {name: a_b, url: "`+page.URL+`"}
  - {name: A-B, url: "`+plain.URL+`/mcp", prefix: two_}
  - {name: other, url: "`+page.URL+`", prefix: other_}`))
	if r := results[0]; r.OK || !strings.Contains(r.Cause, "begin with a-b like those of A-B") || !strings.Contains(r.Advice, "another name") ||
		!slices.ContainsFunc(r.LeftOut, func(s string) bool { return strings.Contains(s, "stands for two upstreams") }) {
		t.Errorf("%+v", r)
	}
	for _, r := range results[1:] {
		if !r.OK {
			t.Errorf("%+v", r)
		}
	}
}

// Without federation clients see only the lists of default_upstream, and cannot use the prompts
// and resources of other servers.
func TestServersWhoseListsNobodySees(t *testing.T) {
	a, b := sdkServer(t, true, "one"), sdkServer(t, true, "two")
	servers := `upstreams: [{name: a, url: "` + a.URL + `/mcp"}, {name: b, url: "` + b.URL + `/mcp"}]
routes: [{match: {tool_name: one}, upstream: a}, {match: {tool_name: two}, upstream: b}]
`
	const tools, others = "clients do not see its tools", "clients cannot use its prompts, resources and skills"
	for _, tt := range []struct {
		name, keys  string
		first, next []string // advice
	}{
		{"a default", "default_upstream: a\n", nil, []string{tools, others}},
		{"no default", "", []string{tools, others}, []string{tools, others}},
		{"tools are searched", "default_upstream: a\ntool_search: {enabled: true, mode: synthesize}\n", nil, []string{others}},
		{"federation", "federation: {enabled: true}\n", nil, nil},
	} {
		for i, r := range probeRun(t, fileWith(t, servers+tt.keys))[:2] {
			want := [][]string{tt.first, tt.next}[i]
			for _, advice := range []string{tools, others} {
				if strings.Contains(r.Advice, advice) != slices.Contains(want, advice) {
					t.Errorf("%s, %s: %s", tt.name, r.Name, r.Advice)
				}
			}
		}
	}
}

// Nothing is written: a probe does not assign owners of names.
func TestAProbeChangesNothing(t *testing.T) {
	s := sdkServer(t, true, "search")
	f := fileWith(t, `federation: {enabled: true}
upstreams: [{name: a, url: "`+s.URL+`/mcp"}]`)
	probeRun(t, f)
	if entries, _ := os.ReadDir(filepath.Dir(f.Audit.Path)); len(entries) != 0 {
		t.Errorf("a probe left %v", entries)
	}
}

func answer(status int, header map[string]string, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// Each failure has a cause in words and advice.
func TestFailuresHaveACauseAndAdvice(t *testing.T) {
	plain := map[string]string{"Content-Type": "text/plain"}
	json := map[string]string{"Content-Type": "application/json"}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		keys    string // further keys of the upstream
		cause   []string
		advice  string
	}{
		{"unauthorized", answer(401, map[string]string{"WWW-Authenticate": `Bearer resource_metadata="https://a/x"`}, ""), "",
			[]string{"asks for a credential", "401", "WWW-Authenticate: Bearer"}, "OAuth"},
		{"wrong credential", answer(401, map[string]string{"WWW-Authenticate": "Bearer"}, ""), `, headers: {Authorization: "Bearer s3cret"}`,
			[]string{"does not accept the credential"}, "renew"},
		{"page", answer(200, map[string]string{"Content-Type": "text/html; charset=utf-8"}, "<!doctype html><title>Sign in</title>"), "",
			[]string{"web page", `"Sign in"`}, "/mcp"},
		{"page for a path", answer(404, map[string]string{"Content-Type": "text/html"}, "<html><title>No</title>"), "", []string{"no MCP endpoint at this path", `404, "No"`}, "url"},
		{"redirect", answer(302, map[string]string{"Location": "https://login.example/?token=s3cret"}, ""), "",
			[]string{"redirects to https://login.example", "302"}, "not followed"},
		{"misdirected", answer(421, plain, "Invalid Host header"), "", []string{"host name", "421"}, "allowed_hosts"},
		{"host of the TypeScript SDK", answer(403, json, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Invalid Host header: up"},"id":null}`), "",
			[]string{"host name", "Invalid Host header: up"}, "allowedHosts"},
		{"host of nginx and Django", answer(400, plain, "Bad Request: Invalid Host header"), "", []string{"host name", "400"}, "allowed_hosts"},
		{"TLS port of nginx", answer(400, map[string]string{"Content-Type": "text/html"}, "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title>"), "",
			[]string{"expects TLS"}, "https://"},
		{"forbidden", answer(403, plain, "no"), "", []string{"403", "no"}, "credential"},
		{"not found", answer(404, plain, "Cannot POST /"), "", []string{"no MCP endpoint at this path", "Cannot POST /"}, "/mcp"},
		{"method", answer(405, plain, ""), "", []string{"405"}, "path"},
		{"server error", answer(502, plain, "bad gateway"), "", []string{"502", "bad gateway"}, "log"},
		{"rate", answer(429, plain, ""), "", []string{"429"}, "later"},
		{"JSON of something else", answer(200, json, `{"hello":1}`), "", []string{"not as an MCP server"}, "Streamable HTTP"},
		{"bad request", answer(400, json, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Server not initialized"},"id":null}`), "", []string{"400", "Server not initialized"}, "log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.handler)
			defer s.Close()
			r := probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+s.URL+`"`+tt.keys+`}]`))[0]
			if r.OK {
				t.Fatalf("%+v", r)
			}
			for _, want := range tt.cause {
				if !strings.Contains(r.Cause, want) {
					t.Errorf("cause %q lacks %q", r.Cause, want)
				}
			}
			if !strings.Contains(r.Advice, tt.advice) {
				t.Errorf("advice %q lacks %q", r.Advice, tt.advice)
			}
			if strings.Contains(r.Cause+r.Advice, "s3cret") {
				t.Errorf("a secret is shown: %q %q", r.Cause, r.Advice)
			}
		})
	}
}

// The transport of 2024-11-05 of a server of the official SDK is recognized, and if the
// same server also has the new transport, the advice names it.
func TestTheOldTransportIsRecognized(t *testing.T) {
	old := oldServer(t)
	r := probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+old.URL+`"}]`))[0]
	if r.OK || !strings.Contains(r.Cause, "2024-11-05") || !strings.Contains(r.Advice, "bridge") {
		t.Errorf("%+v", r)
	}
	modern := sdkServer(t, false, "x")
	both := http.NewServeMux()
	both.Handle("/mcp", modern.Config.Handler)
	both.Handle("/sse", old.Config.Handler)
	s := httptest.NewServer(both)
	defer s.Close()
	r = probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+s.URL+`/sse"}]`))[0]
	if r.OK || !strings.Contains(r.Cause, "2024-11-05") || !strings.Contains(r.Advice, "path of url to /mcp") {
		t.Errorf("beside the new one: %+v", r)
	}
}

// For a wrong path of a server with an endpoint elsewhere, the advice names the right
// path.
func TestTheRightPathIsFound(t *testing.T) {
	s := sdkServer(t, true, "x")
	r := probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+s.URL+`/api/mcp/v1"}]`))[0]
	if r.OK || !strings.Contains(r.Cause, "404") || !strings.Contains(r.Advice, "path of url to /mcp") {
		t.Errorf("%+v", r)
	}
}

// Failures before a response.
func TestServersThatDoNotAnswer(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer slow.Close()
	defer close(hang)
	for _, tt := range []struct{ name, url, keys, cause, advice string }{
		{"refused", gone.URL, "", "connection refused", "start the server"},
		{"name", "http://no-such-host.invalid/mcp", "", "host", "resolve"},
		{"authority", secure.URL, "", "unknown authority", "tls.ca_file"},
		{"TLS without", strings.Replace(plain.URL, "http:", "https:", 1), "", "does not support TLS", "http://"},
		{"without TLS", strings.Replace(secure.URL, "https:", "http:", 1), "", "expects TLS", "https://"},
		{"time", slow.URL, ", timeout: 50ms", "no answer in time", "firewall"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+tt.url+`"`+tt.keys+`}]`))[0]
			if r.OK || !strings.Contains(r.Cause, tt.cause) || !strings.Contains(r.Advice, tt.advice) {
				t.Errorf("cause %q, advice %q", r.Cause, r.Advice)
			}
		})
	}
}

// The other servers of a file: guardrail, issuer, Redis and control plane.
func TestOtherServersAreAsked(t *testing.T) {
	bad := httptest.NewServer(answer(500, nil, ""))
	defer bad.Close()
	notKeys := httptest.NewServer(answer(200, map[string]string{"Content-Type": "text/html"}, "<html>"))
	defer notKeys.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	f := fileWith(t, `upstreams: [{name: a, url: "`+bad.URL+`"}]
guardrails: [{name: g, url: "`+bad.URL+`"}]
rate_limit_store: {type: redis, url: "redis://`+strings.TrimPrefix(gone.URL, "http://")+`"}
auth: {enabled: true, oauth: {enabled: true, issuer: "`+notKeys.URL+`", audience: x, jwks_url: "`+notKeys.URL+`"}}
control_plane: {url: "`+gone.URL+`", ingest_key: k}`)
	status := errors.New("401")
	results := Probe(t.Context(), f, ProbeOptions{Version: "1", Now: time.Now,
		ControlPlane: func(context.Context, string) error { return status },
		Status:       func(error) int { return 401 },
	})
	want := map[string]string{KindUpstream: "500", KindGuardrail: "500", KindIssuer: "key set", KindRedis: "refused", KindControlPlane: "does not accept the key"}
	for _, r := range results {
		if r.OK || !strings.Contains(r.Cause, want[r.Kind]) || r.Advice == "" {
			t.Errorf("%+v", r)
		}
		delete(want, r.Kind)
	}
	if len(want) > 0 || !Failed(results) {
		t.Errorf("not asked: %v", want)
	}
}

// Each control plane of a list is probed, and has a row of its own.
func TestEachControlPlaneIsProbed(t *testing.T) {
	up := httptest.NewServer(answer(500, nil, ""))
	defer up.Close()
	f := fileWith(t, `upstreams: [{name: a, url: "`+up.URL+`"}]
control_plane: {url: ["http://127.0.0.1:1", "http://127.0.0.1:2"], ingest_key: k}`)
	results := Probe(t.Context(), f, ProbeOptions{Version: "1", Now: time.Now,
		ControlPlane: func(_ context.Context, url string) error {
			if url == "http://127.0.0.1:2" {
				return errors.New("refused")
			}
			return nil
		},
	})
	for i, r := range results[1:] {
		if r.Kind != KindControlPlane || r.Name != f.ControlPlane.URL[i] || r.OK != (i == 0) {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if len(results) != 3 {
		t.Errorf("%d results", len(results))
	}
}

// A name that is bound to another key is a failure that says what to do.
func TestNameOfAnotherKeyIsNamed(t *testing.T) {
	f := fileWith(t, `upstreams: [{name: a, url: "http://127.0.0.1:1"}]
control_plane: {url: "http://127.0.0.1:2", ingest_key: k}`)
	results := Probe(t.Context(), f, ProbeOptions{Version: "1", Now: time.Now, ControlPlane: func(context.Context, string) error {
		return fmt.Errorf("%w: edge-1 to 00, and audit.checkpoint_key_file has 11", ErrNameBound)
	}})
	r := results[len(results)-1]
	if r.OK || !strings.Contains(r.Cause, "bound to another key: edge-1 to 00") || !strings.Contains(r.Advice, "svc audit heads accept") {
		t.Errorf("%+v", r)
	}
}

// A hostile server cannot make the result long, or write control characters to a
// terminal.
func TestTextsOfServersAreBounded(t *testing.T) {
	s := httptest.NewServer(answer(500, map[string]string{"Content-Type": "text/plain"}, "\x1b[31m"+strings.Repeat("x", 1<<20)))
	defer s.Close()
	r := probeRun(t, fileWith(t, `upstreams: [{name: a, url: "`+s.URL+`"}]`))[0]
	if len(r.Cause) > 400 || strings.Contains(r.Cause, "\x1b") {
		t.Errorf("%d bytes: %.80q", len(r.Cause), r.Cause)
	}
}

// A program is probed like the gateway uses it, and nothing remains afterwards.
func TestProgramsAreProbed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	private := filepath.Join(t.TempDir(), "known.json")
	if err := os.WriteFile(private, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := fileWith(t, `
state_dir: `+filepath.Dir(private)+`
upstreams:
  - {name: good, command: [sh, -c, 'while read -r line; do case $line in *initialize\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}";; *discover*) echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"?\"}}";; esac; done']}
  - {name: missing, command: [no-such-program]}
  - {name: fails, command: [sh, -c, "echo no variable NOTES_TOKEN >&2; exit 5"]}
  - {name: denied, command: [sh, -c, "cat $0", `+private+`]}
`)
	results := probeRun(t, f)
	if r := results[0]; !r.OK || r.Revision != "2025-06-18" {
		t.Errorf("%+v", r)
	}
	for i, want := range map[int]string{1: "not found in PATH", 2: "exit status 5: no variable NOTES_TOKEN"} {
		if r := results[i]; r.OK || !strings.Contains(r.Cause, want) || r.Advice == "" {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	if r := results[3]; stdio.Here().Landlock && (r.OK || !strings.Contains(r.Cause, "Permission denied") || !strings.Contains(r.Advice, "hides "+filepath.Dir(private))) {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// An upstream that accepts only the tokens of callers is reported as such, and is probed
// with the given token. The caller's own token does not reach it. Data that a program
// downloads at its start is present at the next probe, and the download has the
// start_timeout.
func TestProgramsKeepTheirFolder(t *testing.T) {
	f := fileWith(t, `
upstreams:
  - {name: loads, start_timeout: 20s, command: [sh, -c, 'echo x >>"$HOME/loaded"; while read -r line; do case $line in *initialize\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}";; *discover*) echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"?\"}}";; esac; done']}
  - {name: url, url: "http://127.0.0.1:1/mcp"}
`)
	homes := filepath.Join(t.TempDir(), "homes")
	for i := range 2 {
		results := Probe(t.Context(), f, ProbeOptions{Version: "1", Now: time.Now, Timeout: 5 * time.Second, Homes: homes})
		if !results[0].OK {
			t.Fatalf("%+v", results[0])
		}
		loaded, err := os.ReadFile(filepath.Join(homes, "loads", "loaded"))
		if err != nil || len(loaded) < 2*(i+1) {
			t.Errorf("%q, %v", loaded, err)
		}
	}
	if a, b := startTime(&f.Upstreams[0]), startTime(&f.Upstreams[1]); a != 20*time.Second || b != 0 {
		t.Error(a, b)
	}
}

// An upstream with id_jag is probed with an ID token of a caller; each failure names the party that
// caused it.
func TestAnUpstreamWithAGrantIsProbed(t *testing.T) {
	idp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, secret, _ := r.BasicAuth(); secret != "s" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
			return
		}
		fmt.Fprint(w, `{"access_token":"g","token_type":"N_A","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag"}`)
	}))
	defer idp.Close()
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"for-%s","token_type":"Bearer"}`, r.PostFormValue("assertion"))
	}))
	defer login.Close()
	up := serverFor(t, "Bearer for-g")
	token := func(audience string) string {
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(`{"aud":"`+audience+`"}`)) + ".c2ln"
	}
	for _, tt := range []struct{ name, secret, token, cause, advice string }{
		{"without a token", "s", "", "the token of a caller", "--token-env"},
		{"with an access token", "s", token("https://gateway"), "is not an ID token for the client_id in id_jag.idp", "ID token"},
		{"with an ID token", "s", token("gw"), "", ""},
		{"with a wrong secret", "wrong", token("gw"), "the identity provider (id_jag.idp): the token endpoint answered with status 401 and the error invalid_client", "credentials of this upstream"},
	} {
		f := fileWith(t, fmt.Sprintf(`
auth:
  enabled: true
  oauth: {enabled: true, issuer: https://login.example, audience: gw, jwks_url: %[2]s/keys}
upstreams:
  - name: mail
    url: %[1]s/mcp
    credentials: {id_jag: {idp: {token_url: %[2]s, client_id: gw, client_secret: %[4]s}, token_url: %[3]s, client_id: gw2, client_secret: s, audience: a, resource: "https://r"}}
default_upstream: mail
`, up.URL, idp.URL, login.URL, tt.secret))
		r := Probe(t.Context(), f, ProbeOptions{Version: "1", Now: time.Now, Timeout: 5 * time.Second, CallerToken: tt.token})[0]
		if r.OK != (tt.cause == "") || !strings.Contains(r.Cause, tt.cause) || !strings.Contains(r.Advice, tt.advice) || tt.token != "" && strings.Contains(fmt.Sprint(r), tt.token) {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

func TestUpstreamsOfCallersNeedAToken(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"for-%s","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":60}`, r.PostFormValue("subject_token"))
	}))
	defer login.Close()
	up := serverFor(t, "Bearer for-anna")
	f := fileWith(t, fmt.Sprintf(`
auth:
  enabled: true
  oauth: {enabled: true, issuer: https://login.example, audience: a, jwks_url: %[2]s/keys}
upstreams:
  - name: mail
    url: %[1]s/mcp
    credentials: {token_exchange: {token_url: %[2]s, client_id: gw, client_secret: s}}
default_upstream: mail
`, up.URL, login.URL))
	o := ProbeOptions{Version: "1", Now: time.Now, Timeout: 5 * time.Second}
	r := Probe(t.Context(), f, o)[0]
	if r.OK || !strings.Contains(r.Cause, "exchanged for the token of a caller") || !strings.Contains(r.Advice, "--token-env") {
		t.Errorf("without a token: %+v", r)
	}
	o.CallerToken = "anna"
	if r := Probe(t.Context(), f, o)[0]; !r.OK || r.Tools != 1 {
		t.Errorf("with a token: %+v", r)
	}
	o.CallerToken = "bert"
	if r := Probe(t.Context(), f, o)[0]; r.OK || strings.Contains(fmt.Sprint(r), "bert") {
		t.Errorf("with a token that the upstream does not take: %+v", r)
	}
}

// serverFor is a server that answers callers with one Authorization only.
func serverFor(t *testing.T, authorization string) *httptest.Server {
	t.Helper()
	server := sdkServer(t, true, "read")
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != authorization {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(up.Close)
	return up
}
