package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/session"
	"svc/store/api"
)

func TestGovernanceJudgesAnswers(t *testing.T) {
	t.Parallel()
	answerText := func(w http.ResponseWriter, stream bool) {
		result := `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"write to bob@example.com"}]}}`
		if !stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, result)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"found bob@example.com"}}`+"\n\n")
		fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"message":"is it bob@example.com?"}}`+"\n\n")
		fmt.Fprint(w, "data: "+result+"\n\n")
	}
	stream := false
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		if strings.Contains(body, "tools/call") {
			answerText(w, stream)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	g := &governor{}
	g.give(responsePII("redact", "replace", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance, g)

	if a := r.post(callWith(`{}`)); a.status != 200 || !strings.Contains(a.body, `"write to [EMAIL]"`) || strings.Contains(a.body, "bob") {
		t.Errorf("plain answer: %d %s", a.status, a.body)
	}
	stream = true
	a := r.post(callWith(`{}`))
	if a.status != 200 || strings.Contains(a.body, "bob") || strings.Count(a.body, "[EMAIL]") != 3 {
		t.Errorf("event stream: %d %s", a.status, a.body)
	}
	lines := r.lines(6) // the plain response; opening line, three frames, end
	for _, l := range lines[2:] {
		if l["action"] != "redact" || firedOf(l) != "pol_0:redact" || fmt.Sprint(l["pii_detected"]) != "[EMAIL]" {
			t.Errorf("line: %v", l)
		}
	}
	if l := lines[5]; l["kind"] != "request" || !slices.Contains(stages(l), "pii_scan") {
		t.Errorf("line of the stream's end: %v", l)
	}

	t.Run("blocked", func(t *testing.T) {
		g.give(responsePII("block", "", "EMAIL"))
		await(t, func() bool {
			return r.services().Governance.Stats().Policies == 1 && r.post(callWith(`{}`)).status == 200
		})
		stream = false
		awaitBlock(t, func() answer { return r.post(callWith(`{}`)) })
		stream = true
		a := r.post(callWith(`{}`))
		if strings.Contains(a.body, "bob") || !strings.Contains(a.body, "-32001") {
			t.Errorf("event stream: %d %s", a.status, a.body)
		}
		await(t, func() bool { // the gateway answered the server's request in place of the client
			return slices.ContainsFunc(up.seen(), func(s seen) bool { return strings.Contains(s.body, `"id":9`) && strings.Contains(s.body, "-32001") })
		})
		all := r.all()
		if l := all[len(all)-1]; l["action"] != "deny" || l["error_kind"] != "governance_block" || firedOf(l) != "pol_0:block" || l["rule_id"] != nil {
			t.Errorf("line: %v", l)
		}
	})
}

// A notification that is withheld does not affect its call.
func TestGovernanceBlocksANotification(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"found bob@example.com"}}`+"\n\n")
		fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":7,"result":{"content":[]}}`+"\n\n")
	})
	g := &governor{}
	g.give(responsePII("block", "", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance, g)
	a := r.post(callWith(`{}`))
	if a.status != 200 || strings.Contains(a.body, "notifications") || !strings.Contains(a.body, `"content"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	lines := r.lines(3)
	if l := lines[1]; l["kind"] != "frame" || l["action"] != "deny" || l["error_kind"] != "governance_block" {
		t.Errorf("line of the frame: %v", l)
	}
	if l := lines[2]; l["action"] != "allow" || l["rule_id"] != "tools" || l["error_kind"] != nil || firedOf(l) != "pol_0:block" {
		t.Errorf("line of the call: %v", l)
	}
}

// A client's answer to a server request is judged as client content. When it is withheld, the
// gateway sends an error in its place, so that the server does not wait.
func TestGovernanceJudgesClientAnswers(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(requestPII("block", "", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance, g)
	a := r.post(`{"jsonrpc":"2.0","id":9,"result":{"action":"accept","content":{"m":"bob@example.com"}}}`)
	if a.status != http.StatusForbidden {
		t.Errorf("%d %s", a.status, a.body)
	}
	await(t, func() bool { return len(up.seen()) == 1 })
	if s := up.seen()[0].body; strings.Contains(s, "bob") || !strings.Contains(s, `"id":9`) || !strings.Contains(s, "-32001") {
		t.Errorf("the upstream got %s", s)
	}
}

// An answer on a resumed stream is subject to the policies of any tool, so that disconnecting
// does not bypass policies.
func TestGovernanceOnResumedStreams(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "s")
		if r.Method != http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-06-18"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[]}}\n\n")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"bob@example.com\"}}\n\n")
	})
	g := &governor{}
	g.give(api.GovernancePolicy{Phase: "response", Condition: api.Condition{Type: "tool_name", ToolName: "secret"}, Action: "block"},
		responsePII("redact", "replace", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance, g)
	session := r.post(`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`).header.Get("Mcp-Session-Id")
	a := r.do(http.MethodGet, r.url, "", "Accept", "text/event-stream", "Mcp-Session-Id", session, "Last-Event-Id", "0")
	if !strings.Contains(a.body, "-32001") || strings.Contains(a.body, `"content"`) {
		t.Errorf("the answer on a resumed stream: %d %s", a.status, a.body)
	}
	if strings.Contains(a.body, "bob") || !strings.Contains(a.body, "[EMAIL]") {
		t.Errorf("a notification on a resumed stream: %s", a.body)
	}
}

// Where a session has several upstreams, the gateway's error goes to the upstream that sent the
// request.
func TestGovernanceTellsTheUpstreamThatAsked(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	g := &governor{}
	g.give(requestPII("block", "", "EMAIL"))
	r := governedRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: rest, action: allow, when: {}}\n"+governance, g)
	sid := r.begin()
	second.call = func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, result)
	}
	if a := r.post(call("1", "slow"), "Mcp-Session-Id", sid); a.status != 200 { // opens the session at the second upstream
		t.Fatalf("%d %s", a.status, a.body)
	}
	id := string(session.Value("second", []byte("5")))
	if a := r.post(`{"jsonrpc":"2.0","id":`+id+`,"result":{"content":{"m":"bob@example.com"}}}`, "Mcp-Session-Id", sid); a.status != http.StatusForbidden {
		t.Errorf("%d %s", a.status, a.body)
	}
	eventually(t, "the second upstream got no error", func() bool { return len(second.sent(`"id":5`)) == 1 })
	if got := second.sent(`"id":5`)[0]; !strings.Contains(got.body, "-32001") || strings.Contains(got.body, "bob") || got.header.Get("Mcp-Session-Id") != "s1" {
		t.Errorf("it got %s with %v", got.body, got.header)
	}
	if n := len(first.seen()); n != 1 {
		t.Errorf("the first upstream got %d requests, want its initialize alone", n)
	}
}

// The official client and server work under policies, in both protocol generations and with both
// kinds of responses: redacted content arrives redacted, and a blocked call leaves the session
// open.
func TestGovernanceWithTheGoSDK(t *testing.T) {
	for name, options := range map[string]sdk.StreamableHTTPOptions{
		"2025 session, event streams":         {},
		"2025 session, JSON":                  {JSONResponse: true},
		"2026-07-28 stateless, event streams": {Stateless: true},
		"2026-07-28 stateless, JSON":          {Stateless: true, JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			up := newSDKServer(t, "up", &options)
			g := &governor{}
			g.give(requestPII("redact", "replace", "CREDIT_CARD"), requestPII("block", "", "API_KEY"), responsePII("redact", "replace", "EMAIL"),
				api.GovernancePolicy{Phase: "response", Condition: api.Condition{Type: "tool_name", ToolName: "slow"}, Action: "block"})
			r := governedRig(t, open(up.URL)+governance, g)
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			say := func(text string) (string, error) {
				got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{"text": text}})
				if err != nil {
					return "", err
				}
				return got.Content[0].(*sdk.TextContent).Text, nil
			}
			const text, want = "card " + cardNumber + " of bob@example.com", "up: card [CREDIT_CARD] of [EMAIL]"
			if got, err := say(text); got != want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
			if got, err := say("use AKIAIOSFODNN7EXAMPLE"); err == nil || !strings.Contains(err.Error(), "policy_denied") {
				t.Errorf("a key: %q, %v", got, err)
			}
			if got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "slow"}); err == nil || !strings.Contains(err.Error(), "policy_denied") {
				t.Errorf("an answer that is blocked: %v, %v", got, err)
			}
			if got, err := say("after"); got != "up: after" || err != nil {
				t.Errorf("after: %q, %v", got, err)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
