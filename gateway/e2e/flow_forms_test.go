package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/auth"
	"svc/gateway/policy/flow"
)

// remembered returns the labels that the gateway remembers of alice.
func (r *rig) remembered() string {
	r.t.Helper()
	s := r.services()
	names := s.Live.Load().Flow.Names()
	alice := auth.Principal{Kind: auth.KindKey, Value: "alice"}
	return strings.Join(names.In(s.Flow.Of(r.t.Context(), flow.Caller{Key: string(alice.AppendKey(nil))}, names)), " ")
}

// step is a use of a session, and the labels that alice has after it.
type step struct {
	name string
	do   func() error
	want string
}

// take takes steps in order, each at a gateway that remembers what the ones before have set.
func (r *rig) take(steps ...step) {
	r.t.Helper()
	for _, s := range steps {
		if err := s.do(); err != nil {
			r.t.Fatalf("%s: %v", s.name, err)
		}
		if got := r.remembered(); got != s.want {
			r.t.Errorf("after %s: %q, want %q", s.name, got, s.want)
		}
	}
}

// With federation and views labels are set by the names that clients see, by the upstream of each part
// of a list, and through mcp_call by the tool that it calls; in both generations.
func TestLabelsOfAFederation(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		for _, path := range []string{"", "/v/support"} {
			t.Run(fmt.Sprintf("stateless %v%s", stateless, path), func(t *testing.T) {
				r, _ := viewed(t, stateless, allowEverything+`
data_flow:
  labels:
    - {name: call, tool_name: crm_search}
    - {name: file, upstreams: [files]}
    - {name: index, uri_prefix: "crm://index"}
    - {name: own, tool_name: search}
`)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				session := r.connectTo(ctx, r.url+path, nil)
				r.take(
					step{"the start", func() error { return nil }, ""},
					step{"tools/list", func() error { _, err := session.ListTools(ctx, nil); return err }, ""},
					step{"resources/templates/list", func() error { _, err := session.ListResourceTemplates(ctx, nil); return err }, ""},
					step{"a call", func() error {
						_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "crm_search"})
						return err
					}, "call"},
					step{"a read", func() error {
						_, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: "crm://index"})
						return err
					}, "call index"},
					step{"resources/list", func() error { _, err := session.ListResources(ctx, nil); return err }, "call file index"},
				)
			})
		}
	}
}

