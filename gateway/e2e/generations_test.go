package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// answerAs returns a handler that answers every request with a result, as JSON or as an event
// stream.
func answerAs(media, result string) func(http.ResponseWriter, string, *http.Request) {
	return func(w http.ResponseWriter, body string, r *http.Request) {
		var m struct{ ID json.RawMessage }
		_ = json.Unmarshal([]byte(body), &m)
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		w.Header().Set("Content-Type", media)
		if media == "text/event-stream" {
			text = "data: " + text + "\n\n"
		}
		io.WriteString(w, text)
	}
}

var medias = []string{"application/json", "text/event-stream"}

// message returns the last message of a response, JSON or event stream.
func (a answer) message() string {
	if at := strings.LastIndex("\n"+a.body, "\ndata: "); at >= 0 {
		return strings.TrimSpace(a.body[at+len("data: "):])
	}
	return a.body
}

// The revisions in the result of server/discover are limited to those that the gateway serves, in
// either form of response: a client would choose one that is refused.
func TestDiscoverOffersAllowedVersionsOnly(t *testing.T) {
	const offered = `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18"],"capabilities":{}}`
	for _, media := range medias {
		for allowed, want := range map[string]string{
			"":                         `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18"]`,
			"[2026-07-28, 2025-06-18]": `"supportedVersions":["2026-07-28","2025-06-18"]`,
		} {
			t.Run(media+" "+allowed, func(t *testing.T) {
				text := basic(newUpstream(t, answerAs(media, offered)).URL)
				if allowed != "" {
					text += "allowed_protocol_versions: " + allowed + "\n"
				}
				r := newRig(t, text)
				got := r.post(modern("1", "server/discover", `"x":1`), modernHeaders("server/discover")...)
				if got.status != 200 || got.header.Get("Content-Type") != media || !strings.Contains(got.message(), want) {
					t.Errorf("got %d %s, want %s", got.status, got.body, want)
				}
			})
		}
	}
}

// An initialize with a revision that is not served is forwarded with the newest legacy revision
// that is. The response is not changed, in either form.
func TestInitializeAsksForAnAllowedVersion(t *testing.T) {
	const agreed = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
	for _, media := range medias {
		t.Run(media, func(t *testing.T) {
			up := newUpstream(t, answerAs(media, agreed))
			r := newRig(t, basic(up.URL)+"allowed_protocol_versions: [2025-03-26, 2025-06-18, 2026-07-28]\n")
			got := r.post(strings.Replace(initialize, "2025-06-18", "2025-11-25", 1))
			if want := `{"jsonrpc":"2.0","id":0,"result":` + agreed + `}`; got.status != 200 || got.message() != want {
				t.Errorf("got %d %s, want %s", got.status, got.body, want)
			}
			if sent := up.seen()[0].body; sent != initialize {
				t.Errorf("the upstream was sent %s", sent)
			}
		})
	}
}

// A revision that is not served is refused before policy and routing, with the served and the
// requested revisions: on POST with the request's id, on GET and DELETE, which have none, with
// null.
func TestVersionIsRefusedBeforePolicyAndRouting(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(up.URL), `{tool_name: "*"}`, `{tool_name: safe}`, 1)+"allowed_protocol_versions: [2025-06-18, 2026-07-28]\n")
	declared := func(version, method, params string) string {
		return strings.Replace(modern("7", method, params), "2026-07-28", version, 1)
	}
	for _, tt := range []struct {
		name, method, body, header, requested, id string
	}{
		{"a tool that policy denies", http.MethodPost, call("7", "danger"), "2025-11-25", "2025-11-25", "7"},
		{"a tool without a route", http.MethodPost, call("7", "unknown"), "2025-11-25", "2025-11-25", "7"},
		{"in the body alone", http.MethodPost, declared("2027-01-01", "tools/list", `"x":1`), "", "2027-01-01", "7"},
		{"in the body, an allowed one in the header", http.MethodPost, declared("2025-11-25", "tools/list", `"x":1`), "2025-06-18", "2025-11-25", "7"},
		{"no date", http.MethodPost, call("7", "safe"), "latest", "latest", "7"},
		{"a notification", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "2025-11-25", "2025-11-25", `""`},
		{"GET", http.MethodGet, "", "2025-11-25", "2025-11-25", "null"},
		{"DELETE", http.MethodDelete, "", "2025-11-25", "2025-11-25", "null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := r.do(tt.method, r.url, tt.body, "MCP-Protocol-Version", tt.header)
			e := got.rpc(t)
			if got.status != 400 || e.Error.Code != -32022 || e.Error.Message != "unsupported_protocol_version" || string(e.ID) != tt.id {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if s := fmt.Sprint(e.Error.Data["supported"]); s != "[2025-06-18 2026-07-28]" || e.Error.Data["requested"] != tt.requested {
				t.Errorf("data %v", e.Error.Data)
			}
			lines := r.all()
			if line := lines[len(lines)-1]; line["error_kind"] != "unsupported_protocol_version" || line["rule_id"] != nil || line["upstream"] != nil {
				t.Errorf("line %v", line)
			}
		})
	}
	if n := len(up.seen()); n != 0 {
		t.Errorf("the upstream got %d requests", n)
	}
}

