package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ownAnswersFile has the probes, and what each server answers; test/clients/answers.mjs asks the
// servers of the TypeScript SDKs.
const ownAnswersFile = "testdata/own_answers.json"

var updateAnswers = flag.Bool("update-answers", false, "write the answers of the Go SDK's server and of the gateway to "+ownAnswersFile)

// answerProbe is a request that the gateway's own endpoint answers as servers of the official SDKs do,
// unless there is a reason for a difference.
type answerProbe struct {
	Name string `json:"name"`
	// Generation is 2025 or 2026.
	Generation string `json:"generation"`
	// Session is the state of the session that the request names: opened by initialize, ready after
	// notifications/initialized, streaming with a GET stream, deleted, or unknown; empty for none.
	Session string            `json:"session"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"` // in addition to the usual ones; empty for none
	Body    string            `json:"body"`
	// The answers: the status; the code of the JSON-RPC error, result, or text, or stream for a
	// stream that stays open; session with a session id; and further headers.
	Go      string `json:"go"`
	TS1     string `json:"ts1"`
	TS2     string `json:"ts2"`
	Gateway string `json:"gateway"`
	// Reason is why the gateway differs from the Go SDK's server.
	Reason string `json:"reason"`
}

var rpcCode = regexp.MustCompile(` -32\d+`)

// sameAnswer reports whether the gateway answers as a server does. Where the server refuses in plain
// text, the gateway sends a JSON-RPC error with the same status.
func sameAnswer(gateway, server string) bool {
	return gateway == server || strings.Contains(server, " text") && rpcCode.ReplaceAllString(gateway, " text") == server
}

// The gateway's own endpoint answers as a server on the official Go SDK, except where
// docs/federation.md gives a reason.
func TestOwnAnswersAreThoseOfTheGoSDK(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "one", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "a", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
	})
	server.AddPrompt(&sdk.Prompt{Name: "p"}, nil)
	server.AddResource(&sdk.Resource{Name: "r", URI: "a://r"}, nil)
	get := func(*http.Request) *sdk.Server { return server }
	direct := httptest.NewServer(sdk.NewStreamableHTTPHandler(get, nil))
	t.Cleanup(direct.Close)
	// With sessions the SDK's server rejects the revision 2026-07-28.
	modern := httptest.NewServer(sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(modern.Close)
	r := newRig(t, federated("  - {name: one, url: "+direct.URL+"}", allowEverything))
	data, err := os.ReadFile(ownAnswersFile)
	if err != nil {
		t.Fatal(err)
	}
	var probes []answerProbe
	if err := json.Unmarshal(data, &probes); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/federation.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for i := range probes {
		p := &probes[i]
		goSDK, gateway := p.ask(t, map[string]string{"2025": direct.URL, "2026": modern.URL}[p.Generation], ""), p.ask(t, r.url, r.key)
		if *updateAnswers {
			p.Go, p.Gateway = goSDK, gateway
		}
		at := p.Generation + " " + p.Name
		if goSDK != p.Go || gateway != p.Gateway {
			t.Errorf("%s: the SDK's server %q, want %q; the gateway %q, want %q", at, goSDK, p.Go, gateway, p.Gateway)
		}
		if sameAnswer(gateway, goSDK) != (p.Reason == "") {
			t.Errorf("%s: the gateway %q, servers %q, %q, %q; reason for a difference: %q", at, gateway, goSDK, p.TS1, p.TS2, p.Reason)
		}
		if p.Reason != "" {
			rows++
			if row := p.row(); !strings.Contains(string(page), row) {
				t.Errorf("docs/federation.md does not have\n%s", row)
			}
		}
	}
	if listed := strings.Count(string(page), "\n| 2025 |") + strings.Count(string(page), "\n| 2026 |"); listed != rows || len(probes) < 100 {
		t.Errorf("docs/federation.md has %d differences, want %d; %d probes", listed, rows, len(probes))
	}
	if *updateAnswers {
		var out bytes.Buffer
		for i := range probes {
			var line bytes.Buffer
			e := json.NewEncoder(&line)
			e.SetEscapeHTML(false)
			if err := e.Encode(probes[i]); err != nil {
				t.Fatal(err)
			}
			out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0] + strings.TrimSpace(line.String()))
		}
		if err := os.WriteFile(ownAnswersFile, []byte(out.String()+"\n]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// row is the line of the table in docs/federation.md.
func (p *answerProbe) row() string {
	cells := []string{p.Generation, p.Name}
	for _, answer := range []string{p.Go, p.TS1, p.TS2, p.Gateway} {
		if answer == "" {
			answer = "–"
		}
		cells = append(cells, answer)
	}
	return "| " + strings.Join(append(cells, p.Reason), " | ") + " |\n"
}

// ask opens the session of the probe at a server and returns the answer.
func (p *answerProbe) ask(t *testing.T, url, key string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context()) // ends streams
	defer cancel()
	do := func(method, body string, headers map[string]string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		for name, value := range headers {
			if req.Header.Del(name); value != "" {
				req.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	headers := map[string]string{}
	switch p.Session {
	case "":
	case "unknown":
		headers["Mcp-Session-Id"] = "nobody"
		headers["MCP-Protocol-Version"] = "2025-11-25"
	default:
		opened := do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, nil)
		_, _ = io.Copy(io.Discard, opened.Body)
		headers["Mcp-Session-Id"] = opened.Header.Get("Mcp-Session-Id")
		headers["MCP-Protocol-Version"] = "2025-11-25"
		if p.Session != "opened" {
			do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers)
		}
		switch p.Session {
		case "streaming":
			do("GET", "", headers)
		case "deleted":
			do("DELETE", "", headers)
		}
	}
	for name, value := range p.Headers {
		headers[name] = value
	}
	resp := do(p.Method, p.Body, headers)
	what, media := "", ""
	if resp.StatusCode == 200 && p.Method == "GET" {
		what, media = " stream", "text/event-stream"
	} else if text, _ := io.ReadAll(resp.Body); len(text) > 0 {
		what, media = kindOf(string(text)), "application/json"
	}
	// The gateway's own answers are JSON; what an upstream answers to a call keeps its form.
	if got := resp.Header.Get("Content-Type"); key != "" && got != media && p.Method != "HEAD" && !strings.Contains(p.Body, `"name":"a"`) {
		t.Errorf("%s %s: Content-Type %q, want %q", p.Generation, p.Name, got, media)
	}
	if resp.Header.Get("Mcp-Session-Id") != "" && resp.Header.Get("Mcp-Session-Id") != headers["Mcp-Session-Id"] {
		what += " session"
	}
	for _, name := range []string{"Allow", "WWW-Authenticate"} {
		if value := resp.Header.Get(name); value != "" {
			what += fmt.Sprintf(" %s: %s", name, value)
		}
	}
	return fmt.Sprint(resp.StatusCode) + what
}

// kindOf describes a body: the code of a JSON-RPC error, result, batch or text.
func kindOf(text string) string {
	if _, data, ok := strings.Cut(text, "data: {"); ok { // the first event with data
		text, _, _ = strings.Cut("{"+data, "\n")
	}
	var m struct {
		Result json.RawMessage
		Error  *struct{ Code int }
	}
	switch err := json.Unmarshal([]byte(text), &m); {
	case err != nil && strings.HasPrefix(text, "["):
		return " batch"
	case err != nil:
		return " text"
	case m.Error != nil:
		return fmt.Sprint(" ", m.Error.Code)
	}
	return " result"
}
