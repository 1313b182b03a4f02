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
	rows := make(map[string]reloadEffect)
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
			if effect == effectPartial {
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
		"data_flow": "partial", "data_flow.scope": "no", "data_flow.window": "yes", "data_flow.labels": "yes",
	} {
		i := slices.IndexFunc(effects, func(e struct {
			path   string
			effect reloadEffect
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
		{"audit.path moves the default of state_dir", "audit", "audit: {path: /other/audit.jsonl}", []string{"state_dir"}},
		{"audit.path with the same state_dir", "audit", "audit: {path: /other/audit.jsonl}\nstate_dir: audit.jsonl.state", nil},
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
			if again := pendingOf(running, merged); again != nil {
				t.Errorf("what is in force still differs from what runs: %q", again)
			}
			if c.pending == nil && !reflect.DeepEqual(merged, next) {
				t.Error("hot fields were not taken over")
			}
			if back := pendingOf(next, running); !slices.Equal(back, c.pending) {
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

// Fields that take effect and fields that wait for a restart refer to each other in two valid
// files. The rest of the file takes effect, and nothing is permitted that one of the files denies.
func TestApplyCouples(t *testing.T) {
	const issuer = "issuer: 'https://i.example', audience: a, jwks_url: 'https://i.example/k'"
	const key = "keys: [{id: ci, hash: '$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g'}]"
	other := "upstreams: [{name: stock, url: 'http://127.0.0.1:1/'}]"
	deny := "policy: {default_action: allow, rules: [{id: new, action: deny, when: {tool_name: danger}}]}"
	named := func(upstream, action string) string {
		return "policy: {default_action: allow, rules: [{id: new, " + action + ", when: {upstream: [" + upstream + "]}}]}"
	}
	exchange := "upstreams: [{name: tools, url: 'https://t.example/', credentials: {token_exchange: {token_url: 'https://i.example/t', client_id: c, client_secret: s, audience: t}}}]"
	grant := "upstreams: [{name: tools, url: 'https://t.example/', credentials: {id_jag: {idp: {token_url: 'https://i.example/t', client_id: c, client_secret: s}, token_url: 'https://s.example/t', client_id: d, client_secret: s, audience: 'https://s.example', resource: 'https://t.example/'}}}]"
	ids := func(f *File) (list []string) {
		for i := range f.Policy.Rules {
			r := &f.Policy.Rules[i]
			list = append(list, r.ID+" "+r.Action+" "+strings.Join(r.When.Upstream, ","))
		}
		return list
	}
	for _, c := range []struct {
		name          string
		running, next map[string]string
		pending       []string
		waiting       []string // code and path
		rules         []string
		holds         func(f *File) bool
	}{
		{"OAuth is added", map[string]string{"a": "auth: {enabled: true, " + key + "}"},
			map[string]string{"a": "auth: {enabled: true, " + key + ", oauth: {enabled: true, " + issuer + "}}", "policy": deny},
			[]string{"auth.oauth.issuer", "auth.oauth.audience", "auth.oauth.jwks_url", "auth.oauth.enabled"}, nil, []string{"new deny "},
			func(f *File) bool { return f.Auth.Enabled && !f.Auth.OAuth.Enabled && len(f.Auth.Keys) == 1 }},
		{"OAuth is switched on with another issuer than the one that waits", map[string]string{"a": "auth: {enabled: true, " + key + ", oauth: {" + issuer + "}}"},
			map[string]string{"a": "auth: {enabled: true, " + key + ", oauth: {enabled: true, " + strings.Replace(issuer, "https://i.", "https://other.", 1) + "}}"},
			[]string{"auth.oauth.issuer", "auth.oauth.enabled"}, nil, nil,
			func(f *File) bool { return !f.Auth.OAuth.Enabled }},
		{"OAuth is switched on as it was", map[string]string{"a": "auth: {enabled: true, " + key + ", oauth: {" + issuer + "}}"},
			map[string]string{"a": "auth: {enabled: true, " + key + ", oauth: {enabled: true, " + issuer + "}}"}, nil, nil, nil,
			func(f *File) bool { return f.Auth.OAuth.Enabled }},
		{"authentication is switched on with OAuth alone", nil, map[string]string{"a": "auth: {enabled: true, oauth: {enabled: true, " + issuer + "}}", "policy": deny},
			[]string{"auth.oauth.issuer", "auth.oauth.audience", "auth.oauth.jwks_url", "auth.oauth.enabled"}, []string{"auth-keys-empty auth.keys"}, []string{"new deny "},
			func(f *File) bool { return f.Auth.Enabled && !f.Auth.OAuth.Enabled }},
		{"OAuth is removed, and an upstream that needs it with it", map[string]string{"a": "auth: {enabled: true, " + key + ", oauth: {enabled: true, " + issuer + "}}", "upstreams": exchange},
			map[string]string{"a": "auth: {enabled: true, " + key + "}", "policy": deny},
			[]string{"upstreams", "auth.oauth.issuer", "auth.oauth.audience", "auth.oauth.jwks_url"},
			[]string{"needs-oauth upstreams[0].credentials.token_exchange"}, []string{"new deny "},
			func(f *File) bool { return !f.Auth.OAuth.Enabled }},
		{"OAuth is removed, and an upstream with a grant needs it", map[string]string{"a": "auth: {enabled: true, " + key + ", oauth: {enabled: true, " + issuer + "}}", "upstreams": grant},
			map[string]string{"a": "auth: {enabled: true, " + key + "}"},
			[]string{"upstreams", "auth.oauth.issuer", "auth.oauth.audience", "auth.oauth.jwks_url"},
			[]string{"needs-oauth upstreams[0].credentials.id_jag"}, nil,
			func(f *File) bool { return !f.Auth.OAuth.Enabled }},
		{"the header of the keys is another and the former one is forwarded", map[string]string{"a": "auth: {header: X-Key}"},
			map[string]string{"f": "forward_headers: [X-Trace, x-key]", "policy": deny},
			[]string{"auth.header", "forward_headers"}, nil, []string{"new deny "},
			func(f *File) bool { return slices.Equal(f.ForwardHeaders, []string{"X-Trace"}) }},
		{"a rule for an upstream that is added", nil,
			map[string]string{"upstreams": "upstreams: [{name: tools, url: 'http://127.0.0.1:9/'}, {name: stock, url: 'http://127.0.0.1:1/'}]", "policy": named("stock", "action: deny")},
			[]string{"upstreams"}, []string{"unknown-upstream policy.rules[0].when.upstream[0]"}, []string{"new deny stock"}, nil},
		{"an upstream is renamed with the rule that denies it", map[string]string{"policy": named("tools", "action: deny")},
			map[string]string{"upstreams": other, "policy": named("stock", "action: deny")},
			[]string{"upstreams"}, []string{"unknown-upstream policy.rules[1].when.upstream[0]"}, []string{"new (until the restart) deny tools", "new deny stock"}, nil},
		{"an upstream is removed with the rule that redacts it", map[string]string{"policy": named("tools", "action: redact, redact: [{regex: a, replacement: b}]")},
			map[string]string{"upstreams": other, "policy": deny},
			[]string{"upstreams"}, nil, []string{"new (until the restart) deny tools", "new deny "}, nil},
		{"an upstream is removed with the rule that allows it", map[string]string{"policy": named("tools", "action: allow")},
			map[string]string{"upstreams": other, "policy": deny}, []string{"upstreams"}, nil, []string{"new deny "}, nil},
		{"an upstream is removed with a rule that only observes it", map[string]string{"policy": named("tools", "action: deny, mode: observe")},
			map[string]string{"upstreams": other, "policy": deny}, []string{"upstreams"}, nil, []string{"new deny "}, nil},
		{"an upstream is renamed in what sets a label", map[string]string{"d": "data_flow: {labels: [{name: a, upstreams: [tools]}, {name: b, upstreams: [tools]}]}"},
			map[string]string{"upstreams": other, "policy": deny, "d": "data_flow: {labels: [{name: a, upstreams: [stock]}]}"},
			[]string{"upstreams"}, []string{"unknown-upstream data_flow.labels[1].upstreams[0]"}, []string{"new deny "},
			func(f *File) bool {
				l := f.DataFlow.Labels
				return len(l) == 2 && l[0].Name == "a" && slices.Equal(l[0].Upstreams, []string{"tools"})
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			running, next := mustParse(t, with(c.running)), mustParse(t, with(c.next))
			merged, pending := Apply(running, next)
			if slices.Sort(c.pending); !slices.Equal(slices.Sorted(slices.Values(pending)), c.pending) {
				t.Errorf("restart_pending %q, want %q", pending, c.pending)
			}
			waiting, err := merged.CheckMerged()
			if err != nil {
				t.Fatalf("the reload is refused: %v", err)
			}
			var got []string
			for _, f := range waiting {
				got = append(got, f.Code+" "+f.Path)
			}
			if !slices.Equal(got, c.waiting) {
				t.Errorf("waiting %q, want %q", got, c.waiting)
			}
			if rules := ids(merged); !slices.Equal(rules, c.rules) {
				t.Errorf("rules %q, want %q", rules, c.rules)
			}
			if c.holds != nil && !c.holds(merged) {
				t.Errorf("in force: %+v, forwarded %v", merged.Auth, merged.ForwardHeaders)
			}
			if again, _ := Apply(merged, next); len(ids(again)) != len(c.rules) || again.Auth.OAuth.Enabled != merged.Auth.OAuth.Enabled {
				t.Errorf("the same file once more: rules %q", ids(again))
			}
			if back, pending := Apply(merged, running); len(pending) != 0 || !slices.Equal(ids(back), ids(running)) {
				t.Errorf("the way back: %q, rules %q", pending, ids(back))
			}
		})
	}
}

// pendingOf returns the fields of next that a running process cannot change from old without a
// restart, in the order of the specification; nil when there are none.
func pendingOf(old, next *File) []string {
	_, pending := Apply(old, next)
	return pending
}
