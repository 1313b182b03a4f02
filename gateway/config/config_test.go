package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/base/diag"
	"svc/gateway/base/retry"
	"svc/gateway/policy"
	"svc/gateway/policy/guardrail"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata, or rewrites it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s is stale; rewrite it with -update after checking: %s", path, d)
	}
}

func environment(name string) (string, bool) {
	v, ok := map[string]string{
		"CREDENTIALS_DIRECTORY": "/run/credentials/svc",
		"SEARCH_TOKEN":          "search-token",
		"INGEST_KEY":            "svc_ingest_abc",
	}[name]
	return v, ok
}

// mustParse parses a file that has no errors and no warnings.
func mustParse(t *testing.T, text string) *File {
	t.Helper()
	f, found := Parse("svc.yaml", []byte(text), environment)
	if len(found) > 0 {
		t.Fatalf("findings: %v", found)
	}
	return f
}

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryTopLevelKey(t *testing.T) {
	text := readTestdata(t, "full.yaml")
	f := mustParse(t, text)
	for _, key := range fieldsOf(reflect.TypeFor[File]()) {
		if !strings.Contains("\n"+text, "\n"+key.name+":") {
			t.Errorf("testdata/full.yaml does not show %s", key.name)
		}
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"listen", f.Listen, "127.0.0.1:8081"},
		{"tls", *f.TLS, TLS{"/etc/svc/tls/server.crt", "/etc/svc/tls/server.key", "/etc/svc/tls/clients.pem"}},
		{"input_rate_limit", f.InputRateLimit, InputRateLimit{true, 12.5, 40}},
		{"trusted_proxies", f.TrustedProxies, []string{"10.0.0.0/8", "fd00::/8"}},
		{"license.path", f.License.Path, "/run/credentials/svc/license.jwt"},
		{"license.public_key_file", f.License.PublicKeyFile, "/etc/svc/license.pub"},
		{"default_upstream", f.DefaultUpstream, "search"},
		{"upstreams", len(f.Upstreams), 7},
		{"upstreams[0].headers", f.Upstreams[0].Headers, map[string]string{"Authorization": "Bearer search-token"}},
		{"upstreams[0].timeout", f.Upstreams[0].Timeout, 20 * time.Second},
		{"upstreams[1].timeout, the default", f.Upstreams[1].Timeout, time.Minute},
		{"routes", len(f.Routes), 5},
		{"auth.header", f.Auth.Header, "X-Api-Key"},
		{"auth.scheme, empty reads the raw value", f.Auth.Scheme, ""},
		{"auth.keys[0].created_at", f.Auth.Keys[0].CreatedAt, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"auth.oauth.cimd.max_body_bytes", f.Auth.OAuth.CIMD.MaxBodyBytes, int64(4096)},
		{"identity", f.Identity, Identity{"email", "roles"}},
		{"policy.rules", len(f.Policy.Rules), 9},
		{"policy.rules[].approval", *f.Policy.Rules[5].Approval, policy.ApprovalConfig{
			ValidFor: 30 * time.Minute, Expires: 8 * time.Hour, NotSelf: "strict", Show: "all", Note: "Check the ticket."}},
		{"policy replacement templates are not environment variables", f.Policy.Rules[1].Redact[0].Replacement, "AKIA${1}…"},
		{"telemetry.customer", f.Telemetry.Customer, Pipeline{
			Endpoint: "http://127.0.0.1:4318", Headers: map[string]string{"X-Key": "search-token"}, ServiceName: "agents",
			ResourceAttrs: map[string]string{"team": "payments", "service.version": "1.0"}, SampleRatio: 0.25, Compression: "gzip"}},
		{"telemetry.operator", f.Telemetry.Operator, Pipeline{Endpoint: "https://otlp.example", ServiceName: "svc-gateway", SampleRatio: 1, Compression: "none"}},
		{"audit.path", f.Audit.Path, "/var/log/svc/audit.jsonl"},
		{"tool_search", f.ToolSearch, ToolSearch{true, "passthrough", 30 * time.Second, 5, nil}},
		{"guardrails", len(f.Guardrails), 0},
		{"allowed_protocol_versions, unquoted dates", f.AllowedProtocolVersions, []string{"2025-06-18", "2026-07-28"}},
		{"task_affinity", f.TaskAffinity, TaskAffinity{16384, 24 * time.Hour}},
		{"subscriptions", f.Subscriptions, Subscriptions{1000000, 5 * time.Minute}},
		{"shutdown", f.Shutdown, Shutdown{20 * time.Second, 5 * time.Second}},
		{"limits", f.Limits, Limits{256 << 20, 100}},
		{"control_plane.ingest_key", f.ControlPlane.IngestKey, "svc_ingest_abc"},
		{"allowed_origins", f.AllowedOrigins, []string{"https://app.example"}},
		{"allowed_hosts", f.AllowedHosts, []string{"gateway.example", "127.0.0.1"}},
		{"state_dir", f.StateDirectory(), "/var/lib/svc"},
		{"children_dir", f.ChildrenDir, "/var/lib/svc-children"},
		{"sessions.key_file", f.Sessions.KeyFile, "/etc/svc/session.key"},
		{"forward_headers", f.ForwardHeaders, []string{"X-Request-Id", "Accept-Language"}},
		{"sse_keepalive", f.SSEKeepalive, 30 * time.Second},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestDefaults(t *testing.T) {
	f := mustParse(t, readTestdata(t, "minimal.yaml"))
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"tls absent", f.TLS == nil, true},
		{"input_rate_limit disabled", f.InputRateLimit, InputRateLimit{}},
		{"trusted_proxies empty", len(f.TrustedProxies), 0},
		{"default_upstream empty", f.DefaultUpstream, ""},
		{"routes empty", len(f.Routes), 0},
		{"auth.enabled false", f.Auth.Enabled, false},
		{"auth.header", f.Auth.Header, "Authorization"},
		{"auth.scheme", f.Auth.Scheme, "Bearer"},
		{"auth.oauth.enabled false", f.Auth.OAuth.Enabled, false},
		{"auth.oauth.jwks_cache_ttl", f.Auth.OAuth.JWKSCacheTTL, 5 * time.Minute},
		{"auth.oauth.leeway", f.Auth.OAuth.Leeway, 30 * time.Second},
		{"auth.oauth.metadata_path", f.Auth.OAuth.MetadataPath, "/.well-known/oauth-protected-resource"},
		{"auth.oauth.cimd.timeout", f.Auth.OAuth.CIMD.Timeout, 5 * time.Second},
		{"auth.oauth.cimd.max_body_bytes", f.Auth.OAuth.CIMD.MaxBodyBytes, int64(65536)},
		{"auth.oauth.cimd.cache_ttl", f.Auth.OAuth.CIMD.CacheTTL, time.Hour},
		{"identity.principal_claim", f.Identity.PrincipalClaim, "sub"},
		{"identity.groups_claim", f.Identity.GroupsClaim, "groups"},
		{"policy.default_action omitted", f.Policy.DefaultAction == nil, true},
		{"telemetry off", f.Telemetry.Customer.Enabled || f.Telemetry.Operator.Enabled, false},
		{"audit.path", f.Audit.Path, "audit.jsonl"},
		{"audit.chain", f.Audit.Chain, true},
		{"tool_search", f.ToolSearch, ToolSearch{false, "passthrough", time.Minute, 20, nil}},
		{"rate_limit_store.type", f.RateLimitStore.Type, "in_memory"},
		{"rate_limit_store.key_prefix", f.RateLimitStore.KeyPrefix, "mcpgw:rl:"},
		{"rate_limit_store.operation_timeout", f.RateLimitStore.OperationTimeout, 50 * time.Millisecond},
		{"rate_limit_store.fail_open", f.RateLimitStore.FailOpen, false},
		{"guardrails empty", len(f.Guardrails), 0},
		{"allowed_protocol_versions all", len(f.AllowedProtocolVersions), 0},
		{"task_affinity", f.TaskAffinity, TaskAffinity{16384, 24 * time.Hour}},
		{"subscriptions", f.Subscriptions, Subscriptions{1_000_000, 5 * time.Minute}},
		{"shutdown.grace", f.Shutdown.Grace, 30 * time.Second},
		{"limits", f.Limits, Limits{512 << 20, 4096}},
		{"shutdown.drain_signal_window", f.Shutdown.DrainSignalWindow, time.Duration(0)},
		{"state_dir beside the audit file", f.StateDirectory(), "audit.jsonl.state"},
		{"sse_keepalive", f.SSEKeepalive, 15 * time.Second},
		{"control_plane.url", len(f.ControlPlane.URL), 0},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestGuardrailDefaults(t *testing.T) {
	want := guardrail.Config{Timeout: time.Second, MaxBodyBytes: 1048576,
		Breaker: retry.Config{FailureThreshold: 5, OpenDuration: 5 * time.Second}}
	if d := cmp.Diff(want, withDefaults[guardrail.Config]()); d != "" {
		t.Error(d)
	}
}

// TestManyMistakes shows the findings of a file in which nearly everything is wrong.
func TestManyMistakes(t *testing.T) {
	f, found := Parse("svc.yaml", []byte(readTestdata(t, "mistakes.yaml")), environment)
	if f != nil {
		t.Error("a file with errors was returned")
	}
	var text, object strings.Builder
	if err := diag.WriteText(&text, found); err != nil {
		t.Fatal(err)
	}
	if err := diag.WriteJSON(&object, found); err != nil {
		t.Fatal(err)
	}
	golden(t, "mistakes.golden", text.String())
	golden(t, "mistakes.json.golden", object.String())
	for _, secret := range []string{"hunter2", "sk-very-secret", "do_not_show", "aGFzaA"} {
		if strings.Contains(text.String(), secret) || strings.Contains(object.String(), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
}

func TestFindingsAreSortedAndComplete(t *testing.T) {
	_, found := Parse("svc.yaml", []byte(readTestdata(t, "mistakes.yaml")), environment)
	for i, f := range found {
		if f.Code == "" || f.Message == "" || f.Pos.File != "svc.yaml" {
			t.Errorf("incomplete finding: %+v", f)
		}
		if f.Pos.Line == 0 || f.Pos.Column == 0 || f.Excerpt == "" || f.Caret == 0 {
			t.Errorf("finding without a position: %+v", f)
		}
		if i > 0 && (found[i-1].Pos.Line > f.Pos.Line) {
			t.Errorf("not sorted: %v before %v", found[i-1].Pos, f.Pos)
		}
	}
}

func TestLoadReadsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.yaml")
	if err := os.WriteFile(path, []byte(readTestdata(t, "minimal.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, found := Load(path, environment)
	if f == nil || len(found) > 0 {
		t.Fatalf("Load() = %v, %v", f, found)
	}
}

func TestLoadSaysWhyAFileCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, 10<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, code, message string }{
		{"missing", filepath.Join(dir, "none.yaml"), "unreadable", "no such file"},
		{"directory", dir, "unreadable", "is a directory"},
		{"10 MiB", large, "too-large", "larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, found := Load(c.path, environment)
			if f != nil || len(found) != 1 {
				t.Fatalf("Load() = %v, %v", f, found)
			}
			if found[0].Code != c.code || !strings.Contains(found[0].Message, c.message) || found[0].Pos.File != c.path {
				t.Errorf("finding %+v", found[0])
			}
		})
	}
}

// allWrong has ${S} in every expanded field, where most values are wrong.
const allWrong = `
listen: ${S}
tls: {cert_file: "${S}", client_ca: "${S}"}
trusted_proxies: ["${S}"]
license: {path: "${S}", public_key_file: "${S}"}
upstreams:
  - {name: a, url: "${S}", headers: {X-A: "${S}", Host: "${S}"}}
auth: {keys: [{id: a, hash: "${S}"}]}
policy: {}
audit: {sinks: [{type: http, url: "${S}", headers: {X: "${S}"}}]}
telemetry: {customer: {enabled: true, endpoint: "${S}", headers: {X: "${S}"}}, metrics: {listen: "${S}"}}
rate_limit_store: {type: redis, url: "${S}"}
guardrails: [{name: a, url: "${S}", headers: {X: "${S}"}}]
control_plane: {url: "${S}", ingest_key: "${S}"}
allowed_origins: ["${S}"]
allowed_hosts: ["${S}"]
`

// TestSecretsFromTheEnvironmentAreInNoFinding puts a secret into every expanded field of a file
// whose values are all wrong.
func TestSecretsFromTheEnvironmentAreInNoFinding(t *testing.T) {
	const secret = "s3cr\"et\nvalue"
	for _, value := range []string{secret, "42 "} {
		_, found := Parse("svc.yaml", []byte(allWrong), func(string) (string, bool) { return value, true })
		if len(found) < 10 {
			t.Errorf("only %d findings: %v", len(found), found)
		}
		for _, f := range found {
			for _, shown := range []string{f.Message, f.Hint, f.Excerpt} {
				if strings.Contains(shown, "s3cr") || strings.Contains(shown, value) {
					t.Errorf("%s shows the value: %q", f.Path, shown)
				}
			}
		}
	}
}

// A list that may be written as its only element is decoded from either form, and the empty text
// is the empty list.
func TestTheControlPlanesURLIsOneOrAList(t *testing.T) {
	env := func(name string) (string, bool) { return map[string]string{"B": "http://127.0.0.1:2"}[name], true }
	for text, want := range map[string][]string{
		`"http://127.0.0.1:1"`:           {"http://127.0.0.1:1"},
		`"${B}"`:                         {"http://127.0.0.1:2"},
		`["http://127.0.0.1:1"]`:         {"http://127.0.0.1:1"},
		`["http://127.0.0.1:1", "${B}"]`: {"http://127.0.0.1:1", "http://127.0.0.1:2"},
		`""`:                             nil,
		`[]`:                             nil,
	} {
		f, found := Parse("svc.yaml", []byte(readTestdata(t, "minimal.yaml")+"control_plane: {url: "+text+", traces: {enabled: false}}"), env)
		if f == nil || !slices.Equal([]string(f.ControlPlane.URL), want) {
			t.Errorf("%s: %v", text, found)
		}
	}
	if f, _ := Parse("svc.yaml", []byte(readTestdata(t, "minimal.yaml")+"control_plane: {url: {a: b}}"), env); f != nil {
		t.Error("a mapping is accepted")
	}
}

func TestSecretsInTheFileAreInNoExcerpt(t *testing.T) {
	for _, c := range []struct{ name, line string }{
		{"ingest key with a syntax error", "control_plane: {ingest_key: sekret: x"},
		{"header with a syntax error", "  Authorization: Bearer sekret: x"},
		{"misspelt section", "control_plan: {ingest_key: sekret}"},
		{"misspelt key", "controll_plane: sekret"},
		{"URL with a password", "listen: http://user:sekret@host"},
		{"URL with a password before the mistake", "listen: [http://user:sekret@host, *a]"},
		{"flow headers", "upstreams: [{name: a, headers: {X-A: sekret}, url: 5}]"},
		{"hash", "auth: {keys: [{id: 5, hash: sekret}]}"},
		{"secret after the mistake", "telemetry: {customer: {enabled: 5, headers: {X: sekret}}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, found := Parse("svc.yaml", []byte(c.line), environment)
			if len(found) == 0 {
				t.Fatal("nothing found")
			}
			for _, f := range found {
				if strings.Contains(f.Excerpt, "sekret") || strings.Contains(f.Message, "sekret") {
					t.Errorf("%s shows the secret: %q %q", f.Code, f.Message, f.Excerpt)
				}
			}
		})
	}
}

func TestLongLinesAreCutAroundTheCaret(t *testing.T) {
	line := "listen: " + strings.Repeat("ä", 300) + " # end"
	_, found := Parse("svc.yaml", []byte(line), nil)
	for _, f := range found {
		if n := len([]rune(f.Excerpt)); n > 122 {
			t.Errorf("excerpt of %d characters", n)
		}
	}
	s, caret := window([]rune(strings.Repeat("a", 500)+"X"+strings.Repeat("b", 500)), 501)
	for _, n := range []int{0, 1, 39, 40, 41, 79, 80, 119, 120, 121, 2047, 2048, 2049, 5000} {
		for _, m := range []int{0, 1, 79, 80, 120, 3000} {
			got, at := window([]rune(strings.Repeat("a", n)+"X"+strings.Repeat("b", m)), n+1)
			if r := []rune(got); at < 1 || at > len(r) || r[at-1] != 'X' || len(r) > 122 {
				t.Errorf("%d before, %d after: %q, caret %d", n, m, got, at)
			}
		}
	}
	if []rune(s)[caret-1] != 'X' || !strings.HasPrefix(s, "…") || !strings.HasSuffix(s, "…") {
		t.Errorf("window = %q, caret %d", s, caret)
	}
}

// TestPolicyNeverExpands checks that no field of the policy section, nor of the routes, is marked
// for expansion.
func TestPolicyNeverExpands(t *testing.T) {
	var walk func(path string, ty reflect.Type)
	walk = func(path string, ty reflect.Type) {
		for ty.Kind() == reflect.Pointer || ty.Kind() == reflect.Slice || ty.Kind() == reflect.Map {
			ty = ty.Elem()
		}
		if !isStruct(ty) {
			return
		}
		for _, f := range fieldsOf(ty) {
			if f.env {
				t.Errorf("%s.%s is expanded", path, f.name)
			}
			walk(path+"."+f.name, ty.FieldByIndex(f.index).Type)
		}
	}
	ty := reflect.TypeFor[File]()
	for _, name := range []string{"policy", "routes"} {
		f, _ := find(fieldsOf(ty), name)
		walk(name, ty.FieldByIndex(f.index).Type)
	}
}

// TestEveryFieldCanBeRead fails when a section declares a field that the file cannot set, or of a
// type that the loader does not support.
func TestEveryFieldCanBeRead(t *testing.T) {
	var walk func(path string, ty reflect.Type)
	walk = func(path string, ty reflect.Type) {
		switch {
		case ty == durationType, ty == timeType, isJSON(ty), reflect.PointerTo(ty).Implements(textType):
			return
		}
		switch ty.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(path, ty.Elem())
		case reflect.Map:
			if ty.Key().Kind() != reflect.String {
				t.Errorf("%s: keys of type %s", path, ty.Key())
			}
			walk(path, ty.Elem())
		case reflect.Struct:
			for i := range ty.NumField() {
				if sf := ty.Field(i); sf.IsExported() && sf.Tag.Get("yaml") == "" {
					t.Errorf("%s.%s has no yaml tag", path, sf.Name)
				}
			}
			for _, f := range fieldsOf(ty) {
				if f.name != strings.ToLower(f.name) {
					t.Errorf("%s.%s is not in snake case", path, f.name)
				}
				walk(path+"."+f.name, ty.FieldByIndex(f.index).Type)
			}
		case reflect.String, reflect.Bool, reflect.Float64, reflect.Interface,
			reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		default:
			t.Errorf("%s: type %s is not read", path, ty)
		}
	}
	walk("file", reflect.TypeFor[File]())
}
