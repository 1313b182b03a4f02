package federation

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
)

// Private lists are cached for a caller while they are valid, not for a caller identified only by
// its address, and never polled; shared_lists makes them shared.
func TestPrivateListsAreReadWhenACallerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{modern: true, tools: []string{"x"}}
		b := start(t, "", nil, s)
		defer b.stop()
		read := func(c *upstream.Caller) int {
			synctest.Wait() // the gateway's own reading has ended
			s.change(func(s *server) { s.lists = 0 })
			if names, _ := b.tools(c); !slices.Equal(names, []string{"x"}) {
				t.Errorf("%v", names)
			}
			n := 0
			s.change(func(s *server) { n = s.lists })
			return n
		}
		address := &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: "192.0.2.1"}}
		for i, step := range []struct {
			caller *upstream.Caller
			want   int
		}{{key("k"), 1}, {key("k"), 0}, {key("l"), 1}, {address, 1}, {address, 1}} {
			if n := read(step.caller); n != step.want {
				t.Errorf("step %d: read %d times, want %d", i, n, step.want)
			}
		}
		s.change(func(s *server) { s.lists = 0 })
		pass(20 * time.Minute)
		n := 0
		if s.change(func(s *server) { n = s.lists }); n != 0 {
			t.Errorf("a private list was polled %d times", n)
		}
		if n := read(key("k")); n != 1 {
			t.Errorf("after a minute: read %d times", n)
		}
		b.opts.Lists.Changed("a", "")
		pass(2 * minAnnounced)
		if n := read(key("k")); n != 1 {
			t.Errorf("after list_changed: read %d times", n)
		}

		shared := start(t, "", func(o *setup) { o.Reader.Upstreams[0].SharedLists = true }, s)
		defer shared.stop()
		_, _ = shared.tools(key("k"))
		s.change(func(s *server) { s.lists = 0 })
		_, _ = shared.tools(key("l"))
		if s.change(func(s *server) { n = s.lists }); n != 0 {
			t.Errorf("shared_lists: read %d times for a caller", n)
		}
	})
}

