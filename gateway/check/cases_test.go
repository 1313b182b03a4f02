package check

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/policy"
)

// shop is the configuration of the tests.
const shop = `
listen: 127.0.0.1:0
license: {path: /etc/svc/license.jwt}
upstreams:
  - {name: shop, url: "http://127.0.0.1:9/"}
  - {name: search, url: "http://127.0.0.1:10/"}
default_upstream: shop
routes:
  - {match: {tool_prefix: search_}, upstream: search}
  - {match: {tool_name_in: [get_order, delete_order, refund, check]}, upstream: shop}
auth:
  enabled: true
  keys: [{id: bot, hash: "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$2Yqx0mJ5m0b5i7k7Yk6m3o0pF9rj4mF1uB3c2tq3y0E"}]
  oauth: {enabled: true, issuer: https://login.example, audience: https://gateway.example/mcp, jwks_url: https://login.example/jwks}
guardrails: [{name: guard, url: "https://guard.example/"}]
policy:
  default_action: deny
  rules:
    - {id: no-deletes, action: deny, when: {tool_prefix: delete_}}
    - {id: staff, action: allow, when: {tool_prefix: search_, claims: {groups_in: [staff]}}}
    - {id: trial, action: deny, mode: observe, when: {tool_name: search_web}}
    - {id: search, action: allow, when: {tool_glob: "search_*"}}
    - {id: mask, action: redact, when: {tool_name: get_order}, redact: [{regex: '[0-9]{16}', replacement: "${0}x"}, {regex: '"id":1,', replacement: '"id":1,'}]}
    - {id: wipes, action: allow, when: {tool_name: wipe}, approval: {}}
    - {id: slow, action: rate_limit, tokens_per_second: 1, when: {tool_name: refund}}
    - {id: ask, action: guardrail, guardrail: guard, when: {tool_name: check}}
    - {id: no-input, action: deny, when: {direction: server_to_client, result_type: input_required}}
    - {id: mask-down, action: redact, when: {direction: server_to_client, method: notifications/message}, redact: [{regex: secret, replacement: "****"}]}
    - {id: breaks, action: redact, when: {method: resources/read}, redact: [{regex: '"method"', replacement: '"m"'}]}
    - {id: never, action: allow, when: {method: tasks/get}}
audit: {path: audit.jsonl}
control_plane: {url: "https://control.example", ingest_key: svc_ingest_x}
`

