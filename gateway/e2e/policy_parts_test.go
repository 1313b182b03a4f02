package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Each upstream's items and instructions are judged as an answer of that upstream: a rule that
// denies those of one omits them, a rule that redacts those of another changes them alone, and
// the list is answered.
func TestRulesJudgeThePartsOfMergedAnswers(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless %v", stateless), func(t *testing.T) {
			crm := newToolServer(t, "crm", stateless, "search: Find a secret customer")
			web := newToolServer(t, "web", stateless, "search: Search the secret web")
			files := newToolServer(t, "files", stateless, "read: Read a secret file")
			for _, s := range []*toolServer{crm, web, files} {
				s.offer(s.name)
			}
			generation := ""
			if !stateless {
				generation = legacyClients
			}
			r := newRig(t, generation+federated(fmt.Sprintf(`
  - {name: crm, url: %s, prefix: crm_}
  - {name: web, url: %s, prefix: web_}
  - {name: files, url: %s, prefix: files_}`, crm.URL, web.URL, files.URL), `
policy:
  default_action: allow
  rules:
    - {id: no-crm, action: deny, when: {direction: server_to_client, upstream: [crm]}}
    - {id: mask-web, action: redact, when: {direction: server_to_client, upstream: [web]}, redact: [{regex: secret, replacement: '***'}]}
    - {id: no-calls-of-files, action: deny, when: {upstream: [files], method: tools/call}}`))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session := r.connect(ctx, nil)

			if text := session.InitializeResult().Instructions; strings.Contains(text, "secret crm") || !strings.Contains(text, "*** web") || !strings.Contains(text, "secret files") {
				t.Errorf("instructions: %q", text)
			}
			got, err := session.ListTools(ctx, nil)
			if err != nil {
				t.Fatalf("%v\n%s", err, r.logs.String())
			}
			var tools []string
			for _, tool := range got.Tools {
				tools = append(tools, tool.Name+": "+tool.Description)
			}
			// A tool that may not be called is not listed.
			if want := []string{"web_search: Search the *** web"}; !slices.Equal(tools, want) {
				t.Errorf("tools: %q, want %q", tools, want)
			}
			prompts, err := session.ListPrompts(ctx, nil)
			if err != nil || len(prompts.Prompts) != 2 {
				t.Errorf("prompts: %+v, %v", prompts, err)
			}
			for tool, may := range map[string]bool{"web_search": true, "crm_search": false, "files_read": false} {
				if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"text": "hello"}}); (err == nil) != may {
					t.Errorf("%s: %v", tool, err)
				}
			}
			if _, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: "files_greet", Arguments: map[string]string{"who": "you"}}); err != nil {
				t.Error(err)
			}
			for _, line := range r.all() {
				switch {
				case line["method"] == "tools/list":
					if line["action"] != "redact" || line["rule_id"] != "mask-web" || fmt.Sprint(line["left_out"]) != "[map[rule_id:no-crm upstream:crm]]" || line["status"] != float64(200) {
						t.Errorf("line %v", line)
					}
				case line["tool"] == "files_read":
					if line["rule_id"] != "no-calls-of-files" || line["upstream"] != "files" {
						t.Errorf("line %v", line)
					}
				}
			}
		})
	}
}

// The parts of one answer are sent to the guardrail concurrently, and the results are in the
// order of the upstreams.
func TestAGuardrailIsAskedAboutAllPartsAtOnce(t *testing.T) {
	const upstreams = 20
	var (
		mu       sync.Mutex
		asked    int
		together = make(chan struct{}) // closed when the guardrail has all parts
	)
	guard := newGuard(t, func(body string) (int, string) {
		if !strings.Contains(body, "secret") {
			return 200, `{"action":"pass"}`
		}
		mu.Lock()
		if asked++; asked == upstreams {
			close(together)
		}
		mu.Unlock()
		select {
		case <-together:
		case <-time.After(5 * time.Second):
			return 500, ""
		}
		if strings.Contains(body, "u07_") {
			return 200, `{"action":"reject"}`
		}
		return masks("secret", "***")(body)
	})
	var text, want strings.Builder
	for i := range upstreams {
		s := newToolServer(t, "none", true, fmt.Sprintf("x: The secret %d", i))
		fmt.Fprintf(&text, "\n  - {name: u%02d, url: %s, prefix: u%02d_}", i, s.URL, i)
		if i != 7 {
			fmt.Fprintf(&want, "u%02d_x: The *** %d\n", i, i)
		}
	}
	r := newRig(t, federated(text.String(), fmt.Sprintf(`
guardrails: [{name: dlp, url: %s/check, timeout: 10s}]
policy:
  default_action: allow
  rules: [{id: ask, action: guardrail, guardrail: dlp, when: {direction: server_to_client}}]`, guard.URL)))
	got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Result struct {
			Tools []struct{ Name, Description string }
		}
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var tools strings.Builder
	for _, tool := range list.Result.Tools {
		fmt.Fprintf(&tools, "%s: %s\n", tool.Name, tool.Description)
	}
	if tools.String() != want.String() {
		t.Errorf("tools:\n%s\nwant\n%s", tools.String(), want.String())
	}
	lines := r.all()
	if last := lines[len(lines)-1]; fmt.Sprint(last["left_out"]) != "[map[rule_id:ask upstream:u07]]" || last["action"] != "redact" {
		t.Errorf("line %v", last)
	}
}