// Without a list every revision is accepted. A request that declares none is of the legacy
// dialect, and accepted also where a list is set.
func TestVersionsThatAreAccepted(t *testing.T) {
	for _, tt := range []struct{ name, list, version string }{
		{"no list, an old one", "", "2024-11-05"},
		{"no list, an unknown one", "", "2031-01-01x"},
		{"a list, none declared", "allowed_protocol_versions: [2026-07-28]\n", ""},
		{"a list, one of it", "allowed_protocol_versions: [2025-06-18]\n", "2025-06-18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := newUpstream(t, echo)
			r := newRig(t, basic(up.URL)+tt.list)
			if got := r.post(call("1", "safe"), "MCP-Protocol-Version", tt.version); got.status != 200 {
				t.Errorf("got %d %s", got.status, got.body)
			}
			if sent := up.seen()[0].header.Get("Mcp-Protocol-Version"); sent != tt.version {
				t.Errorf("the upstream was sent %q", sent)
			}
			if line := r.lines(1)[0]; line["dialect"] != cmp.Or(tt.version, "legacy") {
				t.Errorf("line %v", line)
			}
		})
	}
}

// The headers of a request of the stateless revision must not contradict its body; a request that
// does never reaches the upstream. What is absent, in the header or the body, is the upstream's to
// judge. Notifications are exempt, because clients send them without these headers.
func TestModernRequestNeedsItsHeaders(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, rules(basic(up.URL), taskRules))
	const v = "2026-07-28"
	for _, tt := range []struct {
		name, body            string
		version, method, mcpN string
		status, code          int
	}{
		{"all there", modern("1", "tools/call", `"name":"safe"`), v, "tools/call", "safe", 200, 0},
		{"version missing", modern("1", "tools/call", `"name":"safe"`), "", "tools/call", "safe", 200, 0},
		{"version of the legacy dialect", modern("1", "tools/call", `"name":"safe"`), "2025-06-18", "tools/call", "safe", 400, -32020},
		{"Mcp-Method missing", modern("1", "tools/list", `"x":1`), v, "", "", 200, 0},
		{"Mcp-Method of another request", modern("1", "tools/list", `"x":1`), v, "tools/call", "", 400, -32020},
		{"Mcp-Name missing", modern("1", "tools/call", `"name":"safe"`), v, "tools/call", "", 200, 0},
		{"Mcp-Name of another tool", modern("1", "tools/call", `"name":"danger"`), v, "tools/call", "safe", 400, -32020},
		{"Mcp-Name of a prompt", modern("1", "prompts/get", `"name":"p"`), v, "prompts/get", "p", 200, 0},
		{"Mcp-Name of a resource", modern("1", "resources/read", `"uri":"file:///a"`), v, "resources/read", "file:///b", 400, -32020},
		{"Mcp-Name of a task", modern("1", "tasks/get", `"taskId":"a"`), v, "tasks/get", "b", 400, -32020},
		{"Mcp-Name where none is due", modern("1", "tools/list", `"x":1`), v, "tools/list", "ignored", 200, 0},
		{"no version in the body", call("1", "safe"), v, "tools/call", "safe", 200, 0},
		{"a notification without them", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, v, "", "", 202, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(up.seen())
			got := r.post(tt.body, "MCP-Protocol-Version", tt.version, "Mcp-Method", tt.method, "Mcp-Name", tt.mcpN)
			if got.status != tt.status {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if tt.code == 0 {
				return
			}
			if e := got.rpc(t); e.Error.Code != tt.code || string(e.ID) != "1" {
				t.Errorf("got %s", got.body)
			}
			if len(up.seen()) != before {
				t.Error("the upstream received a request")
			}
		})
	}
}

// initialize and ping, which the stateless revision has removed, are still served for legacy
// clients, also where the list of revisions has only newer ones.
func TestLegacyInitializeAndPingAreKept(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"allowed_protocol_versions: [2025-06-18, 2026-07-28]\n")
	for _, body := range []string{initialize, `{"jsonrpc":"2.0","id":1,"method":"ping"}`} {
		if got := r.post(body); got.status != 200 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
		if seen := up.seen(); seen[len(seen)-1].body != body {
			t.Errorf("the upstream was sent %s", seen[len(seen)-1].body)
		}
	}
}

