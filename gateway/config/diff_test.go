package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEveryFieldIsClassified fails when a field of the file has no row in the table of effects,
// and when a row has no field.
func TestEveryFieldIsClassified(t *testing.T) {
	rows := make(map[string]Effect)
	for _, e := range effects {
		if rows[e.path] != 0 {
			t.Errorf("%s has two rows", e.path)
		}
		rows[e.path] = e.effect
	}
	var walk func(prefix string, ty reflect.Type)
	walk = func(prefix string, ty reflect.Type) {
		if ty.Kind() == reflect.Pointer {
			ty = ty.Elem()
		}
		for _, f := range fieldsOf(ty) {
			path := strings.TrimPrefix(prefix+"."+f.name, ".")
			effect, ok := rows[path]
			if !ok {
				t.Errorf("%s has no row in the table of effects", path)
			}
			delete(rows, path)
			if effect == Partial {
				walk(path, ty.FieldByIndex(f.index).Type)
			}
		}
	}
	walk("", reflect.TypeFor[File]())
	for path := range rows {
		t.Errorf("%s has a row and no field, or is below a row that applies to it", path)
	}
}

// TestHotReloadColumn compares the table with the specification's column.
func TestHotReloadColumn(t *testing.T) {
	for path, want := range map[string]string{
		"listen": "no", "tls": "partial", "input_rate_limit": "yes", "trusted_proxies": "no", "license": "no",
		"default_upstream": "no", "upstreams": "no", "routes": "no", "auth": "partial", "identity": "yes",
		"policy": "yes", "telemetry": "partial", "audit": "yes", "tool_search": "no", "rate_limit_store": "no",
		"guardrails": "yes", "allowed_protocol_versions": "no", "task_affinity": "no", "subscriptions": "no",
		"auth.enabled": "yes", "auth.header": "no", "auth.scheme": "no", "auth.keys": "yes",
		"auth.oauth.enabled": "yes", "auth.oauth.issuer": "no", "auth.oauth.audience": "no", "auth.oauth.jwks_url": "no",
		"auth.oauth.required_scopes": "yes", "auth.oauth.jwks_cache_ttl": "yes", "auth.oauth.leeway": "yes",
		"auth.oauth.metadata_path": "no", "auth.oauth.public_url": "no", "auth.oauth.cimd": "yes",
	} {
		i := slices.IndexFunc(effects, func(e struct {
			path   string
			effect Effect
		}) bool {
			return e.path == path
		})
		if i < 0 || effects[i].effect.String() != want {
			t.Errorf("%s: hot-reload is not %s", path, want)
		}
	}
}

