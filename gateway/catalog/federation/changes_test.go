package federation

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// list_changed of an upstream reaches only the clients whose visible list has changed: not those
// for whom a view, the rules or pins remove what has changed, and none if nothing has. That holds
// for shared lists and for those that are private to each client.
func TestListChangedReachesOnlyWhoseListChanged(t *testing.T) {
	views := auth.New([]auth.ViewConfig{{Name: "other", Upstreams: []string{"b"}}})
	for _, scope := range []string{"public", "private"} {
		synctest.Test(t, func(t *testing.T) {
			up := &server{modern: true, scope: scope, tools: []string{"x"}}
			b := start(t, "", func(o *setup) {
				o.May = func(c *upstream.Caller, _ mcp.ListKind, _, visible string) bool {
					return c == nil || c.Principal.Value != "limited" || visible == "x"
				}
				o.Reader.Keep = func(_ string, of *catalog.Offer) *catalog.Offer { // tools are withheld until they are approved
					kept := *of
					kept.Lists = slices.Clone(of.Lists)
					for i := range kept.Lists {
						kept.Lists[i].Items = slices.DeleteFunc(slices.Clone(kept.Lists[i].Items), func(item []byte) bool { return strings.Contains(string(item), "withheld") })
					}
					return &kept
				}
			}, up, &server{modern: true, scope: "public", tools: []string{"z"}})
			defer b.stop()
			var mu sync.Mutex
			told := map[string]int{}
			callers := map[string]*upstream.Caller{"full": key("full"), "limited": key("limited"), "at a view": key("at a view"), "late": key("late"), "address": {Principal: &auth.Principal{Kind: auth.KindIP, Value: "192.0.2.1"}}}
			callers["at a view"].View = views.Named("other")
			for _, name := range []string{"full", "limited", "at a view", "address", "late"} { // the first lists are a change for a stream before them
				c := callers[name]
				if name != "late" { // it has no list yet
					_, _ = b.tools(c)
				}
				resp, err := b.Listen(t.Context(), &upstream.Request{Caller: c})
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				go func() {
					events := mcp.NewEventReader(resp.Body, 0)
					for {
						if _, err := events.Next(); err != nil {
							return
						}
						mu.Lock()
						told[name]++
						mu.Unlock()
					}
				}()
			}
			for _, step := range []struct {
				what  string
				tools []string
				want  []string
				// unknown are told although nothing has changed for them, because the gateway does not
				// know their private lists.
				unknown []string
			}{
				{"nothing", []string{"x"}, nil, []string{"address", "late"}},
				{"a new tool", []string{"x", "y"}, []string{"address", "full", "late"}, nil},
				{"nothing since then", []string{"x", "y"}, nil, []string{"address"}},
				{"a tool that is not approved", []string{"x", "y", "withheld"}, nil, []string{"address"}},
				{"a tool of every client is gone", []string{"y", "withheld"}, []string{"address", "full", "late", "limited"}, nil},
			} {
				up.change(func(s *server) { s.tools = step.tools })
				b.opts.Lists.Changed("a", "")
				pass(time.Minute)
				synctest.Wait()
				want := step.want
				if scope == "private" {
					want = append(want, step.unknown...)
				}
				var got []string
				mu.Lock()
				for name := range callers {
					if told[name] > 0 {
						got = append(got, name)
					}
				}
				clear(told)
				mu.Unlock()
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s list, %s: %v were notified, want %v", scope, step.what, got, want)
				}
			}
		})
	}
}