// Under default_action: deny the methods of discovery pass without a rule. Other notifications,
// subscriptions/listen and tasks/* need rules that name them.
func TestDefaultDenyAllowsDiscoveryOnly(t *testing.T) {
	passes := []string{"initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list", "notifications/initialized", "notifications/cancelled"}
	needsRule := []string{"subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel", "notifications/roots/list_changed", "resources/read", "prompts/get", "completion/complete", "logging/setLevel"}
	body := func(method string) string {
		if strings.HasPrefix(method, "notifications/") {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":"t","uri":"u","name":"n","requestId":1}}`, method)
	}
	up := newUpstream(t, echo)
	text := basic(up.URL)
	for _, method := range needsRule {
		text = rules(text, fmt.Sprintf("    - {id: %s, action: allow, when: {method: %s}}\n", strings.NewReplacer("/", "-", "_", "-").Replace(strings.ToLower(method)), method))
	}
	with, without := newRig(t, text), newRig(t, basic(up.URL))
	for _, method := range slices.Concat(passes, needsRule) {
		denied := slices.Contains(needsRule, method)
		got := without.post(body(method))
		if denied != (got.status == 403) {
			t.Errorf("%s without a rule: %d %s", method, got.status, got.body)
		}
		lines := without.all()
		if line := lines[len(lines)-1]; denied && (line["rule_id"] != "default_deny" || !strings.Contains(got.body, "policy_denied")) {
			t.Errorf("%s: %s, line %v", method, got.body, line)
		}
		if got := with.post(body(method)); got.status >= 300 {
			t.Errorf("%s with a rule: %d %s", method, got.status, got.body)
		}
	}
}

// Cache hints of lists, and everything else in an allowed response, are forwarded unchanged.
func TestCacheHintsPassUntouched(t *testing.T) {
	const list = `{ "tools":[ ], "ttlMs" : 1500, "cacheScope":"public","resultType":"complete","nextCursor":""}`
	for _, media := range medias {
		r := newRig(t, basic(newUpstream(t, answerAs(media, list)).URL))
		for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			want := `{"jsonrpc":"2.0","id":1,"result":` + list + `}`
			if got := r.post(modern("1", method, `"cursor":""`), modernHeaders(method)...); got.status != 200 || got.message() != want {
				t.Errorf("%s as %s: %d %s", method, media, got.status, got.body)
			}
		}
	}
}

// A result of type input_required is forwarded byte for byte, and so is the retry with the
// answer: each is a request of its own, to which rules and rate limits apply.
func TestInputRequiredAndItsRetry(t *testing.T) {
	const ask = `{"resultType":"input_required","inputRequests":{"q\u00e9":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"a\/b =="}`
	retry := modern("2", "tools/call", `"name":"slow","arguments":{},"inputResponses":{"q\u00e9":{"action":"accept"}},"requestState":"a\/b =="`)
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "slow")
	for _, media := range medias {
		t.Run(media, func(t *testing.T) {
			first := newUpstream(t, answerAs(media, `{"content":[]}`))
			second := newUpstream(t, answerAs(media, ask))
			r := newRig(t, rules(twoUpstreams(first.URL, second.URL), "    - {id: few, action: rate_limit, tokens_per_second: 0.001, burst: 2, when: {tool_name: slow}}\n"))
			got := r.post(modern("1", "tools/call", `"name":"slow"`), headers...)
			if want := `{"jsonrpc":"2.0","id":1,"result":` + ask + `}`; got.status != 200 || got.message() != want {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if got := r.post(retry, headers...); got.status != 200 {
				t.Fatalf("the retry: %d %s", got.status, got.body)
			}
			if sent := second.seen()[1].body; sent != retry {
				t.Errorf("the upstream was sent %s", sent)
			}
			if got := r.post(retry, headers...); got.status != 429 {
				t.Errorf("a third leg: %d, want the limit of two", got.status)
			}
			if line := r.kinds("request")[0]; line["result_type"] != "input_required" {
				t.Errorf("line %v", line)
			}
		})
	}
}

// The input responses of a retry are judged like all content that a caller sends.
func TestRetryIsJudged(t *testing.T) {
	up := newUpstream(t, answerAs("application/json", `{"resultType":"complete","content":[]}`))
	r := newRig(t, rules(basic(up.URL), "    - {id: mask, action: redact, when: {tool_name: slow}, redact: [{regex: 'secret-[0-9]+', replacement: 'XXX'}]}\n"))
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "slow")
	r.post(modern("1", "tools/call", `"name":"slow","inputResponses":{"q":{"action":"accept","content":{"x":"secret-42"}}}`), headers...)
	if sent := up.seen()[0].body; strings.Contains(sent, "secret-42") || !strings.Contains(sent, "XXX") {
		t.Errorf("the upstream was sent %s", sent)
	}
}

