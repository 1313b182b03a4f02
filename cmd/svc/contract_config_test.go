package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The program rejects each configuration that the validator or the tables of
// the configuration forbid, with the position in the file and exit code 1
// (gateway specification, Top-level configuration keys to Startup validation).
func TestContractConfiguration(t *testing.T) {
	const (
		upstreams = "upstreams: [{name: u, url: \"http://127.0.0.1:9/\"}]\n"
		audit     = "audit: {path: DIR/audit.jsonl}\n"
		license   = "license: {path: DIR/license.jwt, public_key_file: DIR/license.pub}\n"
		listen    = "listen: 127.0.0.1:0\n"
		policy    = "policy: {default_action: allow}\n"
		all       = listen + license + upstreams + audit
	)
	rule := func(s string) string { return all + "policy: {default_action: deny, rules: [" + s + "]}\n" }
	more := func(s string) string { return all + policy + s + "\n" }
	tests := []struct{ name, text, want string }{
		{"good", more(""), ""},
		{"listen is required", license + upstreams + audit + policy, "listen"},
		{"listen is host:port", "listen: nowhere\n" + license + upstreams + audit + policy, "listen"},
		{"license is required", listen + upstreams + audit + policy, "license"},
		{"license path is absolute", listen + "license: {path: license.jwt}\n" + upstreams + audit + policy, "license.path"},
		{"upstreams are required", listen + license + audit + policy, "upstreams"},
		{"policy is required", all, "policy"},
		{"audit is required", listen + license + upstreams + policy, "audit"},
		{"upstream names are unique", listen + license + audit + policy + "upstreams: [{name: u, url: \"http://a/\"}, {name: u, url: \"http://b/\"}]", "upstreams\\[1\\].name"},
		{"upstream scheme", listen + license + audit + policy + "upstreams: [{name: u, url: \"ws://a/\"}]", "scheme must be http or https"},
		{"upstream host", listen + license + audit + policy + "upstreams: [{name: u, url: \"http:///x\"}]", "upstreams\\[0\\].url"},
		{"default_upstream is known", more("default_upstream: v"), "no upstream is named \"v\""},
		{"route upstream is known", more("routes: [{match: {tool_name: a}, upstream: v}]"), "no upstream is named \"v\""},
		{"route has one matcher", more("routes: [{match: {tool_name: a, tool_glob: b}, upstream: u}]"), "exactly one matcher"},
		{"route has a matcher", more("routes: [{match: {}, upstream: u}]"), "exactly one matcher"},
		{"route method", more("routes: [{match: {tool_name: a, method: x}, upstream: u}]"), "match.method"},
		{"route direction", more("routes: [{match: {tool_name: a, direction: client_to_server}, upstream: u}]"), "match.direction"},
		{"route claims", more("routes: [{match: {tool_name: a, claims: {groups: [g]}}, upstream: u}]"), "match.claims"},
		{"cert without key", more("tls: {cert_file: DIR/c}"), "key_file"},
		{"key without cert", more("tls: {key_file: DIR/c}"), "cert_file"},
		{"client_ca alone", more("tls: {client_ca: DIR/c}"), "cert_file|key_file"},
		{"input rate is required", more("input_rate_limit: {enabled: true, burst: 1}"), "requests_per_second"},
		{"input rate is above 0", more("input_rate_limit: {enabled: true, requests_per_second: 0, burst: 1}"), "requests_per_second"},
		{"input burst is required", more("input_rate_limit: {enabled: true, requests_per_second: 1}"), "burst"},
		{"input burst is above 0", more("input_rate_limit: {enabled: true, requests_per_second: 1, burst: 0}"), "burst"},
		{"trusted_proxies are CIDRs", more("trusted_proxies: [10.0.0.300/8]"), "trusted_proxies\\[0\\]"},
		{"rate store type", more("rate_limit_store: {type: memcached}"), "rate_limit_store.type"},
		{"redis url is required", more("rate_limit_store: {type: redis}"), "rate_limit_store.url"},
		{"redis scheme", more("rate_limit_store: {type: redis, url: \"http://a:1\"}"), "rate_limit_store.url"},
		{"guardrail name", more("guardrails: [{name: A, url: \"https://a/\"}]"), "guardrails\\[0\\].name"},
		{"guardrail names are unique", more("guardrails: [{name: a, url: \"https://a/\"}, {name: a, url: \"https://a/\"}]"), "guardrails\\[1\\].name"},
		{"guardrail url is required", more("guardrails: [{name: a}]"), "guardrails\\[0\\].url|url"},
		{"guardrail is https beyond loopback", more("guardrails: [{name: a, url: \"http://10.0.0.1/\"}]"), "https"},
		{"guardrail time-out above 0", more("guardrails: [{name: a, url: \"https://a/\", timeout: 0s}]"), "timeout"},
		{"guardrail time-out at most 10s", more("guardrails: [{name: a, url: \"https://a/\", timeout: 10001ms}]"), "timeout"},
		{"guardrail open_duration at most 5m", more("guardrails: [{name: a, url: \"https://a/\", breaker: {open_duration: 301s}}]"), "open_duration"},
		{"guardrail cert without key", more("guardrails: [{name: a, url: \"https://a/\", tls: {enabled: true, cert_file: DIR/c}}]"), "key_file"},
		{"guardrail key without cert", more("guardrails: [{name: a, url: \"https://a/\", tls: {enabled: true, key_file: DIR/c}}]"), "cert_file"},
		{"auth without keys", more("auth: {enabled: true}"), "keys"},
		{"key ids are unique", more("auth: {enabled: true, keys: [{id: a, hash: HASH}, {id: a, hash: HASH}]}"), "auth.keys\\[1\\].id"},
		{"hash is argon2id", more("auth: {enabled: true, keys: [{id: a, hash: $2y$10$x}]}"), "hash"},
		{"oauth without auth", more("auth: {oauth: {enabled: true, issuer: \"https://i\", audience: a, jwks_url: \"https://i/j\"}}"), "auth.enabled|auth.oauth"},
		{"oauth issuer", more("auth: {enabled: true, oauth: {enabled: true, audience: a, jwks_url: \"https://i/j\"}}"), "issuer"},
		{"oauth audience", more("auth: {enabled: true, oauth: {enabled: true, issuer: \"https://i\", jwks_url: \"https://i/j\"}}"), "audience"},
		{"oauth jwks_url", more("auth: {enabled: true, oauth: {enabled: true, issuer: \"https://i\", audience: a}}"), "jwks_url"},
		{"oauth jwks_url is https beyond loopback", more("auth: {enabled: true, oauth: {enabled: true, issuer: \"https://i\", audience: a, jwks_url: \"http://i.example/j\"}}"), "jwks_url.*https|https"},
		{"oauth public_url", more("auth: {enabled: true, oauth: {enabled: true, issuer: \"https://i\", audience: a, jwks_url: \"https://i/j\", public_url: nowhere}}"), "public_url"},
		{"tool_search mode", more("tool_search: {enabled: true, mode: other}"), "tool_search.mode"},
		{"unknown key", more("tool_serch: {}"), "did you mean \"tool_search\""},
		{"key given twice", more("default_upstream: u\ndefault_upstream: u"), "given twice"},
		{"environment variable that is not set", more("state_dir: ${SVC_NOT_SET_EVER}/x"), "SVC_NOT_SET_EVER"},

		{"rule id is required", rule("{action: allow, when: {}}"), "id"},
		{"rule ids are unique", rule("{id: a, action: allow, when: {}}, {id: a, action: deny, when: {}}"), "used twice"},
		{"default_action", all + "policy: {default_action: log}", "default_action"},
		{"action", rule("{id: a, action: block, when: {}}"), "action is \"block\""},
		{"action is required", rule("{id: a, when: {}}"), "action"},
		{"when is required", rule("{id: a, action: allow}"), "when"},
		{"direction", rule("{id: a, action: allow, when: {direction: up}}"), "direction"},
		{"two matchers", rule("{id: a, action: allow, when: {tool_name: a, tool_prefix: b}}"), "matcher"},
		{"claims keys", rule("{id: a, action: allow, when: {claims: {roles: [a]}}}"), "roles"},
		{"result_type", rule("{id: a, action: allow, when: {direction: server_to_client, result_type: task}}"), "result_type"},
		{"result_type without direction", rule("{id: a, action: allow, when: {result_type: input_required}}"), "server_to_client"},
		{"glob", rule("{id: a, action: allow, when: {tool_glob: \"[a\"}}"), "tool_glob"},
		{"regex", rule("{id: a, action: allow, when: {tool_regex: \"(a\"}}"), "tool_regex"},
		{"empty tool_name_in", rule("{id: a, action: allow, when: {tool_name_in: []}}"), "tool_name_in"},
		{"empty redact", rule("{id: a, action: redact, when: {}, redact: []}"), "redact"},
		{"redact without redact", rule("{id: a, action: redact, when: {}}"), "redact"},
		{"redact regex", rule("{id: a, action: redact, when: {}, redact: [{regex: \"(\", replacement: x}]}"), "regex"},
		{"jsonpath", rule("{id: a, action: redact, when: {}, redact: [{jsonpath: \"$.a\", replacement: x}]}"), "jsonpath"},
		{"tokens_per_second is required", rule("{id: a, action: rate_limit, when: {}}"), "tokens_per_second"},
		{"tokens_per_second is above 0", rule("{id: a, action: rate_limit, when: {}, tokens_per_second: -1}"), "tokens_per_second"},
		{"burst is at least 1", rule("{id: a, action: rate_limit, when: {}, tokens_per_second: 1, burst: 0}"), "burst"},
		{"guardrail is required", rule("{id: a, action: guardrail, when: {}}"), "guardrail"},
		{"guardrail is known", rule("{id: a, action: guardrail, when: {}, guardrail: g}"), "\"g\""},
		{"guardrail belongs to one action", all + "guardrails: [{name: g, url: \"https://a/\"}]\npolicy: {rules: [{id: a, action: allow, when: {}, guardrail: g}]}", "guardrail"},
	}
	bin, dir := program(t), t.TempDir()
	writeLicense(t, dir)
	const hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$2Yqx0mJ5m0b5i7k7Yk6m3o0pF9rj4mF1uB3c2tq3y0E"
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, strings.Repeat("x", i+1)+".yaml")
			text := strings.NewReplacer("DIR", dir, "HASH", hash).Replace(tt.text)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"gateway", "--config", file}
			if tt.want == "" {
				args = append(args, "--check")
			}
			cmd := exec.Command(bin, args...)
			out, err := cmd.CombinedOutput()
			switch code := cmd.ProcessState.ExitCode(); {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %s", out)
			case tt.want == "":
			case code != 1:
				t.Errorf("exit code %d: %s", code, out)
			case !regexp.MustCompile(regexp.QuoteMeta(file) + `(:\d+:\d+)?: error: `).Match(out):
				t.Errorf("no place: %s", out)
			case !regexp.MustCompile(`error: .*(` + tt.want + `)|= .*(` + tt.want + `)`).Match(out):
				t.Errorf("output %s, want %s", out, tt.want)
			}
		})
	}
}