func load(t testing.TB, text string) *Engine {
	t.Helper()
	file, found := config.Parse("svc.yaml", []byte(text), nil)
	if file == nil {
		t.Fatal(found)
	}
	e, err := New(file)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// replayRead parses one case.
func replayRead(t *testing.T, text string) *Case {
	t.Helper()
	var c Cases
	doc := config.Decode("cases.yaml", []byte("cases:\n  - name: a case\n    "+strings.ReplaceAll(text, "\n", "\n    ")), &c)
	if len(doc.Findings()) > 0 {
		t.Fatal(doc.Findings())
	}
	return &c.Cases[0]
}

func TestRunCase(t *testing.T) {
	e := load(t, shop)
	for _, c := range []struct{ name, text, want string }{
		{"deny by rule", "caller: {key: bot}\nrequest: {tool: delete_order}\nexpect: {action: deny, rule: no-deletes, upstream: \"\"}", ""},
		{"default deny", "request: {tool: other}\nexpect: {action: deny, rule: default_deny}", ""},
		{"default allow has no rule", "request: {method: tools/list}\nexpect: {action: allow, rule: \"\", upstream: shop}", ""},
		{"claims", "caller: {subject: alice, groups: [staff]}\nrequest: {tool: search_web}\nexpect: {rule: staff, upstream: search}", ""},
		{"claims of others", "caller: {groups: [guests]}\nrequest: {tool: search_web}\nexpect: {rule: search, observed: [trial]}", ""},
		{"claims that cannot be read", "caller: {subject: alice, unreadable: [groups]}\nrequest: {tool: search_web}\nexpect: {rule: search, observed: [trial]}", ""},
		{"a key has no claims", "caller: {key: bot}\nrequest: {tool: search_web}\nexpect: {rule: search}", ""},
		{"nothing observed", "request: {tool: search_img}\nexpect: {observed: []}", ""},
		{"limit and guardrail are named, not performed", "request: {tool: refund}\nexpect: {action: rate_limit, rule: slow, upstream: shop}", ""},
		{"guardrail", "request: {tool: check}\nexpect: {action: guardrail}", ""},
		{"redacted arguments", "request: {tool: get_order, arguments: {card: \"4111111111111111\", n: 1.50}}\nexpect: {action: redact, arguments: {n: 1.50, card: \"4111111111111111x\"}}", ""},
		{"redacted params of a frame", "request: {method: notifications/message, direction: server_to_client, params: {data: a secret}}\nexpect: {rule: mask-down, params: {data: a ****}}", ""},
		{"result type", "request: {direction: server_to_client, result_type: input_required}\nexpect: {action: deny, rule: no-input}", ""},
		{"result type with a result", "request: {direction: server_to_client, result_type: input_required, result: {a: 1}}\nexpect: {action: deny}", ""},
		{"another result", "request: {direction: server_to_client, result: {content: []}}\nexpect: {action: allow, result: {content: []}}", ""},
		{"redaction that breaks the message", "request: {method: resources/read, params: {uri: \"file:///a\"}}\nexpect: {action: redact, upstream: \"\"}", ""},

		{"approval", "request: {tool: wipe}\nexpect: {action: allow, approval: required, rule: wipes}", ""},
		{"no approval", "request: {tool: search_img}\nexpect: {action: allow, approval: none}", ""},
		{"approval of another tool", "request: {tool: delete_order}\nexpect: {action: deny}", ""},

		{"approval that is not expected", "request: {tool: wipe}\nexpect: {action: allow}", `approval: want none, got required`},
		{"approval that is not expected, and only the rule is", "request: {tool: wipe}\nexpect: {rule: wipes}", `approval: want none, got required`},
		{"approval that nobody requires", "request: {tool: search_img}\nexpect: {approval: required}", `approval: want required, got none`},
		{"wrong action", "request: {tool: refund}\nexpect: {action: allow}", `action: want allow, got rate_limit`},
		{"wrong rule", "request: {tool: refund}\nexpect: {rule: search}", `rule: want "search", got "slow"`},
		{"no such rule", "request: {tool: refund}\nexpect: {rule: serach}", `no rule has that id`},
		{"wrong upstream", "request: {tool: search_web}\nexpect: {upstream: shop}", `upstream: want shop, got search, routes[0]`},
		{"not observed", "request: {tool: search_img}\nexpect: {observed: [trial]}", `observed: want trial, got none`},
		{"not redacted so", "request: {tool: get_order, arguments: {card: \"4111111111111111\"}}\nexpect: {arguments: {card: x}}", `got {"card":"4111111111111111x"}`},
		{"a denied message is not forwarded", "request: {tool: delete_order, arguments: {}}\nexpect: {arguments: {}}", `the message is not forwarded`},
		{"unknown key", "caller: {key: stranger}\nrequest: {tool: refund}\nexpect: {action: allow}", `no key has this id`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := e.Run(replayRead(t, c.text))
			var got []string
			for _, f := range r.Failures {
				got = append(got, f.What+": want "+f.Want+", got "+f.Got+", "+f.Note)
			}
			all := strings.Join(got, "; ")
			if (c.want == "") != r.OK() || !strings.Contains(all, c.want) {
				t.Errorf("got %q, want %q", all, c.want)
			}
		})
	}
}

