package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client is notified when the merged list changes, also by an upstream at which it has no
// session.
func TestClientsAreNotifiedOfChangesOfTheMergedList(t *testing.T) {
	one, two := newToolServer(t, "one", true, "a: A"), newToolServer(t, "two", false, "b: B")
	one.ttl, two.ttl = 1000, 1000
	r := newRig(t, federated(fmt.Sprintf(`
  - {name: one, url: %s, prefix: one_}
  - {name: two, url: %s, prefix: two_}`, one.URL, two.URL), allowEverything))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	changed := make(chan struct{}, 10)
	session := r.connect(ctx, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }})
	if tools, err := session.ListTools(ctx, nil); err != nil || len(tools.Tools) != 2 {
		t.Fatalf("%+v, %v", tools, err)
	}
	one.add("new", "New")
	select {
	case <-changed:
	case <-ctx.Done():
		t.Fatalf("no notification:\n%s\n%v", r.logs.String(), r.all())
	}
	if tools, err := session.ListTools(ctx, nil); err != nil || len(tools.Tools) != 3 {
		t.Fatalf("%+v, %v", tools, err)
	}
	if got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "one_new"}); err != nil || got.IsError {
		t.Errorf("%+v, %v", got, err)
	}
}

// An upstream that was down at the start is listed soon after a call to it has succeeded, not only
// after the pause of 30 s that follows its failure.
func TestAnUpstreamIsListedSoonAfterACallToIt(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	shop := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal([]byte(body), &m)
		result := map[string]string{
			"server/discover": `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}`,
			"tools/list":      `"tools":[{"name":"buy","inputSchema":{"type":"object"}}],"cacheScope":"public"`,
		}[m.Method]
		if result == "" {
			result = `"content":[]`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, m.ID, result)
	})
	r := newRig(t, federated(fmt.Sprintf("  - {name: shop, url: %s, prefix: shop_}", shop.URL), allowEverything))
	eventually(t, "the upstream was not found to be down", func() bool { return strings.Contains(r.logs.String(), "the lists of an upstream could not be read") })
	up.Store(true)
	if got := r.post(call("1", "shop_buy")); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	eventually(t, "the upstream is not listed", func() bool { return len(r.listedTools(r.key)) == 1 })
}

// A private list is read for each caller, and returned to that caller alone.
func TestPrivateListsAreShownToTheirCallersAlone(t *testing.T) {
	shop := newToolServer(t, "shop", true, "buy: Buy")
	var asked []string
	private := newUpstream(t, func(w http.ResponseWriter, body string, req *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal([]byte(body), &m)
		w.Header().Set("Content-Type", "application/json")
		meta := `"resultType":"complete","ttlMs":60000,"cacheScope":"private"`
		switch m.Method {
		case "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},%s}}`, m.ID, meta)
		case "tools/list":
			asked = append(asked, "tools/list")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"tool%d","inputSchema":{"type":"object"}}],%s}}`, m.ID, len(asked), meta)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	r := newRig(t, federated(fmt.Sprintf(`
  - {name: shop, url: %s, prefix: shop_}
  - {name: mine, url: %s, prefix: my_}`, shop.URL, private.URL), allowEverything))
	list := func(key string) []string {
		t.Helper()
		got := r.do(http.MethodPost, r.url, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer "+key)
		var list struct {
			Result struct{ Tools []struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		var names []string
		for _, tool := range list.Result.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	alice, bob := list(r.key), list(r.other)
	if len(alice) != 2 || len(bob) != 2 || alice[1] == bob[1] {
		t.Errorf("alice sees %v, bob %v", alice, bob)
	}
	if again := list(r.key); !slices.Equal(again, alice) {
		t.Errorf("alice sees %v, then %v", alice, again)
	}
}

// The cursors of a long list are valid for their caller and list alone.
func TestCursorsOfMergedLists(t *testing.T) {
	var tools []string
	for i := range 1500 {
		tools = append(tools, fmt.Sprintf("t%04d: Tool", i))
	}
	many := newToolServer(t, "many", true, tools...)
	r := newRig(t, federated(fmt.Sprintf(`
  - {name: many, url: %s, shared_lists: true}`, many.URL), allowEverything))
	page := func(key, method, cursor string) (n int, next, body string) {
		t.Helper()
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		got := r.do(http.MethodPost, r.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), "Authorization", "Bearer "+key)
		var list struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		if err := json.Unmarshal([]byte(got.body), &list); err != nil {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return len(list.Result.Tools), list.Result.NextCursor, got.body
	}
	n, next, _ := page(r.key, "tools/list", "")
	if n != 1000 || next == "" {
		t.Fatalf("%d tools, cursor %q\n%s", n, next, r.logs.String())
	}
	if n, last, _ := page(r.key, "tools/list", next); n != 500 || last != "" {
		t.Errorf("the second page: %d tools, cursor %q", n, last)
	}
	for name, try := range map[string][3]string{
		"of another caller": {r.other, "tools/list", next}, "of another list": {r.key, "prompts/list", next},
		"changed": {r.key, "tools/list", next[:len(next)-2] + "AA"}, "invented": {r.key, "tools/list", "1000"},
	} {
		if _, _, body := page(try[0], try[1], try[2]); !strings.Contains(body, "-32602") || !strings.Contains(body, "cursor_invalid") {
			t.Errorf("a cursor %s: %.200s", name, body)
		}
		if lines := r.all(); lines[len(lines)-1]["error_kind"] != "cursor_invalid" {
			t.Errorf("a cursor %s: line %v", name, lines[len(lines)-1])
		}
	}
}

// The documented rules remove apps whole: no list refers to one, and none can be read. strip_app
// alone leaves both.
func TestRulesThatRemoveApps(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal([]byte(body), &m)
		result := map[string]string{
			"initialize":     `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}}}`,
			"tools/list":     `{"tools":[{"name":"chart","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://plot/main"},"ui/resourceUri":"ui://plot/main"}}]}`,
			"resources/list": `{"resources":[{"uri":"ui://plot/main","name":"plot","mimeType":"text/html;profile=mcp-app"}]}`,
			"resources/read": `{"contents":[{"uri":"ui://plot/main","mimeType":"text/html;profile=mcp-app","text":"<p>page</p>"}]}`,
		}[m.Method]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
		case result == "":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
	})
	recipe, err := os.ReadFile("../../docs/cookbook/no-apps.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		rules string
		apps  bool
	}{
		"strip_app alone":      {"    - {id: apps, action: strip_app, when: {method: tools/call}}\n", true},
		"the documented rules": {strings.Split(string(recipe), "  rules:\n")[1], false},
	} {
		r := newRig(t, federated("  - {name: one, url: "+up.URL+"}", "policy:\n  default_action: deny\n  rules:\n"+tt.rules+"    - {id: all, action: allow, when: {}}\n"))
		headers := r.appClient("", showsApps, false).headers
		eventually(t, name+": the lists are not read", func() bool {
			return strings.Contains(r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, headers...).body, `"chart"`)
		})
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`,
			`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"ui://plot/main"}}`, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"\u0055I://plot/main"}}`,
		} {
			got := r.post(body, headers...)
			if strings.Contains(body, "I://") && tt.apps {
				continue // the upstream decides
			}
			if strings.Contains(got.body, "page") != (tt.apps && strings.Contains(body, "read")) || strings.Contains(got.body, `"ui://`) != tt.apps {
				t.Errorf("%s: %s: %d %s", name, body, got.status, got.body)
			}
		}
	}
}