// Each frame of a listen stream is judged, and its audit line has the subscription id, a string
// or a number.
func TestListenFramesAreJudged(t *testing.T) {
	frame := func(method, tag string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, tag)
	}
	acknowledged, tools, prompts := frame("notifications/subscriptions/acknowledged", "1"), frame("notifications/tools/list_changed", `"one"`), frame("notifications/prompts/list_changed", "1")
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) {
		fmt.Fprintf(w, "data: %s\n\ndata: %s\n\ndata: %s\n\n", acknowledged, tools, prompts)
	}))
	r := newRig(t, rules(basic(up.URL), listenRule+"    - {id: quiet, action: deny, when: {direction: server_to_client, method: notifications/tools/list_changed}}\n"))
	got := r.post(modern("1", "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen")...).body
	if want := "data: " + acknowledged + "\n\ndata: " + prompts + "\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	lines := r.kinds("frame")
	if len(lines) != 3 {
		t.Fatalf("frame lines %v", lines)
	}
	for i, want := range []struct{ action, tag string }{{"allow", "1"}, {"deny", "one"}, {"allow", "1"}} {
		if lines[i]["action"] != want.action || lines[i]["subscription_id"] != want.tag {
			t.Errorf("frame line %v, want %v", lines[i], want)
		}
	}
}

// Frames that policy withholds count as received: the upstream stream is not idle.
func TestDeniedFramesKeepAListenStreamAlive(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, events(t, func(w io.Writer, flush func(), _ string) {
		for range 9 {
			time.Sleep(300 * time.Millisecond)
			fmt.Fprintf(w, "data: %s\n\n", progress)
			flush()
		}
		io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`+"\n\n")
	}))
	r := newRig(t, rules(basic(up.URL), listenRule+"    - {id: quiet, action: deny, when: {direction: server_to_client, method: notifications/progress}}\n")+"subscriptions: {idle_timeout: 2s}\n")
	got := r.post(modern("1", "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen")...).body
	if got != `data: {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`+"\n\n" {
		t.Errorf("got %q", got)
	}
}

// The stateless revision has no resumption: Last-Event-ID is not forwarded to the upstream, and a
// listen stream that ended is requested again from the start.
func TestListenIsAskedForAnewNotResumed(t *testing.T) {
	frame := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`
	up := newUpstream(t, events(t, func(w io.Writer, _ func(), _ string) { fmt.Fprintf(w, "id: 7\ndata: %s\n\n", frame) }))
	r := newRig(t, rules(basic(up.URL), listenRule))
	for range 2 {
		got := r.post(modern("1", "subscriptions/listen", `"notifications":{}`), append(modernHeaders("subscriptions/listen"), "Last-Event-ID", "7")...)
		if want := "id: 7\ndata: " + frame + "\n\n"; got.status != 200 || got.body != want {
			t.Errorf("got %d %q, want %q", got.status, got.body, want)
		}
	}
	for _, req := range up.seen() {
		if id := req.header.Get("Last-Event-ID"); id != "" {
			t.Errorf("the upstream was asked to resume at %q", id)
		}
	}
}

// newSplitServer is a server of both protocol generations that has another tool in each: old in
// sessions, new in 2026-07-28.
func newSplitServer(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		tool := "old"
		if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
			tool = "new"
		}
		result := map[string]string{
			"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`,
			"initialize":      `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/list":      `{"resultType":"complete","ttlMs":1000,"cacheScope":"public","tools":[{"name":"` + tool + `","description":"a tool","inputSchema":{"type":"object"}}]}`,
			"tools/call":      `{"resultType":"complete","content":[]}`,
		}[m.Method]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(s.Close)
	return s
}

// The tool search and the pins read an upstream in the revision of its configuration, the one in
// which its tools are called.
func TestListsAreReadInTheConfiguredRevision(t *testing.T) {
	t.Parallel()
	for protocol, tool := range map[string]string{"2025-11-25": "old", "2026-07-28": "new"} {
		t.Run(protocol, func(t *testing.T) {
			text := "default_upstream: one\nupstreams:\n  - {name: one, url: " + newSplitServer(t).URL + ", protocol: " + protocol + ", pin_tools: block}\n" +
				"routes: [{match: {tool_name: \"*\"}, upstream: one}]\n" + allowEverything
			if got := newRig(t, text).post(call("1", tool)); got.status != http.StatusOK {
				t.Errorf("pins: %d %s", got.status, got.body)
			}
			r := newRig(t, "tool_search: {enabled: true, mode: synthesize}\n"+text)
			eventually(t, "the search does not find the tool", func() bool { return slices.Equal(r.ask("tool"), []string{"one/" + tool}) })
		})
	}
}