// An mcp_call is judged as the call that it makes and sets the labels of that, and mcp_search sets those
// of a list of tools.
func TestLabelsOfToolSearch(t *testing.T) {
	t.Parallel()
	shop, mail := newToolServer(t, "shop", true, "order_get: Get an order"), newToolServer(t, "mail", true, "mail_send: Send a mail")
	r := newRig(t, strings.Replace(searching(shop.URL, mail.URL, "    - {id: no-mail, action: deny, when: {tool_name: mail_send, labels_all: [order]}}\n    - {id: rest, action: allow, when: {}}"), "max_results: 10", "max_results: 10, call: true", 1)+`
data_flow:
  labels:
    - {name: order, tool_name: order_get}
    - {name: search, tool_glob: "mcp_*"}
    - {name: shop, upstreams: [shop, mail]}
`)
	through := func(tool string) answer {
		return r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"name":%q,"arguments":{}}}}`, tool))
	}
	eventually(t, "no tool is found", func() bool { return len(r.ask("order")) > 0 })
	if got := r.remembered(); got != "" {
		t.Errorf("after a search: %q", got)
	}
	if got := through("mail_send"); got.status != 200 {
		t.Errorf("without labels: %d %s", got.status, got.body)
	}
	if got := through("order_get"); got.status != 200 {
		t.Errorf("a reader: %d %s", got.status, got.body)
	}
	if got := r.remembered(); got != "order shop" {
		t.Errorf("after the call of another tool: %q", got)
	}
	if got := through("mail_send"); got.status != 403 || r.lastLine()["rule_id"] != "no-mail" {
		t.Errorf("with the label: %d %s, %v", got.status, got.body, r.lastLine())
	}
}

// A question of a server of the other generation, and a call that continues with its answer, are judged
// and set labels as without translation.
func TestLabelsThroughTranslation(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} { // the server
		for _, federated := range []bool{false, true} {
			t.Run(fmt.Sprintf("stateless server %v, federated %v", stateless, federated), func(t *testing.T) {
				up := newGeneration(t, "up", stateless)
				config := strings.Replace(questionConfig(up.URL, stateless, federated, "method: none"), "    - {id: no-questions, action: deny, when: {direction: server_to_client, method: none}}\n",
					"    - {id: no-answer, action: deny, when: {tool_name: up_ask, labels_all: [asked, echoed]}}\n", 1)
				if stateless {
					config = legacyClients + config
				}
				r := newRig(t, config+"data_flow:\n  labels:\n    - {name: asked, tool_name: up_ask}\n    - {name: echoed, tool_name: up_echo}\n    - {name: stepped, tool_name: up_steps}\n")
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var session *sdk.ClientSession
				seen, echo := "", false
				session = r.connect(ctx, &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					seen = r.remembered()
					if echo {
						_, _ = session.CallTool(ctx, &sdk.CallToolParams{Name: "up_echo"})
					}
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
				}})
				ask := func() string {
					got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "up_ask"})
					if err != nil {
						return err.Error()
					}
					return got.Content[0].(*sdk.TextContent).Text
				}
				if got := ask(); got != "accept" || seen != "asked" {
					t.Errorf("a call with a question: %q, labels %q when it was asked\n%s", got, seen, r.logs)
				}
				echo = true
				if got := ask(); got == "accept" {
					t.Error("an answer passed with labels that restrict the tool")
				}
				denied := false
				for _, rec := range r.records() {
					denied = denied || rec.RuleID == "no-answer" && rec.Action == "deny"
				}
				if !denied {
					t.Errorf("no line has the denial: %v", r.all())
				}
				if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "up_steps"}); err != nil || r.remembered() != "asked echoed stepped" {
					t.Errorf("%v, labels %q", err, r.remembered())
				}
			})
		}
	}
}

// A program that all callers share sets the labels of the caller whose call it answers.
func TestLabelsOfASharedProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, "default_upstream: files\nroutes: [{match: {tool_name: '*'}, upstream: files}]\n"+allowEverything+"\nupstreams:\n"+stdioUpstream("files", ", sharing: all")+
		"data_flow:\n  labels:\n    - {name: worked, tool_name: work}\n    - {name: echoed, tool_name: echo}\n")
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	session := r.connect(ctx, nil)
	if got := r.post(call("1", "echo"), "Authorization", "Bearer "+r.other); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	r.take(step{"a call of another caller", func() error { return nil }, ""}, step{"a call", func() error {
		p := &sdk.CallToolParams{Name: "work"}
		p.SetProgressToken("t")
		_, err := session.CallTool(ctx, p)
		return err
	}, "worked"})
}

// Header fields of an upstream's response that are forwarded set its labels, in whatever response they come, and so
// do its prompts.
func TestLabelsOfHeadersAndPrompts(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		if r.Header.Get("X-Ask") != "" {
			w.Header().Set("X-Said", "read this")
		}
		switch {
		case strings.Contains(body, `"method":"notifications/`):
			w.WriteHeader(http.StatusAccepted)
		case strings.Contains(body, `"method":"ping"`):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":7,"result":{}}`)
		default:
			echo(w, body, r)
		}
	})
	const notification = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	for _, tt := range []struct{ name, forward, body, ask, want string }{
		{"a header of an empty answer", "X-Said, X-Ask", rpc("ping", ""), "1", "said"},
		{"a header without a message", "X-Said, X-Ask", notification, "1", "said"},
		{"no header", "X-Said, X-Ask", rpc("ping", ""), "", ""},
		{"no header and no message", "X-Said, X-Ask", notification, "", ""},
		{"a header that is not forwarded", "X-Ask", rpc("ping", ""), "1", ""},
		{"a prompt", "X-Ask", rpc("prompts/get", `"name":"a"`), "", "said"},
		{"a completion", "X-Ask", rpc("completion/complete", `"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"a","value":"a"}`), "", "said"},
		{"a list of prompts", "X-Ask", rpc("prompts/list", ""), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, allowEverything+"\ndefault_upstream: main\nupstreams: [{name: main, url: "+up.URL+"}]\nforward_headers: ["+tt.forward+
				"]\ndata_flow: {labels: [{name: said, upstreams: [main]}, {name: prompt, tool_name: a}]}\n")
			headers := []string{"X-Ask", tt.ask}
			if tt.ask == "" {
				headers = nil
			}
			got := r.post(tt.body, headers...)
			if forwarded := strings.Contains(tt.forward, "X-Said") && tt.ask != ""; got.status >= 300 || (got.header.Get("X-Said") != "") != forwarded {
				t.Errorf("%d %s, X-Said %q", got.status, got.body, got.header.Get("X-Said"))
			}
			if has := r.remembered(); has != tt.want {
				t.Errorf("labels %q, want %q", has, tt.want)
			}
		})
	}
}
