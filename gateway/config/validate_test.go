package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"svc/gateway/base/diag"
)

// base is a valid file of one line per section, which the tests replace.
var base = map[string]string{
	"listen":    "listen: 127.0.0.1:8081",
	"license":   "license: {path: /etc/svc/license.jwt}",
	"upstreams": `upstreams: [{name: tools, url: "http://127.0.0.1:3000/mcp"}]`,
	"policy":    "policy: {}",
	"audit":     "audit: {}",
}

// with returns the base file with sections replaced; an empty text removes one.
func with(sections map[string]string) string {
	all := maps.Clone(base)
	maps.Copy(all, sections)
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if all[k] != "" {
			lines = append(lines, all[k])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestSectionRules has a row for each rule of the specification about a section of this package,
// and about references between sections. want is "code path" for each finding, without those
// about features that are not built; empty means that the file is valid.
func TestSectionRules(t *testing.T) {
	guardrail := func(fields string) string {
		return "guardrails:\n  - name: g\n    url: https://guard.example\n" + fields
	}
	for _, c := range []struct {
		name, key, text string
		want            []string
	}{
		{"listen is required", "listen", "", []string{"required listen"}},
		{"listen empty", "listen", `listen: ""`, []string{"required listen"}},
		{"listen without port", "listen", "listen: localhost", []string{"listen listen"}},
		{"listen with a named port", "listen", "listen: 127.0.0.1:http", []string{"listen listen"}},
		{"listen with a port too large", "listen", "listen: 127.0.0.1:65536", []string{"listen listen"}},
		{"listen with a signed port", "listen", "listen: 127.0.0.1:+80", []string{"listen listen"}},
		{"listen with a host that is none", "listen", `listen: "a b:80"`, []string{"listen listen"}},
		{"listen on every address", "listen", "listen: :8081", nil},
		{"listen on port 0", "listen", "listen: 127.0.0.1:0", nil},
		{"listen on IPv6", "listen", `listen: "[::1]:8081"`, nil},
		{"listen on a name", "listen", "listen: gateway.example:8081", nil},

		{"tls cert_file without key_file", "tls", "tls: {cert_file: a}", []string{"tls-pair tls.key_file"}},
		{"tls key_file without cert_file", "tls", "tls: {key_file: a}", []string{"tls-pair tls.cert_file"}},
		{"tls client_ca requires cert_file and key_file", "tls", "tls: {client_ca: a}", []string{"tls-pair tls.client_ca"}},
		{"tls empty", "tls", "tls: {}", []string{"tls-pair tls"}},
		{"tls pair", "tls", "tls: {cert_file: a, key_file: b}", nil},
		{"tls mutual", "tls", "tls: {cert_file: a, key_file: b, client_ca: c}", nil},

		{"input_rate_limit requests_per_second required when enabled", "i", "input_rate_limit: {enabled: true, burst: 1}",
			[]string{"range input_rate_limit.requests_per_second"}},
		{"input_rate_limit burst required when enabled", "i", "input_rate_limit: {enabled: true, requests_per_second: 0.5}",
			[]string{"range input_rate_limit.burst"}},
		{"input_rate_limit negative", "i", "input_rate_limit: {requests_per_second: -1, burst: -1}",
			[]string{"range input_rate_limit.requests_per_second", "range input_rate_limit.burst"}},
		{"input_rate_limit disabled needs nothing", "i", "input_rate_limit: {enabled: false}", nil},

		{"trusted_proxies CIDR", "t", "trusted_proxies: [10.0.0.0/8, '::1/128']", nil},
		{"trusted_proxies address", "t", "trusted_proxies: [10.0.0.1]", []string{"cidr trusted_proxies[0]"}},
		{"client_address_header", "t", "trusted_proxies: [10.0.0.0/8]\nclient_address_header: x-forwarded-for", nil},
		{"client_address_header unknown", "t", "trusted_proxies: [10.0.0.0/8]\nclient_address_header: X-Real-IP", []string{"enum client_address_header"}},
		{"client_address_header without proxies", "t", "client_address_header: forwarded", []string{"client-address-header client_address_header"}},
		{"trusted_proxies junk", "t", "trusted_proxies: [10.0.0.0/8, any, 10.0.0.0/33]",
			[]string{"cidr trusted_proxies[1]", "cidr trusted_proxies[2]"}},

		{"license is required", "license", "", []string{"required license"}},
		{"license path required", "license", "license: {}", []string{"license-path-required license.path"}},
		{"license path absolute", "license", "license: {path: l.jwt}", []string{"license-path-relative license.path"}},
		{"license public_key_file absolute", "license", "license: {path: /l, public_key_file: k}",
			[]string{"license-path-relative license.public_key_file"}},

		{"upstreams are required", "upstreams", "", []string{"required upstreams"}},
		{"upstreams empty", "upstreams", "upstreams: []", []string{"required upstreams"}},
		{"upstream names unique", "upstreams", "upstreams: [{name: a, url: 'http://h/'}, {name: a, url: 'http://h/'}]",
			[]string{"duplicate upstreams[1].name"}},
		{"default_upstream must name a known upstream", "d", "default_upstream: tool",
			[]string{"unknown-upstream default_upstream"}},
		{"default_upstream known", "d", "default_upstream: tools", nil},
		{"routes must name a known upstream", "r", "routes: [{match: {tool_name: a}, upstream: none}]",
			[]string{"unknown-upstream routes[0].upstream"}},
		{"routes reject match.method", "r", "routes: [{match: {tool_name: a, method: m}, upstream: tools}]",
			[]string{"route-field routes[0].match.method"}},
		{"routes reject match.direction", "r", "routes: [{match: {tool_name: a, direction: d}, upstream: tools}]",
			[]string{"route-field routes[0].match.direction"}},
		{"routes reject match.claims", "r", "routes: [{match: {tool_name: a, claims: {}}, upstream: tools}]",
			[]string{"route-field routes[0].match.claims"}},
		{"no echo of upstreams that could not be read", "upstreams", "upstreams: 5\ndefault_upstream: tools",
			[]string{"wrong-type upstreams"}},

		{"auth keys non-empty when enabled", "a", "auth: {enabled: true}", []string{"auth-keys-empty auth.keys"}},
		{"auth.oauth requires auth.enabled", "a",
			"auth: {oauth: {enabled: true, issuer: 'https://i', audience: a, jwks_url: 'https://i/k'}}",
			[]string{"oauth-needs-auth auth.oauth.enabled"}},
		{"auth.oauth issuer, audience and jwks_url required when enabled", "a", "auth: {enabled: true, oauth: {enabled: true}}",
			[]string{"oauth-required auth.oauth.audience", "oauth-required auth.oauth.issuer", "oauth-required auth.oauth.jwks_url"}},

		{"identity principal_claim not empty", "i", `identity: {principal_claim: ""}`, []string{"required identity.principal_claim"}},
		{"identity groups_claim not empty", "i", `identity: {groups_claim: ""}`, []string{"required identity.groups_claim"}},

		{"identity claims may be JSON Pointers", "i", `identity: {principal_claim: /act/sub, groups_claim: /resource_access/a~1b/roles}`, nil},
		{"identity groups_claim a malformed JSON Pointer", "i", `identity: {groups_claim: /a~b}`, []string{"claim identity.groups_claim"}},

		{"policy is required", "policy", "", []string{"required policy"}},
		{"audit is required", "audit", "", []string{"required audit"}},

		{"telemetry endpoint required when enabled", "t", "telemetry: {customer: {enabled: true}}",
			[]string{"required telemetry.customer.endpoint"}},
		{"telemetry endpoint URL", "t", "telemetry: {operator: {endpoint: 'localhost:4318'}}",
			[]string{"url telemetry.operator.endpoint"}},
		{"telemetry service_name not empty", "t", `telemetry: {customer: {service_name: ""}}`,
			[]string{"required telemetry.customer.service_name"}},
		{"telemetry sample_ratio range", "t", "telemetry: {customer: {sample_ratio: 1.5}}",
			[]string{"range telemetry.customer.sample_ratio"}},
		{"telemetry compression", "t", "telemetry: {customer: {compression: br}}",
			[]string{"enum telemetry.customer.compression"}},
		{"telemetry header value", "t", `telemetry: {customer: {headers: {X: "a\nb", "a b": c}}}`,
			[]string{"header telemetry.customer.headers.X", `header telemetry.customer.headers["a b"]`}},
		{"telemetry metrics listen", "t", "telemetry: {metrics: {listen: nowhere}}", []string{"listen telemetry.metrics.listen"}},

		{"sessions previous_key_files", "t", `sessions: {previous_key_files: [/a, "", /c, /d]}`,
			[]string{"range sessions.previous_key_files", "required sessions.previous_key_files[1]"}},
		{"governance restore_to", "t", `control_plane: {url: "http://127.0.0.1:1", ingest_key: svc_ingest_x, governance: {enabled: true, restore_to: [tools, nobody]}}`,
			[]string{"unknown-upstream control_plane.governance.restore_to[1]"}},

		{"tool_search mode", "t", "tool_search: {mode: magic}", []string{"enum tool_search.mode"}},
		{"tool_search refresh_interval floor", "t", "tool_search: {refresh_interval: 500ms}", nil},
		{"tool_search refresh_interval above 0", "t", "tool_search: {refresh_interval: 0s}", []string{"range tool_search.refresh_interval"}},
		{"tool_search max_results", "t", "tool_search: {max_results: 0}", []string{"range tool_search.max_results"}},

		{"guardrail name required", "g", "guardrails: [{url: 'https://g'}]", []string{"required guardrails[0].name"}},
		{"guardrail name pattern", "g", "guardrails: [{name: Guard.1, url: 'https://g'}]", []string{"guardrail-name guardrails[0].name"}},
		{"guardrail names unique", "g", "guardrails: [{name: g, url: 'https://g'}, {name: g, url: 'https://g'}]",
			[]string{"duplicate guardrails[1].name"}},
		{"guardrail url required", "g", "guardrails: [{name: g}]", []string{"required guardrails[0].url"}},
		{"guardrail url must be https", "g", "guardrails: [{name: g, url: 'http://g.example'}]",
			[]string{"url-insecure guardrails[0].url"}},
		{"guardrail url http on loopback", "g", "guardrails: [{name: g, url: 'http://127.0.0.1:9'}, {name: h, url: 'http://localhost'}, {name: i, url: 'http://[::1]:1'}]", nil},
		{"guardrail url of another scheme", "g", "guardrails: [{name: g, url: 'ftp://127.0.0.1'}]", []string{"url guardrails[0].url"}},
		{"guardrail url without host", "g", "guardrails: [{name: g, url: 'https:///x'}]", []string{"url guardrails[0].url"}},
		{"guardrail url with a password", "g", "guardrails: [{name: g, url: 'https://u:p@g'}]", []string{"url guardrails[0].url"}},
		{"guardrail timeout above 0", "g", guardrail("    timeout: 0s"), []string{"range guardrails[0].timeout"}},
		{"guardrail timeout at most 10s", "g", guardrail("    timeout: 10001ms"), []string{"range guardrails[0].timeout"}},
		{"guardrail timeout of 10s", "g", guardrail("    timeout: 10s"), nil},
		{"guardrail max_body_bytes 0 removes the limit", "g", guardrail("    max_body_bytes: 0"), nil},
		{"guardrail max_body_bytes negative", "g", guardrail("    max_body_bytes: -1"), []string{"range guardrails[0].max_body_bytes"}},
		{"guardrail header with a line break", "g", guardrail(`    headers: {X: "a\r\nY: b"}`), []string{"header guardrails[0].headers.X"}},
		{"guardrail breaker threshold 0 disables", "g", guardrail("    breaker: {failure_threshold: 0}"), nil},
		{"guardrail breaker threshold negative", "g", guardrail("    breaker: {failure_threshold: -1}"),
			[]string{"range guardrails[0].breaker.failure_threshold"}},
		{"guardrail breaker open_duration at least 0", "g", guardrail("    breaker: {open_duration: -1s}"),
			[]string{"range guardrails[0].breaker.open_duration"}},
		{"guardrail breaker open_duration at most 5m", "g", guardrail("    breaker: {open_duration: 301s}"),
			[]string{"range guardrails[0].breaker.open_duration"}},
		{"guardrail breaker open_duration of 5m", "g", guardrail("    breaker: {open_duration: 5m}"), nil},
		{"guardrail tls cert_file requires key_file", "g", guardrail("    tls: {enabled: true, cert_file: a}"),
			[]string{"tls-pair guardrails[0].tls.key_file"}},
		{"guardrail tls key_file requires cert_file", "g", guardrail("    tls: {enabled: true, key_file: a}"),
			[]string{"tls-pair guardrails[0].tls.cert_file"}},
		{"guardrail tls keys while not enabled", "g", guardrail("    tls: {ca_file: a}"), []string{"unused guardrails[0].tls"}},
		{"guardrail tls skip_verify warns", "g", guardrail("    tls: {enabled: true, skip_verify: true}"),
			[]string{"tls-skip-verify guardrails[0].tls.skip_verify"}},
		{"a rule names an unknown guardrail", "policy",
			"policy: {rules: [{id: a, action: guardrail, guardrail: gard, when: {}}]}\nguardrails: [{name: guard, url: 'https://g'}]",
			[]string{"unknown-guardrail policy.rules[0].guardrail"}},
		{"a rule names a guardrail", "policy",
			"policy: {rules: [{id: a, action: guardrail, guardrail: guard, when: {}}]}\nguardrails: [{name: guard, url: 'https://g'}]", nil},

		{"allowed_protocol_versions duplicate", "v", "allowed_protocol_versions: [2025-06-18, 2025-06-18]",
			[]string{"duplicate allowed_protocol_versions[1]"}},
		{"allowed_protocol_versions empty text", "v", `allowed_protocol_versions: [""]`, []string{"revision allowed_protocol_versions[0]"}},
		{"allowed_protocol_versions odd one warns", "v", "allowed_protocol_versions: [draft]", []string{"revision allowed_protocol_versions[0]"}},

		{"task_affinity max_entries", "t", "task_affinity: {max_entries: 0}", []string{"range task_affinity.max_entries"}},
		{"task_affinity ttl", "t", "task_affinity: {ttl: 0s}", []string{"range task_affinity.ttl"}},
		{"subscriptions max_frames", "s", "subscriptions: {max_frames: 0}", []string{"range subscriptions.max_frames"}},
		{"subscriptions idle_timeout", "s", "subscriptions: {idle_timeout: 0s}", []string{"range subscriptions.idle_timeout"}},
		{"shutdown grace negative", "s", "shutdown: {grace: -1s}", []string{"range shutdown.grace"}},
		{"shutdown drain_signal_window negative", "s", "shutdown: {drain_signal_window: -1s}", []string{"range shutdown.drain_signal_window"}},

		{"allowed_origins", "o", "allowed_origins: ['https://a.example', 'http://localhost:6274/', app.example, 'https://a/path', 'null', 'file:///x']",
			[]string{"origin allowed_origins[2]", "origin allowed_origins[3]", "origin allowed_origins[4]", "origin allowed_origins[5]"}},
		{"allowed_hosts", "o", "allowed_hosts: [a.example, '::1', 127.0.0.1, 'a:80', 'http://a', '']",
			[]string{"host allowed_hosts[3]", "host allowed_hosts[4]", "host allowed_hosts[5]"}},
		{"forward_headers", "o", "forward_headers: [X-Request-Id, 'a b', Authorization, host]",
			[]string{"header forward_headers[1]", "header forward_headers[2]", "header forward_headers[3]"}},
		{"forward_headers cannot name auth.header", "o",
			"auth: {header: X-Api-Key}\nforward_headers: [x-api-key]", []string{"header forward_headers[0]"}},
		{"sse_keepalive 0 sends none", "o", "sse_keepalive: 0s", nil},
		{"sse_keepalive range", "o", "sse_keepalive: 10ms", []string{"range sse_keepalive"}},

		{"views", "o", "federation: {enabled: true}\nviews: [{name: a, upstreams: [tools]}, {name: b, upstreams: [tools], tools: ['x*'], prompts: none}]", nil},
		{"views without federation", "o", "views: [{name: a, upstreams: [tools]}]", []string{"needs-federation views"}},
		{"views of one name but for its case", "o", "federation: {enabled: true}\nviews: [{name: a, upstreams: [tools]}, {name: A, upstreams: [tools]}]", []string{"duplicate views[1].name"}},
		{"a view of an unknown upstream", "o", "federation: {enabled: true}\nviews: [{name: a, upstreams: [svc]}]", []string{"unknown-upstream views[0].upstreams[0]"}},
		{"a metadata path among views", "o", "auth: {oauth: {metadata_path: /mcp/v/x}}", []string{"oauth-metadata-path auth.oauth.metadata_path"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, found := Parse("svc.yaml", []byte(with(map[string]string{c.key: c.text})), environment)
			var got []string
			for _, f := range found {
				got = append(got, f.Code+" "+f.Path)
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(c.want))
			if !slices.Equal(got, want) {
				t.Errorf("findings %q, want %q\n%v", got, want, found)
			}
		})
	}
}

// TestWarningsStopNothing loads files that have warnings and no errors.
func TestWarningsStopNothing(t *testing.T) {
	f, found := Parse("svc.yaml", []byte(with(map[string]string{"v": "allowed_protocol_versions: [draft]"})), environment)
	if f == nil || len(found) != 1 || found[0].Severity != diag.Warning {
		t.Errorf("Parse() = %v, %v", f, found)
	}
}

// TestSwitchedOffSectionsAreAllowed gives sections their default or off value, and both modes of
// the tool search.
func TestSwitchedOffSectionsAreAllowed(t *testing.T) {
	for _, text := range []string{
		"tool_search: {enabled: true, mode: passthrough}",
		"tool_search: {enabled: false, mode: synthesize}",
		"tool_search: {enabled: true, mode: synthesize}",
		"task_affinity: {ttl: 24h}",
		"subscriptions: {idle_timeout: 1m}",
		"telemetry: {customer: {enabled: false, endpoint: 'http://h'}}",
		"guardrails: []",
	} {
		if f, found := Parse("svc.yaml", []byte(with(map[string]string{"x": text})), environment); f == nil {
			t.Errorf("%s: %v", text, found)
		}
	}
}
