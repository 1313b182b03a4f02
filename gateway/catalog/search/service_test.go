package search

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

func scanned(t *testing.T, body string) *mcp.Message {
	t.Helper()
	m := new(mcp.Message)
	if err := mcp.Scan([]byte(body), m); err != nil {
		t.Fatal(err)
	}
	return m
}

func search(arguments string) string {
	return `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"mcp_search","arguments":` + arguments + `}}`
}

func TestWhatTheServiceTakes(t *testing.T) {
	s := new(Service)
	for body, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`: true,
		search(`{}`): true,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}`:       false,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"mcp_search"}}`: false,
		`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`:                             false,
	} {
		if got := s.Takes(scanned(t, body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
		if (*Service)(nil).Takes(scanned(t, body)) {
			t.Errorf("%s: taken by no service", body)
		}
	}
	if (*Service)(nil).Stats() != nil {
		t.Error("no service has lists")
	}
}

// A caller finds the tools that it may call, and of other tools not even the
// name.
func TestTheServiceAnswersWithWhatTheCallerMayCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{tools: `{"name":"order_get","description":"Look an order up"},{"name":"order_delete","description":"Delete an order"}`}
		s := open([]source{{"u", f}}, Options{Route: everywhere("u"), Interval: time.Minute})
		stop := running(s)
		defer stop()
		const capable = `"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}`
		only := func(names ...string) func(string, string) bool {
			return func(_, tool string) bool { return slices.Contains(names, tool) }
		}
		for _, tt := range []struct {
			name, body string
			modern     bool
			may        func(string, string) bool
			has        []string
			hasNot     string
			want       *refusal.Refusal
		}{
			{"the list", `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`, false, only(Name), []string{`"id":4`, `"name":"mcp_search"`}, "order_get", nil},
			{"the list of the revision without sessions", `{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{` + capable + `}}`, true, only(Name), []string{`"cacheScope":"private"`}, "order_get", nil},
			{"the list of who may not search", `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`, false, only("order_get"), []string{`"tools":[]`}, "mcp_search", nil},
			{"a second page", `{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":"x"}}`, false, only(Name), nil, "", &refusal.SearchCursor},
			{"a search", search(`{"query":"order"}`), false, only("order_get", "order_delete"), []string{"order_get", "order_delete"}, "resultType", nil},
			{"the list of a client that does not declare what it can", `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`, true, only(Name), nil, "", &refusal.ClientCapabilities},
			{"a search of who may call one", search(`{"query":"order"},` + capable), true, only("order_get"), []string{"order_get", `"resultType":"complete"`}, "order_delete", nil},
			{"one result", search(`{"query":"look an order up","limit":1}`), false, only("order_get", "order_delete"), []string{"order_get"}, "order_delete", nil},
			{"no query", search(`{}`), false, only(), nil, "", &refusal.SearchQuery},
			{"a long query", search(`{"query":"` + strings.Repeat("x", MaxQuery+1) + `"}`), false, only(), nil, "", &refusal.SearchQuerySize},
			{"no limit", search(`{"query":"x","limit":0}`), false, only(), nil, "", &refusal.SearchLimit},
			{"anything else", search(`{"query":"x","page":1}`), false, only(), nil, "", &refusal.SearchArguments},
		} {
			version := ""
			if tt.modern {
				version = mcp.Revision20260728
			}
			got, refused := s.Answer(t.Context(), nil, scanned(t, tt.body), version, tt.may)
			if refused != tt.want || refused != nil && got != nil {
				t.Errorf("%s: %+v", tt.name, refused)
				continue
			}
			for _, has := range tt.has {
				if !strings.Contains(string(got), has) {
					t.Errorf("%s: no %s in %s", tt.name, has, got)
				}
			}
			if tt.hasNot != "" && strings.Contains(string(got), tt.hasNot) {
				t.Errorf("%s: %s in %s", tt.name, tt.hasNot, got)
			}
		}
	})
}

// Right after the start a search waits for the lists, for a bounded time.
func TestASearchWaitsForTheFirstLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open([]source{{"u", &fake{tools: `{"name":"order_get"}`}}}, Options{Route: everywhere("u"), Interval: time.Minute})
		began := time.Now()
		got, refused := s.Answer(context.Background(), nil, scanned(t, search(`{"query":"order"}`)), "", func(string, string) bool { return true })
		if refused != nil || strings.Contains(string(got), "order_get") || time.Since(began) != awaitLists {
			t.Errorf("%s, %+v after %s", got, refused, time.Since(began))
		}
	})
}

// The lists that were read for one call (limits.body_bytes) are released when the result is
// complete, or the headers are written, and their index is not kept.
func TestListsOfOneCallAreReleasedAfterTheirUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{tools: `{"name":"order_get","inputSchema":{"type":"object","properties":{"id":{"type":"string","x-mcp-header":"Id"}}}}`, hints: `,"cacheScope":"private"`}
		held := bodies.New()
		held.SetLimit(1 << 20)
		names, err := catalog.NewNames([]catalog.Naming{{Upstream: "u"}})
		if err != nil {
			t.Fatal(err)
		}
		owners, err := catalog.OpenOwners("", []catalog.Identity{{Upstream: "u"}})
		if err != nil {
			t.Fatal(err)
		}
		reader := catalog.NewReader(catalog.ReaderOptions{
			Upstreams: []upstream.Config{{Name: "u"}}, Targets: map[string]*upstream.Upstream{"u": {Direct: f}}, Timeout: time.Second, Now: time.Now, Bodies: held,
		})
		merged := catalog.NewMerge(catalog.MergeOptions{
			Lists: reader, Feeds: reader.Feeds(), Need: catalog.Need{Kinds: []mcp.ListKind{mcp.Tool}, Interval: time.Minute, Merged: true},
			Names: names, Owners: owners, Wait: time.Second, Now: time.Now, Changed: func(_, _ *catalog.Snapshot) {},
		})
		s := New(Options{Lists: reader, Merged: merged, MaxResults: 10})
		defer running(s)()
		c := &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: "192.0.2.1"}}
		asked := 0
		got, refused := s.Answer(t.Context(), c, scanned(t, search(`{"query":"order"}`)), "", func(_, tool string) bool {
			if asked++; held.Held() == 0 {
				t.Errorf("released before %s was found", tool)
			}
			return true
		})
		if refused != nil || !strings.Contains(string(got), "order_get") || asked == 0 || held.Held() != 0 || len(s.indexes.kept) != 0 {
			t.Errorf("%s %+v: asked %d times, %d bytes are counted, %d indexes kept", got, refused, asked, held.Held(), len(s.indexes.kept))
		}
		var h mcp.Header
		s.Mirror(t.Context(), c, &h, scanned(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order_get","arguments":{"id":"7"}}}`), "")
		if h.Get(mcp.HeaderParamPrefix+"Id") != "7" || held.Held() != 0 {
			t.Errorf("%v: %d bytes are counted", h, held.Held())
		}
		if s.Stats() != nil {
			t.Errorf("with merged lists there are states of lists: %+v", s.Stats())
		}
	})
}