// Lists that are read for callers are in the account of limits.body_bytes until their answer was
// sent. At most four are read at an upstream at the same time, and one for each session of a caller that
// is known only by its address, or for the address without a session; a list that exceeds the account, or waits too long, is unavailable.
func TestListsReadForCallersAreCountedAndBounded(t *testing.T) {
	address := func(n int) *upstream.Caller {
		return &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindIP, Value: fmt.Sprint("192.0.2.", n)}}
	}
	session := func(n int) *upstream.Caller {
		c := address(1)
		c.Session, c.HasSession = [16]byte{byte(n)}, true
		return c
	}
	list := &upstream.Request{Session: mcp.Session{Version: mcp.Revision20260728}, RequestID: "r", Body: fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{%q:%q,%q:{}}}}`, mcp.MetaProtocolVersion, mcp.Revision20260728, mcp.MetaClientCapabilities)}
	synctest.Test(t, func(t *testing.T) {
		s := &server{modern: true, scope: "private", tools: strings.Split("abcdefgh", ""), size: 1000 << 10}
		var account *bodies.Counter
		b := start(t, "", func(o *setup) { account = o.Reader.Bodies; account.SetLimit(1 << 30) }, s)
		defer b.stop()
		synctest.Wait()
		for _, c := range []*upstream.Caller{address(1), key("k")} {
			r := *list
			r.Caller = c
			resp, err := b.Post(t.Context(), &r)
			if err != nil || resp.Status != http.StatusOK {
				t.Fatal(resp, err)
			}
			// The list as it arrived, under its visible names, and the answer; a cached list has bounds of its own.
			if held := account.Held(); c.Principal.Kind == auth.KindIP && held < 3*8*1000<<10 || c.Principal.Kind != auth.KindIP && held > 8*1000<<10 {
				t.Errorf("%v: %d bytes are counted", c.Principal, held)
			}
			if err := resp.Body.Close(); err != nil || account.Held() != 0 {
				t.Errorf("%v: %d bytes are counted after the answer, %v", c.Principal, account.Held(), err)
			}
			// The search and the call by name (mcp_search, mcp_call) use the tools until End.
			v := b.merge.For(t.Context(), c, mcp.Tool)
			if n := len(v.Catalog.Items(mcp.Tool)); n != 8 || v.Alone() != (c.Principal.Kind == auth.KindIP) {
				t.Fatalf("%v: %d tools, alone %t", c.Principal, n, v.Alone())
			}
			held := account.Held()
			if v.End(); v.Alone() && held < 2*8*1000<<10 || account.Held() != 0 {
				t.Errorf("%v: %d bytes are counted while the tools are used, %d after that", c.Principal, held, account.Held())
			}
		}
		account.SetLimit(4 << 20) // every caller may hold two bodies of the largest size
		for n := range 3 {
			if names, down := b.tools(address(n)); len(names) != 0 || !slices.Equal(down, []string{"a"}) || account.Held() != 0 {
				t.Errorf("beyond the account: %v, unavailable %v, %d bytes are counted", names, down, account.Held())
			}
		}
	})
	for name, tt := range map[string]struct {
		caller func(int) *upstream.Caller
		most   int
	}{
		"addresses":               {address, maxReadings},
		"keys":                    {func(n int) *upstream.Caller { return key(fmt.Sprint(n)) }, maxReadings},
		"one address":             {func(int) *upstream.Caller { return address(1) }, 1},
		"sessions of one address": {session, maxReadings},
		"one session":             {func(int) *upstream.Caller { return session(1) }, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{modern: true, scope: "private", tools: []string{"x"}}
			b := start(t, "", nil, s)
			defer b.stop()
			synctest.Wait()
			s.change(func(s *server) { s.delay, s.most = 50*time.Millisecond, 0 })
			var all sync.WaitGroup
			for n := range 12 {
				all.Go(func() {
					if names, down := b.tools(tt.caller(n)); !slices.Equal(names, []string{"x"}) || len(down) > 0 {
						t.Errorf("%s: %v, unavailable %v", name, names, down)
					}
				})
			}
			all.Wait()
			if s.most != tt.most {
				t.Errorf("%s: %d readings at the same time, want %d", name, s.most, tt.most)
			}
			s.change(func(s *server) { s.delay = time.Hour }) // an upstream that does not answer
			if names, down := b.tools(address(9)); len(names) != 0 || !slices.Equal(down, []string{"a"}) {
				t.Errorf("%s: %v, unavailable %v", name, names, down)
			}
		})
	}
}

// The pause between two readings of a shared list grows with its size: a large list without a
// validity does not keep a core busy, neither when it is polled nor when it is announced.
func TestLargeListsAreReadLessOften(t *testing.T) {
	const seconds = 12
	for size, most := range map[int]int{1: seconds + 1, 8 << 20: seconds/2 + 1} {
		for _, announced := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{modern: true, scope: "public", tools: []string{"x"}, size: size}
				b := start(t, "", func(o *setup) { o.Config.RefreshInterval = time.Second }, s)
				defer b.stop()
				for range seconds {
					if announced {
						b.opts.Lists.Changed("a", "")
					}
					pass(time.Second)
				}
				n := 0
				if s.change(func(s *server) { n = s.lists }); n == 0 || n > most+maxAnnounced*min(1, most/seconds) {
					t.Errorf("%d bytes, announced %v: read %d times in %d s, want at most %d", size, announced, n, seconds, most)
				}
			})
		}
	}
}

// A resource that only a template of a private list matches is read at the template's upstream,
// also before its caller has requested the list.
func TestATemplateOfAPrivateListOwnsItsResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &server{modern: true, scope: "private", capabilities: `,"resources":{}`, templates: []string{"test://named/{id}"}}
		b := start(t, "", nil, &server{tools: []string{"x"}}, own)
		defer b.stop()
		synctest.Wait()
		for uri, want := range map[string]string{"test://named/5": "b", "test://other/5": Name} {
			var m mcp.Message
			if err := mcp.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":%q}}`, uri), &m); err != nil {
				t.Fatal(err)
			}
			if got := b.Route(t.Context(), key("k"), &m, ""); got.Upstream != want {
				t.Errorf("%s goes to %q, want %q", uri, got.Upstream, want)
			}
		}
	})
}
