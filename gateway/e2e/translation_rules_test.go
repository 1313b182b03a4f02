package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const asksForm = `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`

var requestState = regexp.MustCompile(`"requestState":"[^"]*"`)

// A translated server request is judged once, both as its legacy method and as a result of type
// input_required: a rule for either denies it, in both directions of translation, with and
// without federation. The call at the server ends, and does not wait for an answer.
func TestRulesOnQuestionsThatAreTranslated(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]string{"by method": "method: elicitation/create", "by result type": "result_type: input_required", "another method": "method: sampling/createMessage"} {
		for how, federated := range map[string]bool{"": false, ", in a federation": true} {
			for _, stateless := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s%s, stateless server %v", name, how, stateless), func(t *testing.T) {
					up := newGeneration(t, "up", stateless)
					r := newRig(t, questionConfig(up.URL, stateless, federated, when))
					denied := name != "another method"
					body := call("7", "up_ask")
					var headers []string
					if stateless {
						opened := r.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
						headers = []string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
					} else {
						body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up_ask","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` + asksForm + `}}}`
						headers = append(modernHeaders("tools/call"), "Mcp-Name", "up_ask")
					}
					if stateless && !denied {
						return // other tests cover it with SDK clients
					}
					got := r.post(body, headers...)
					seen := strings.Contains(got.body, "may up go on?")
					switch {
					case seen == denied:
						t.Errorf("the server request: %d %s", got.status, got.body)
					case stateless && !strings.Contains(got.body, `"text":"cancel"`):
						t.Errorf("the server got no cancellation of its request: %d %s", got.status, got.body)
					case !stateless && denied && !strings.Contains(got.body, `"reason":"policy_denied"`) && !strings.Contains(got.body, `"code":-32001`):
						t.Errorf("the client got no error: %d %s", got.status, got.body)
					}
					if !denied { // and the answer continues the call
						state := requestState.FindString(got.body)
						retry := strings.Replace(body, `"arguments":{},`, `"arguments":{},`+state+`,"inputResponses":{"question":{"action":"accept","content":{"ok":true}}},`, 1)
						if got := r.post(retry, headers...); !strings.Contains(got.body, `"text":"accept"`) {
							t.Errorf("the answer: %d %s", got.status, got.body)
						}
					}
					if !stateless && denied {
						eventually(t, "the call is left waiting at the server", func() bool {
							for range up.server.Sessions() {
								return false
							}
							return true
						})
					}
					n := 0
					for _, line := range r.kinds("frame") {
						if line["rule_id"] == "no-questions" {
							n++
						}
					}
					for _, line := range r.kinds("request") {
						if line["tool"] == "up_ask" && line["upstream_dialect"] != map[bool]string{true: "2026-07-28", false: "2025-11-25"}[stateless] {
							t.Errorf("line %v", line)
						}
					}
					if want := map[bool]int{true: 1, false: 0}[denied]; n != want {
						t.Errorf("judged by the rule %d times, want %d: %v", n, want, r.all())
					}
				})
			}
		}
	}
}

// One denied question of several denies the result of a server of 2026-07-28 for clients with sessions
// too, wherever it is in the result: no question is asked, not even one that no rule concerns, and
// the server gets an answer to each. A result whose questions are all allowed is asked whole.
func TestOneDeniedQuestionDeniesAllOfItsResult(t *testing.T) {
	t.Parallel()
	const form = `{"method":"elicitation/create","params":{"message":"which crane?","requestedSchema":{"type":"object","properties":{}}}}`
	const hook = `{"method":"elicitation/create","params":{"message":"which hook?","requestedSchema":{"type":"object","properties":{}}}}`
	const sample = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	rule := func(when string) string {
		return "    - {id: no-questions, action: deny, when: {direction: server_to_client, " + when + "}}\n"
	}
	limit := "    - {id: no-questions, action: rate_limit, tokens_per_second: 0.000001, burst: 1, when: {direction: server_to_client, method: elicitation/create}}\n"
	for _, tt := range []struct {
		name, rules, questions, want string
		asked, judged                int
	}{
		{"the last", rule("method: sampling/createMessage"), `"a":` + form + `,"b":` + hook + `,"c":` + sample, "may have had effects", 0, 3},
		{"the first", rule("method: sampling/createMessage"), `"a":` + sample + `,"b":` + form, "may have had effects", 0, 2},
		{"in the middle", rule("method: roots/list"), `"a":` + form + `,"b":{"method":"roots/list"},"c":` + form, "may have had effects", 0, 3},
		{"all", rule("method: elicitation/create"), `"a":` + form + `,"b":` + hook, `{\"a\":{\"action\":\"cancel\"},\"b\":{\"action\":\"cancel\"}}`, 0, 2},
		{"beyond a rate limit", limit, `"a":` + form + `,"b":` + hook, `{\"a\":{\"action\":\"cancel\"},\"b\":{\"action\":\"cancel\"}}`, 0, 2},
		{"none", rule("method: ping"), `"a":` + form + `,"b":` + sample, `{\"a\":{\"action\":\"decline\"},\"b\":{\"action\":\"decline\"}}`, 2, 0},
	} {
		for how, federated := range map[string]bool{"": false, ", in a federation": true} {
			t.Run(tt.name+how, func(t *testing.T) {
				up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
					result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
					if strings.Contains(body, `"tools/list"`) {
						result = `{"tools":[{"name":"up_ask","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
					} else if strings.Contains(body, `"tools/call"`) {
						result = `{"resultType":"input_required","requestState":"s","inputRequests":{` + tt.questions + `}}`
						var retry struct {
							Params struct{ InputResponses json.RawMessage }
						}
						if json.Unmarshal([]byte(body), &retry); retry.Params.InputResponses != nil {
							text, _ := json.Marshal(string(retry.Params.InputResponses))
							result = `{"resultType":"complete","content":[{"type":"text","text":` + string(text) + `}]}`
						}
					}
					answerAs("application/json", result)(w, body, r)
				})
				r := newRig(t, strings.Replace(questionConfig(up.URL, true, federated, "method: none"), rule("method: none"), tt.rules, 1))
				opened := r.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`)
				headers := []string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
				asked, seen := 0, ""
				for lines := bufio.NewScanner(r.open(http.MethodPost, call("7", "up_ask"), headers...).Body); lines.Scan(); {
					seen += lines.Text()
					_, event, _ := strings.Cut(lines.Text(), "data: ")
					var question struct {
						ID     json.RawMessage
						Method string
					}
					if json.Unmarshal([]byte(event), &question) == nil && question.Method != "" {
						asked++
						r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, question.ID), headers...)
					}
				}
				if asked != tt.asked || !strings.Contains(seen, tt.want) {
					t.Errorf("%d questions were asked, want %d; got %s, want %s", asked, tt.asked, seen, tt.want)
				}
				n := 0
				for _, line := range r.kinds("frame") {
					if line["rule_id"] == "no-questions" && line["action"] != "allow" {
						n++
					}
				}
				if n != tt.judged {
					t.Errorf("%d questions were denied, want %d: %v", n, tt.judged, r.kinds("frame"))
				}
			})
		}
	}
}

func questionConfig(url string, stateless, federated bool, when string) string {
	first := "default_upstream: up\n"
	if federated {
		first = "federation: {enabled: true}\n"
	}
	routes, protocol := "routes:\n  - {match: {tool_name: \"*\"}, upstream: up}\n", "2025-11-25"
	if federated {
		routes = ""
	}
	if stateless {
		protocol = "2026-07-28"
	}
	return fmt.Sprintf("%supstreams:\n  - {name: up, url: %s, protocol: %s}\n%spolicy:\n  default_action: allow\n  rules:\n    - {id: no-questions, action: deny, when: {direction: server_to_client, %s}}\n", first, url, protocol, routes, when)
}