// TestApply changes one field at a time and reloads.
func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, key, text string
		pending         []string
	}{
		{"nothing", "x", "", nil},
		{"listen", "listen", "listen: 127.0.0.1:9", []string{"listen"}},
		{"switching TLS on", "tls", "tls: {cert_file: a, key_file: b}", []string{"tls"}},
		{"input_rate_limit", "x", "input_rate_limit: {enabled: true, requests_per_second: 1, burst: 1}", nil},
		{"trusted_proxies", "x", "trusted_proxies: [10.0.0.0/8]", []string{"trusted_proxies"}},
		{"client_address_header", "x", "trusted_proxies: [10.0.0.0/8]\nclient_address_header: forwarded", []string{"trusted_proxies", "client_address_header"}},
		{"license", "license", "license: {path: /other}", []string{"license"}},
		{"default_upstream", "x", "default_upstream: tools", []string{"default_upstream"}},
		{"upstreams", "upstreams", "upstreams: [{name: tools, url: 'http://127.0.0.1:1/'}]", []string{"upstreams"}},
		{"routes", "x", "routes: [{match: {tool_name: a}, upstream: tools}]", []string{"routes"}},
		{"empty routes are no change", "x", "routes: []", nil},
		{"auth.header and scheme", "x", "auth: {header: X-Key, scheme: ''}", []string{"auth.header", "auth.scheme"}},
		{"identity", "x", "identity: {principal_claim: email}", nil},
		{"policy", "policy", "policy: {default_action: deny}", nil},
		{"telemetry sub-keys", "x", "telemetry: {customer: {endpoint: 'http://h', sample_ratio: 0.5}}", []string{"telemetry.customer.endpoint"}},
		{"audit", "audit", "audit: {fsync: always}", nil},
		{"tool_search", "x", "tool_search: {max_results: 3}", []string{"tool_search"}},
		{"rate_limit_store", "x", "rate_limit_store: {fail_open: true}", []string{"rate_limit_store"}},
		{"allowed_protocol_versions", "x", "allowed_protocol_versions: [2025-06-18]", []string{"allowed_protocol_versions"}},
		{"shutdown", "x", "shutdown: {grace: 1s}", nil},
		{"control_plane", "x", "control_plane: {environment: dev}", []string{"control_plane"}},
		{"state_dir", "x", "state_dir: /s", []string{"state_dir"}},
		{"sessions", "x", "sessions: {key_file: /k}", []string{"sessions"}},
		{"two at once, in the order of the specification", "x", "state_dir: /s\ntrusted_proxies: [10.0.0.0/8]", []string{"trusted_proxies", "state_dir"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			running := mustParse(t, with(nil))
			next := mustParse(t, with(map[string]string{c.key: c.text}))
			merged, pending := Apply(running, next)
			if !slices.Equal(pending, c.pending) {
				t.Errorf("restart_pending = %q, want %q", pending, c.pending)
			}
			if again := Diff(running, merged); again != nil {
				t.Errorf("what is in force still differs from what runs: %q", again)
			}
			if c.pending == nil && !reflect.DeepEqual(merged, next) {
				t.Error("hot fields were not taken over")
			}
			if back := Diff(next, running); !slices.Equal(back, c.pending) {
				t.Errorf("the way back has %q pending", back)
			}
			if unchanged := mustParse(t, with(nil)); !reflect.DeepEqual(running, unchanged) {
				t.Error("the running configuration was changed")
			}
		})
	}
}

// TestApplyMixesHotAndRestart reloads a file in which both kinds of fields change.
func TestApplyMixesHotAndRestart(t *testing.T) {
	running := mustParse(t, with(nil))
	next := mustParse(t, with(map[string]string{
		"listen": "listen: 127.0.0.1:9", "s": "shutdown: {grace: 1s}", "a": "auth: {header: X-Key}",
		"tls": "tls: {cert_file: a, key_file: b}",
	}))
	merged, _ := Apply(running, next)
	if merged.Listen != running.Listen || merged.Auth.Header != "Authorization" || merged.TLS != nil {
		t.Errorf("fields that need a restart changed: %+v", merged)
	}
	if merged.Shutdown.Grace != time.Second {
		t.Errorf("a hot field did not change: %+v", merged.Shutdown)
	}
	if next.Listen != "127.0.0.1:9" || next.TLS == nil {
		t.Error("Apply changed its argument")
	}
}

// TestTLSFilesReload changes the files of a TLS section that stays.
func TestTLSFilesReload(t *testing.T) {
	running := mustParse(t, with(map[string]string{"tls": "tls: {cert_file: a, key_file: b}"}))
	next := mustParse(t, with(map[string]string{"tls": "tls: {cert_file: c, key_file: d, client_ca: e}"}))
	merged, pending := Apply(running, next)
	if pending != nil || merged.TLS.CertFile != "c" || merged.TLS.ClientCA != "e" {
		t.Errorf("pending %q, tls %+v", pending, merged.TLS)
	}
}

// TestSwitchingTLSOffNeedsARestart keeps the running certificate.
func TestSwitchingTLSOffNeedsARestart(t *testing.T) {
	running := mustParse(t, with(map[string]string{"tls": "tls: {cert_file: a, key_file: b}"}))
	merged, pending := Apply(running, mustParse(t, with(nil)))
	if !slices.Equal(pending, []string{"tls"}) || merged.TLS == nil {
		t.Errorf("pending %q, tls %+v", pending, merged.TLS)
	}
}
