package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// When the gateway refuses a client's answer to a server request, for whatever reason, the server
// gets an error in its place: at the upstream and in the session of the request, with the id of
// the request.
func TestAStoppedAnswerFailsTheUpstreamsRequest(t *testing.T) {
	t.Parallel()
	guard := newGuard(t, says(200, `{"action":"reject"}`))
	for _, c := range []struct {
		name, rule string
		header     []string
		times      int // how often the answer is posted
		status     int
		want       string
	}{
		{name: "a deny rule", rule: "{id: r, action: deny, when: {}}", status: 403, want: `"code":-32001,"message":"policy_denied","data":{"reason":"policy_denied"`},
		{name: "a rate limit", rule: "{id: r, action: rate_limit, tokens_per_second: 0.001, burst: 1, when: {}}", times: 2, status: 429, want: `"code":-32603,"message":"rate_limited","data":{"reason":"rate_limited"`},
		{name: "a guardrail", rule: "{id: r, action: guardrail, guardrail: dlp, when: {}}", status: 403, want: `"code":-32001,"message":"policy_denied"`},
		{name: "a redaction that leaves no answer", rule: `{id: r, action: redact, when: {}, redact: [{regex: '"result"', replacement: '"resul"'}]}`, status: 403, want: `"code":-32001,"message":"policy_denied"`},
		{name: "a revision that is not served", rule: "{id: r, action: allow, when: {}}", header: []string{"MCP-Protocol-Version", "2024-11-05"}, status: 400, want: `"code":-32603,"message":"unsupported_protocol_version"`},
	} {
		for _, tagged := range []bool{false, true} {
			name, id, own := c.name+" at the default upstream", `"q-1"`, `"q-1"`
			if tagged {
				name, id = c.name+" at another upstream", `"svc~second~\"q-1\""`
			}
			t.Run(name, func(t *testing.T) {
				first, second := newScripted(t), newScripted(t)
				text := strings.Replace(twoUpstreams(first.URL, second.URL), "rules:\n", "rules:\n    - {id: begin, action: allow, when: {method: initialize}}\n    - {id: calls, action: allow, when: {tool_name: slow}}\n    - "+c.rule+"\n", 1)
				r := newRig(t, text+"guardrails:\n  - {name: dlp, url: '"+guard.URL+"'}\nallowed_protocol_versions: ['2025-03-26', '2025-06-18']\n")
				sid := r.begin()
				if got := r.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
					t.Fatalf("call: %d %s", got.status, got.body)
				}
				up := first
				if tagged {
					up = second
				}
				var got answer
				for range max(c.times, 1) {
					got = r.post(`{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{"a":"given"}}}`, append(c.header, "Mcp-Session-Id", sid)...)
				}
				if got.status != c.status {
					t.Errorf("the client got %d %s, want %d", got.status, got.body, c.status)
				}
				eventually(t, "the upstream got no error", func() bool { return len(up.sent(`"error"`)) == 1 })
				s := up.sent(`"error"`)[0]
				if !strings.HasPrefix(s.body, `{"jsonrpc":"2.0","id":`+own+`,"error":{`+c.want) || s.header.Get("Mcp-Session-Id") != "s1" {
					t.Errorf("the upstream got %s in session %q", s.body, s.header.Get("Mcp-Session-Id"))
				}
				if n := len(up.sent(`"given"`)); n != max(c.times, 1)-1 {
					t.Errorf("%d answers reached the upstream", n)
				}
			})
		}
	}
}

// No error is sent for a caller without valid credentials, for a message that is no answer, and
// where the client has no session.
func TestNoErrorIsSentWhereNobodyAsked(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	r := newRig(t, strings.Replace(twoUpstreams(first.URL, second.URL), "rules:\n", "rules:\n    - {id: begin, action: allow, when: {method: initialize}}\n    - {id: no, action: deny, when: {}}\n", 1))
	sid := r.begin()
	answer := `{"jsonrpc":"2.0","id":1,"result":{}}`
	tagged := `{"jsonrpc":"2.0","id":"svc~second~1","result":{}}`
	for _, c := range []struct {
		body    string
		headers []string
		status  int
	}{
		{answer, []string{"Mcp-Session-Id", sid, "Authorization", "Bearer x"}, 401},
		{tagged, []string{"Mcp-Session-Id", sid, "Authorization", ""}, 401},
		{answer, []string{"Mcp-Session-Id", sid, "Authorization", "Bearer " + r.other}, 404},
		{answer, []string{"Mcp-Session-Id", sid, "Origin", "https://evil.example"}, 403},
		{call("1", "slow"), []string{"Mcp-Session-Id", sid}, 403},
		{`{"jsonrpc":"2.0","id":"svc~second~nope","result":{}}`, []string{"Mcp-Session-Id", sid}, 403},
		{tagged, []string{"Mcp-Session-Id", sid}, 403}, // no session at that upstream
	} {
		if got := r.post(c.body, c.headers...); got.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.body, got.status, got.body, c.status)
		}
	}
	r.stop() // waits for background calls
	if n := len(first.seen()) + len(second.seen()); n != 1 {
		t.Errorf("the upstreams got %d requests, want initialize alone: %v %v", n, first.seen(), second.seen())
	}
}

// A tool whose elicitation answer is denied by a rule continues at once, without a time-out.
func TestToolGoesOnWhenItsElicitationIsDenied(t *testing.T) {
	told := make(chan error, 1)
	server := sdk.NewServer(&sdk.Implementation{Name: "asks", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "safe"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "may I?"})
		told <- err
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "went on"}}}, nil, nil
	})
	up := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	r := newRig(t, strings.Replace(basic(up.URL), "    - id: notes\n", "    - {id: begin, action: allow, when: {method: initialize}}\n    - {id: begun, action: allow, when: {method: notifications/initialized}}\n    - {id: no, action: deny, when: {}}\n    - id: notes\n", 1))
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	_, _ = session.CallTool(ctx, &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{}}) // this client treats the 403 as the end of its session
	select {
	case err := <-told:
		if err == nil || !strings.Contains(err.Error(), "policy_denied") {
			t.Errorf("the tool got %v", err)
		}
	case <-ctx.Done():
		t.Error("the tool still waits for the answer")
	}
}

// A denied answer of the client is refused with an empty id, which keeps every SDK's session
// open, and never reaches the upstream, which gets an error.
func TestDeniedClientAnswer(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, rules(basic(up.URL), "    - {id: nothing, action: deny, when: {}}\n"))
	got := r.post(`{"jsonrpc":"2.0","id":5,"result":{}}`)
	if e := got.rpc(t); got.status != 403 || string(e.ID) != `""` || e.Error.Code != -32001 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	eventually(t, "the upstream got nothing", func() bool { return len(up.seen()) == 1 })
	if s := up.seen()[0].body; !strings.HasPrefix(s, `{"jsonrpc":"2.0","id":5,"error":{"code":-32001,`) {
		t.Errorf("the upstream got %s", s)
	}
	if line := r.lines(1)[0]; line["rpc"] != "response" || line["rule_id"] != "nothing" {
		t.Errorf("audit line %v", line)
	}
}

// The default action does not apply to a client's answers: they pass for the owner of the
// session.
func TestClientAnswerPassesUnderDefaultDeny(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	if got := r.post(`{"jsonrpc":"2.0","id":5,"result":{}}`); got.status != 202 || len(up.seen()) != 1 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}
