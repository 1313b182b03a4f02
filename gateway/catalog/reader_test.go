package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// shelf is an upstream in this process with one item in each list. Its fields are changed under mu.
type shelf struct {
	upstream.Transport
	mu    sync.Mutex
	down  bool
	asked map[string]int // requests by method
}

func (s *shelf) Post(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, &upstream.Error{Upstream: "test", Op: "connect", Kind: upstream.ErrUnreachable, Err: errors.New("connection refused")}
	}
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[m.Method]++
	result := `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}}`
	if kind, ok := mcp.ListKindOf(m.Method); ok {
		result = `"` + kind.Member() + `":[{"name":"x"}],"cacheScope":"public"`
	}
	return upstream.Message(http.StatusOK, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, result)), nil
}

func (s *shelf) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[method]
}

func (s *shelf) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// reading runs a reader of shelves, named a, b, …, until the test ends it.
func reading(note func(string, *upstream.Caller, *Offer), follow func(*Reader), shelves ...*shelf) (r *Reader, stop func()) {
	opts := ReaderOptions{Now: time.Now, Note: note, Targets: map[string]*upstream.Upstream{}}
	for i, s := range shelves {
		name := string(rune('a' + i))
		opts.Upstreams = append(opts.Upstreams, upstream.Config{Name: name})
		opts.Targets[name] = &upstream.Upstream{Direct: s}
	}
	r = NewReader(opts)
	follow(r)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	return r, func() { cancel(); <-done }
}

// A list is read once for all parts of the gateway that need it, at the shortest of their
// intervals; lists that nobody needs are not read, and an upstream without any is sent nothing.
func TestListsAreReadOnceForAllThatNeedThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of what follows
		var kinds, reads []string
		note := func(name string, _ *upstream.Caller, o *Offer) {
			mu.Lock()
			defer mu.Unlock()
			for i := range o.Lists {
				kinds = append(kinds, name+" "+o.Lists[i].Kind.Member())
			}
		}
		read := func(what string) func(*Offer, []mcp.ListKind) {
			return func(o *Offer, announced []mcp.ListKind) {
				mu.Lock()
				defer mu.Unlock()
				reads = append(reads, fmt.Sprint(what, " ", len(o.Lists), " ", announced))
			}
		}
		needed, idle := new(shelf), new(shelf)
		r, stop := reading(note, func(r *Reader) {
			r.Feed("a").Follow(Need{Kinds: []mcp.ListKind{mcp.Prompt, mcp.Tool}, Interval: time.Hour, Read: read("pins")})
			r.Feed("a").Follow(Need{Kinds: []mcp.ListKind{mcp.Tool}, Interval: time.Minute, Read: read("search")})
		}, needed, idle)
		now := func() ([]string, []string) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(kinds), slices.Clone(reads)
		}
		<-time.After(time.Second)
		if got := fmt.Sprint(now()); got != "[a tools a prompts] [pins 2 [] search 2 []]" {
			t.Fatalf("first reading: %s", got)
		}
		r.Changed("a", mcp.NotificationToolsChanged)
		<-time.After(time.Second)
		if _, got := now(); fmt.Sprint(got[2:]) != fmt.Sprintf("[pins 2 [%v] search 2 [%[1]v]]", mcp.Tool) {
			t.Errorf("after list_changed: %s", got)
		}
		<-time.After(time.Minute)
		stop()
		if n := needed.count(mcp.MethodToolsList); n != 3 || needed.count(mcp.MethodPromptsList) != n || needed.count(mcp.MethodResourcesList) != 0 {
			t.Errorf("asked %v", needed.asked)
		}
		if len(idle.asked) != 0 {
			t.Errorf("an upstream that nobody needs was asked %v", idle.asked)
		}
	})
}

// An upstream that was down is read again soon after a call has reached it, not after the pause of
// its failures; calls to an upstream that refuses its lists do not shorten the pause.
func TestAnUpstreamThatACallReachesIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, refused, refusals := &shelf{down: true}, new(shelf), new(atomic.Int32)
		r, stop := reading(nil, func(r *Reader) {
			r.Feed("a").Follow(Need{Kinds: []mcp.ListKind{mcp.Tool}, Interval: time.Hour})
			r.Feed("b").Follow(Need{Kinds: []mcp.ListKind{mcp.Tool}, Interval: time.Hour, Check: func(*Offer) error { refusals.Add(1); return ErrTooMany }})
		}, s, refused)
		defer stop()
		<-time.After(10 * time.Minute)
		s.setDown(false)
		before := refusals.Load()
		began := time.Now()
		for range 10 {
			r.Reached("a")
			r.Reached("b")
			<-time.After(minBurst)
		}
		if _, failing := r.Feed("a").Health(); failing || s.count(mcp.MethodToolsList) != 1 {
			t.Errorf("%s after the first call: failing %t, read %d times", time.Since(began), failing, s.count(mcp.MethodToolsList))
		}
		if after := refusals.Load(); after != before || after == 0 {
			t.Errorf("lists that are refused were read %d times, and %d times after calls", before, after-before)
		}
	})
}
