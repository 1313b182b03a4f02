package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/mcp"
)

// elicitor is a stateful upstream whose tool asks the user, and which can tell
// its clients that its tools have changed.
func elicitor(t *testing.T, tool string) (*sdk.Server, *httptest.Server) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: tool, Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: tool}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		answer, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "ask " + tool})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: tool + " " + answer.Action}}}, nil, nil
	})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return server, h
}

// twoUpstreams is a configuration whose tool "safe" lives at the default
// upstream and whose tool "slow" at the second.
func twoUpstreams(first, second string) string {
	return strings.Replace(basic(first), "routes:\n", "  - name: second\n    url: "+second+"\nroutes:\n  - match: {tool_name: slow}\n    upstream: second\n", 1)
}

// One client session works with two stateful upstreams: a server request from
// the second reaches the client and its answer the second; notifications of both
// come over the one standalone stream; DELETE ends both.
func TestSessionAcrossTwoUpstreams(t *testing.T) {
	firstServer, first := elicitor(t, "safe")
	secondServer, second := elicitor(t, "slow")
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: answers, action: allow, when: {}}\n")
	var asked, changed atomic.Int32
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked.Add(1)
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed.Add(1) },
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"safe", "slow", "slow"} {
		got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		if s := got.Content[0].(*sdk.TextContent).Text; s != tool+" accept" {
			t.Errorf("%s answered %q", tool, s)
		}
	}
	if asked.Load() != 3 {
		t.Errorf("the client was asked %d times, want 3", asked.Load())
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for i := 0; !ok(); i++ {
			if i == 500 {
				t.Fatal(what)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	extra := func(s *sdk.Server, name string) {
		sdk.AddTool(s, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return nil, nil, nil
		})
	}
	// The merged stream may still be opening at either upstream: add until heard.
	for i, s := range []*sdk.Server{firstServer, secondServer} {
		before := changed.Load()
		n := 0
		await("a tool list change did not arrive", func() bool {
			if n%50 == 0 {
				extra(s, "extra"+string(rune('a'+i))+string(rune('a'+n/50)))
			}
			n++
			return changed.Load() > before
		})
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	count := func(s *sdk.Server) (n int) {
		for range s.Sessions() {
			n++
		}
		return n
	}
	await("DELETE left a session open", func() bool { return count(firstServer) == 0 && count(secondServer) == 0 })
}

// An upstream that lost its session is opened once more, and the call goes
// through.
func TestLostUpstreamSessionIsOpenedAgain(t *testing.T) {
	first := newSDKServer(t, "first", &sdk.StreamableHTTPOptions{})
	var handler atomic.Pointer[http.Handler]
	fresh := func() {
		server := sdk.NewServer(&sdk.Implementation{Name: "second", Version: "1"}, nil)
		sdk.AddTool(server, &sdk.Tool{Name: "slow"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok"}}}, nil, nil
		})
		var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
		handler.Store(&h)
	}
	fresh()
	second := newUpstream(t, nil)
	second.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) })
	r := newRig(t, twoUpstreams(first.URL, second.URL))
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for i := range 3 {
		if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "slow", Arguments: map[string]any{}}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		fresh() // a restart: every session is gone
	}
}

func TestTags(t *testing.T) {
	for _, name := range []string{"second", "a~b", "50%", "a~b~1", "%7E"} {
		for _, raw := range []string{`1`, `"a"`, `"with \"quotes\" and ~ tildes"`, `""`, `-5`} {
			up, value, tagged, ok := untagValue(tagValue(name, []byte(raw)))
			if !tagged || !ok || up != name || string(value) != raw {
				t.Errorf("%s at %s became %q %s %v %v", raw, name, up, value, tagged, ok)
			}
		}
		src := &source{tag: tagPost, up: &target{name: name}}
		if up, id, ok := untagPost(string(src.tagEvent([]byte("1~2")))); !ok || up != name || id != "1~2" {
			t.Errorf("event id at %s became %q %q %v", name, up, id, ok)
		}
	}
	for _, foreign := range []string{``, `1`, `"svc"`, `"other~x~1"`, `["svc~x~1"]`} {
		if _, _, tagged, ok := untagValue([]byte(foreign)); tagged || ok {
			t.Errorf("%s was taken for a tag", foreign)
		}
	}
	long := strings.Repeat("1", mcp.MaxIDDigits+1)
	for _, forged := range []string{
		`"svc~"`, `"svc~x"`, `"svc~x~"`, `"svc~~1"`, `"svc~%zz~1"`, `"svc~x~nope"`, `"svc~x~1 "`, `"svc~x~ 1"`, `"svc~x~1,2"`, `"svc~x~1.5"`, `"svc~x~1e3"`,
		`"svc~x~01"`, `"svc~x~-"`, `"svc~x~null"`, `"svc~x~{}"`, `"svc~x~[1]"`, `"svc~x~\"a\",\"b\":\"c\""`, `"svc~x~\"a"`, `"svc~x~\"\\ud800\""`, `"svc~x~\"\u0001\""`,
		`"svc~x~1},\"id\":77,\"x\":{\"y\":1"`, `"svc~x~` + long + `"`, `"svc~x~\"` + strings.Repeat("a", mcp.MaxID) + `\""`, `"\u0073vc~x~nope"`,
	} {
		if _, _, tagged, ok := untagValue([]byte(forged)); !tagged || ok {
			t.Errorf("%.60s: tagged %v, issued %v", forged, tagged, ok)
		}
	}
	src := &source{tag: tagPost, up: &target{name: "second"}}
	up, id, ok := untagPost(string(src.tagEvent([]byte("a~b_0"))))
	if !ok || up != "second" || id != "a~b_0" {
		t.Errorf("event id became %q %q %v", up, id, ok)
	}
	for _, foreign := range []string{"", "7", "x~y~z", "p~second", "g~second=1"} {
		if _, _, ok := untagPost(foreign); ok {
			t.Errorf("%q was taken for the event id of an answer", foreign)
		}
	}
}

// An event id of the merged stream says how far the client came everywhere.
func TestStandingEventIDHoldsAllPositions(t *testing.T) {
	at := untagStanding("")
	first := &source{tag: tagStanding, up: &target{name: "first"}, at: at}
	second := &source{tag: tagStanding, up: &target{name: "second"}, at: at}
	first.tagEvent([]byte("1"))
	second.tagEvent([]byte("a&b=c ~"))
	back := untagStanding(string(first.tagEvent([]byte("2"))))
	if back.of("first") != "2" || back.of("second") != "a&b=c ~" || back.of("third") != "" {
		t.Errorf("got %v", back.at)
	}
	for _, foreign := range []string{"7", "p~first~1", "g~%zz", "g~" + strings.Repeat("x", maxPositions+1)} {
		if p := untagStanding(foreign); len(p.at) != 0 {
			t.Errorf("%.20q became %v", foreign, p.at)
		}
	}
	long := untagStanding("")
	other := &source{tag: tagStanding, up: &target{name: "other"}, at: long}
	other.tagEvent([]byte(strings.Repeat("x", maxPositions)))
	src := &source{tag: tagStanding, up: &target{name: "second"}, at: long}
	if got := string(src.tagEvent([]byte("1"))); got != "g~second=1" {
		t.Errorf("an overlong position became %.40q", got)
	}
}