// Cases are parsed strictly, with the position of each error.
func TestCasesAreStrict(t *testing.T) {
	for _, c := range []struct{ name, text, code, path string }{
		{"unknown key", "cases: [{name: a, request: {tol: x}, expect: {action: deny}}]", "unknown-key", "cases[0].request"},
		{"unknown expectation", "cases: [{name: a, request: {tool: x}, expect: {acton: deny}}]", "unknown-key", "cases[0].expect"},
		{"no cases", "cases: []", "required", "cases"},
		{"empty file", "", "empty", ""},
		{"no name", "cases: [{request: {tool: x}, expect: {action: deny}}]", "required", "cases[0].name"},
		{"name twice", "cases: [{name: a, request: {tool: x}, expect: {action: deny}}, {name: a, request: {tool: x}, expect: {action: deny}}]", "duplicate", "cases[1].name"},
		{"no request", "cases: [{name: a, expect: {action: deny}}]", "request", "cases[0].request"},
		{"tool and another method", "cases: [{name: a, request: {tool: x, method: ping}, expect: {action: deny}}]", "request", "cases[0].request"},
		{"arguments without tool", "cases: [{name: a, request: {method: ping, arguments: {}}, expect: {action: deny}}]", "request", "cases[0].request"},
		{"tool and params", "cases: [{name: a, request: {tool: x, params: {}}, expect: {action: deny}}]", "request", "cases[0].request"},
		{"method and result", "cases: [{name: a, request: {method: ping, result: {}}, expect: {action: deny}}]", "request", "cases[0].request"},
		{"a message that the gateway refuses", `cases: [{name: a, request: {tool: "a\tb"}, expect: {action: deny}}]`, "request", "cases[0].request"},
		{"result that is no object", "cases: [{name: a, request: {result_type: x, result: 5}, expect: {action: deny}}]", "request", "cases[0].request"},
		{"direction", "cases: [{name: a, request: {tool: x, direction: up}, expect: {action: deny}}]", "enum", "cases[0].request.direction"},
		{"action", "cases: [{name: a, request: {tool: x}, expect: {action: permit}}]", "enum", "cases[0].expect.action"},
		{"approval", "cases: [{name: a, request: {tool: x}, expect: {approval: granted}}]", "enum", "cases[0].expect.approval"},
		{"nothing expected", "cases: [{name: a, request: {tool: x}}]", "required", "cases[0].expect"},
		{"unreadable, of another name", "cases: [{name: a, caller: {unreadable: [roles]}, request: {tool: x}, expect: {action: deny}}]", "enum", "cases[0].caller.unreadable[0]"},
		{"key and token", "cases: [{name: a, caller: {key: k, groups: [g]}, request: {tool: x}, expect: {action: deny}}]", "caller", "cases[0].caller"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cases Cases
			found := config.Decode("cases.yaml", []byte(c.text), &cases).Findings()
			if !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Code == c.code && f.Path == c.path }) {
				t.Errorf("got %v, want %s at %s", found, c.code, c.path)
			}
		})
	}
}

func TestCoverage(t *testing.T) {
	e := load(t, shop)
	var results []CaseResult
	for _, text := range []string{
		"request: {tool: delete_x}\nexpect: {action: allow}", // a failed case counts for coverage too
		"request: {tool: search_web}\nexpect: {action: allow}",
		"caller: {key: stranger}\nrequest: {tool: refund}\nexpect: {action: allow}", // was not evaluated
	} {
		results = append(results, e.Run(replayRead(t, text)))
	}
	c := e.Cover(results)
	if want := []string{"staff", "mask", "wipes", "slow", "ask", "no-input", "mask-down", "breaks", "never"}; !slices.Equal(c.Missed, want) || len(c.Rules) != 12 {
		t.Errorf("missed %v of %d", c.Missed, len(c.Rules))
	}
	if p := c.Percent(); p != 25 {
		t.Errorf("%v percent", p)
	}
	if p := (Coverage{}).Percent(); p != 100 {
		t.Errorf("%v percent of no rules", p)
	}
}

