package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"svc/store/api"
)

// listing answers every tools/list with the same tools.
func listing(w http.ResponseWriter, body string, r *http.Request) {
	if !strings.Contains(body, `"tools/list"`) {
		echo(w, body, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"safe"},{"name":"admin_reset"},{"name":"danger"}]}}`)
}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// A list has for each caller the tools that the claims of its token let it call.
func TestFilterListsByClaims(t *testing.T) {
	up := newUpstream(t, listing)
	o := newOAuthRig(t, up.URL, "", "", `    - {id: admins, action: allow, when: {tool_prefix: admin_, claims: {groups: [admins]}}}
    - {id: safe, action: allow, when: {tool_name: safe}}
  filter_lists: true`, nil)
	for _, tt := range []struct {
		name, token, want string
	}{
		{"a key", o.apiKey, `[{"name":"safe"}]`},
		{"a token without the group", o.token(nil), `[{"name":"safe"}]`},
		{"a token with it", o.token(map[string]any{"groups": []string{"admins"}}), `[{"name":"safe"},{"name":"admin_reset"}]`},
		{"the first again", o.apiKey, `[{"name":"safe"}]`},
	} {
		got := o.post(listTools, "Authorization", "Bearer "+tt.token)
		if want := `{"jsonrpc":"2.0","id":1,"result":{"tools":` + tt.want + `}}`; got.status != 200 || got.body != want {
			t.Errorf("%s: got %d %s, want %s", tt.name, got.status, got.body, want)
		}
	}
}

// Without filter_lists a list is forwarded unchanged.
func TestFilterListsIsOffUnlessAskedFor(t *testing.T) {
	up := newUpstream(t, listing)
	r := newRig(t, basic(up.URL))
	if got := r.post(listTools); !strings.Contains(got.body, "danger") {
		t.Errorf("got %s", got.body)
	}
	r.edit("  default_action: deny\n", "  default_action: deny\n  filter_lists: true\n")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.post(listTools); !strings.Contains(got.body, `[{"name":"safe"}]`) {
		t.Errorf("after a reload: %s", got.body)
	}
}

// A list that arrives on a resumed stream is filtered too.
func TestFilterListsOnResumedStreams(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		if r.Method != http.MethodGet {
			echo(w, body, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: 2\ndata: %s\n\n", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"danger"},{"name":"safe"}]}}`)
	})
	r := newRig(t, strings.Replace(basic(up.URL), "  rules:", "  filter_lists: true\n  rules:", 1))
	got := r.do(http.MethodGet, r.url, "", "Accept", "text/event-stream", "Last-Event-ID", "1")
	if got.status != 200 || !strings.Contains(got.body, `{"tools":[{"name":"safe"}]}`) {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// A tool that a policy of the control plane blocks by name is neither listed nor found, for the
// agents that the policy applies to.
func TestListsHideWhatGovernanceBlocks(t *testing.T) {
	shop := newToolServer(t, "shop", true, "order_get: tool", "order_delete: tool")
	g := &governor{}
	g.give(api.GovernancePolicy{Phase: "request", Action: "block", Condition: api.Condition{Type: "tool_name", ToolName: "*_delete"}})
	config := strings.Replace(searching(shop.URL, shop.URL, `    - {id: all, action: allow, when: {tool_name: "*"}}`), "policy:", "policy:\n  filter_lists: true", 1)
	r := governedRig(t, config+governance, g)
	if got := r.ask("tool"); len(got) != 1 || got[0] != "shop/order_get" {
		t.Errorf("found %v", got)
	}
	r.stop()
	r.edit("mode: synthesize", "mode: passthrough")
	r.start()
	await(t, func() bool {
		got := r.post(listTools)
		return got.status == 200 && strings.Contains(got.body, "order_get") && !strings.Contains(got.body, "order_delete")
	})
	if got := r.post(call("1", "order_delete")); got.status != 403 {
		t.Errorf("call: %d %s", got.status, got.body)
	}
}
