package federation

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
)

// A name without a known owner is looked up at once, in the shared lists and in those of the
// caller, but at most once in 5 s for each caller, however many requests name it.
func TestANameThatNobodyIsKnownToOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, private := &server{tools: []string{"x"}}, &server{modern: true, tools: []string{"p"}, scope: "private"}
		b := start(t, "", nil, shared, private)
		defer b.stop()
		_, _ = b.tools(key("other")) // the lists are read
		pass(10 * time.Second)
		route := func(caller, tool string) string {
			return b.Route(t.Context(), key(caller), message(t, tool), "").Upstream
		}
		shared.change(func(s *server) { s.tools = []string{"x", "new"} })
		private.change(func(s *server) { s.tools = []string{"p", "own"} })
		if got := route("k", "new"); got != "a" {
			t.Errorf("new is called at %q", got)
		}
		if got := route("k", "own"); got != "b" {
			t.Errorf("own is called at %q: the lookup for new reads all lists", got)
		}
		asked := func() (n int) {
			for _, s := range []*server{shared, private} {
				s.change(func(s *server) { n += s.lists })
			}
			return n
		}
		before := asked()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got := route("k", "nothing"); got != "" {
					t.Errorf("nothing is called at %q", got)
				}
			})
		}
		wg.Wait()
		if n := asked() - before; n != 0 {
			t.Errorf("%d lists were requested within 5 s of the last time", n)
		}
		pass(6 * time.Second)
		before = asked()
		for range 20 {
			wg.Go(func() { route("k", "nothing") })
			wg.Go(func() { route("other", "nothing") })
		}
		wg.Wait()
		if n := asked() - before; n == 0 || n > 4 {
			t.Errorf("%d lists were requested by 40 calls of two callers", n)
		}
	})
}

// A uri in a result is read at the upstream that returned it, by that caller alone, and never at
// an upstream other than the uri's owner or the one that returned it before.
func TestAURIThatACallerWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &server{tools: []string{"x"}, templates: []string{"db://one/{id}"}, capabilities: `,"resources":{}`}, &server{tools: []string{"y"}}
		b := start(t, "", nil, one, two)
		defer b.stop()
		_, _ = b.tools(key("alice"))
		learn := func(caller, upstream string, uris ...string) {
			b.LearnURIs(t.Context(), key(caller).Principal, upstream, uris)
		}
		learn("alice", "b", "db://two/7", "db://one/7")
		learn("alice", "a", "db://two/7")
		learn("alice", Name, "db://three/7")
		for caller, want := range map[string]map[string]string{
			"alice": {"db://two/7": "b", "db://one/7": "a", "db://three/7": Name, "db://two/8": Name},
			"bob":   {"db://two/7": Name, "db://one/7": "a"},
		} {
			for uri, upstream := range want {
				if got := b.Route(t.Context(), key(caller), read(t, uri), "").Upstream; got != upstream {
					t.Errorf("%s of %s is read at %q, want %q", uri, caller, got, upstream)
				}
			}
		}
	})
}

func read(t *testing.T, uri string) *mcp.Message {
	t.Helper()
	m := new(mcp.Message)
	body := slices.Concat([]byte(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":`), mcp.AppendString(nil, uri), []byte(`}}`))
	if err := mcp.Scan(body, m); err != nil {
		t.Fatal(err)
	}
	return m
}