// TestRoutes: tool calls are routed by routes only, other messages to default_upstream,
// and the reason is given.
func TestRoutes(t *testing.T) {
	e := load(t, strings.Replace(shop, "default_upstream: shop\n", "", 1))
	for _, c := range []struct {
		name, body string
		d          policy.Direction
		upstream   string
		reason     string
	}{
		{"first route", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_a"}}`, 0, "search", "routes[0]"},
		{"second route", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refund"}}`, 0, "shop", "routes[1]"},
		{"denied", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_a"}}`, 0, "", "it is denied"},
		{"no default", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 0, "", "there is no default_upstream: 404 no_route"},
		{"answer of a client", `{"jsonrpc":"2.0","id":1,"result":{}}`, 0, "", "an answer goes to the upstream that asked"},
		{"frame", `{"jsonrpc":"2.0","method":"notifications/progress"}`, policy.ServerToClient, "", "it goes to the client"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := e.Ask([]byte(c.body), c.d, nil, Given{})
			if err != nil || a.Route.Upstream != c.upstream || a.Route.Reason != c.reason {
				t.Errorf("got %+v %v", a.Route, err)
			}
		})
	}
	if _, err := e.Ask([]byte(`{"jsonrpc":"2.0","id":{},"method":"a"}`), 0, nil, Given{}); err == nil {
		t.Error("a message that the gateway refuses was asked about")
	}
	e = load(t, shop+"tool_search: {enabled: false}\n")
	if a, _ := e.Ask([]byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`), 0, nil, Given{}); a.Route.Upstream != "shop" || !strings.Contains(a.Route.Reason, "task") {
		t.Errorf("got %+v", a.Route)
	}
	e = load(t, shop+"tool_search: {enabled: true, mode: synthesize}\n")
	for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_search"}}`} {
		if a, _ := e.Ask([]byte(body), 0, nil, Given{}); a.Decision.Action != policy.Deny && (a.Route.Upstream != "" || a.Route.Reason != "the gateway answers it: tool_search") {
			t.Errorf("%s: got %+v", body, a.Route)
		}
	}
	wild := load(t, strings.Replace(strings.Replace(shop, "default_action: deny", "default_action: allow", 1), "tool_prefix: search_}, upstream", "tool_prefix: find_}, upstream", 1))
	if a, _ := wild.Ask([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nowhere"}}`), 0, nil, Given{}); a.Route.Upstream != "" || a.Route.Reason != "no route matches the tool: 404 no_route" {
		t.Errorf("got %+v", a.Route)
	}
}

// A route has no effect if its upstream has no tool that clients see under the name.
func TestRoutesAndVisibleNames(t *testing.T) {
	const upstreams = `
listen: 127.0.0.1:1
license: {path: /l}
audit: {path: /a.jsonl}
upstreams:
  - {name: crm, url: "http://127.0.0.1:3000/mcp", prefix: crm_, tools: {deny: [drop]}}
  - {name: web, url: "http://127.0.0.1:3001/mcp", tools: {rename: {long: short}}}
routes:
  - {match: {tool_prefix: crm_}, upstream: crm}
  - {match: {tool_name: astray}, upstream: crm}
  - {match: {tool_name: "*"}, upstream: web}
policy: {default_action: allow}
`
	for _, more := range []string{"", "federation: {enabled: true}\n"} {
		e := load(t, upstreams+more)
		for tool, want := range map[string]string{"crm_find": "crm", "crm_drop": "", "astray": "", "short": "web", "long": "", "other": "web"} {
			a, err := e.Ask([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`), 0, nil, Given{})
			if err != nil || a.Route.Upstream != want || a.Request.Upstream != want || want == "" && !strings.HasSuffix(a.Route.Reason, "no_route") {
				t.Errorf("%q %s: %+v, for rules %q, %v; want %q", more, tool, a.Route, a.Request.Upstream, err, want)
			}
		}
	}
}

// TestCasesAreDocumented: the page about test cases names every key.
func TestCasesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy-cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for part, typ := range map[string]reflect.Type{
		"": reflect.TypeFor[Case](), "caller.": reflect.TypeFor[CallerSpec](),
		"request.": reflect.TypeFor[RequestSpec](), "expect.": reflect.TypeFor[Expectation](),
	} {
		for i := range typ.NumField() {
			key := typ.Field(i).Tag.Get("yaml")
			if part == "" && key != "name" {
				continue // documented key by key
			}
			if !strings.Contains(string(page), "`"+part+key+"`") {
				t.Errorf("the page does not tell %s%s", part, key)
			}
		}
	}
}
