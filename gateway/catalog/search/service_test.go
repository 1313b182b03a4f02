package search

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
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
	s := &Service{Refresher: New(Options{})}
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
		s := &Service{Refresher: open([]source{{"u", f}}, Options{Route: everywhere("u"), Reserved: Name, Interval: time.Minute}), MaxResults: 10}
		stop := running(s.Refresher)
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
		s := &Service{Refresher: open([]source{{"u", &fake{tools: `{"name":"order_get"}`}}}, Options{Route: everywhere("u"), Interval: time.Minute}), MaxResults: 10}
		began := time.Now()
		got, refused := s.Answer(context.Background(), nil, scanned(t, search(`{"query":"order"}`)), "", func(string, string) bool { return true })
		if refused != nil || strings.Contains(string(got), "order_get") || time.Since(began) != awaitLists {
			t.Errorf("%s, %+v after %s", got, refused, time.Since(began))
		}
	})
}

// merged has one tool, in a catalog for each call that is in use until release.
type merged struct {
	t          *testing.T
	used, ends int
}

func (m *merged) Tools(context.Context, *upstream.Caller) (tools *catalog.Catalog, release func()) {
	names, err := catalog.NewNames([]catalog.Naming{{Upstream: "u"}})
	if err != nil {
		m.t.Fatal(err)
	}
	owners, err := catalog.OpenOwners("", []catalog.Identity{{Upstream: "u"}})
	if err != nil {
		m.t.Fatal(err)
	}
	l := catalog.Listing{Upstream: "u"}
	l.Items[mcp.Tool] = [][]byte{[]byte(`{"name":"order_get","inputSchema":{"type":"object","properties":{"id":{"type":"string","x-mcp-header":"Id"}}}}`)}
	m.used++
	return catalog.Build(names, owners, nil, []catalog.Listing{l}), func() { m.ends++ }
}

// The lists that were read for one call (limits.body_bytes) are released when the result is
// complete, or the headers are written, and their index is not kept.
func TestListsOfOneCallAreReleasedAfterTheirUse(t *testing.T) {
	lists := &merged{t: t}
	s := &Service{Merged: lists, MaxResults: 10}
	asked := 0
	got, refused := s.Answer(t.Context(), nil, scanned(t, search(`{"query":"order"}`)), "", func(_, tool string) bool {
		if asked++; lists.ends != 0 {
			t.Errorf("released before %s was found", tool)
		}
		return true
	})
	if refused != nil || !strings.Contains(string(got), "order_get") || asked == 0 || lists.used != 1 || lists.ends != 1 || len(s.indexes.kept) != 0 {
		t.Errorf("%s %+v: asked %d times, %d lists, %d released, %d indexes kept", got, refused, asked, lists.used, lists.ends, len(s.indexes.kept))
	}
	var h mcp.Header
	s.Mirror(t.Context(), nil, &h, scanned(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order_get","arguments":{"id":"7"}}}`), "")
	if h.Get(mcp.HeaderParamPrefix+"Id") != "7" || lists.used != 2 || lists.ends != 2 {
		t.Errorf("%v: %d lists, %d released", h, lists.used, lists.ends)
	}
}
