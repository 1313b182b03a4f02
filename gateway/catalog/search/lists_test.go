package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// fake is an upstream without sessions in memory.
type fake struct {
	upstream.Transport
	mu    sync.Mutex
	tools string // elements of the list
	hints string // further members of the result
	err   error
	panic bool
	at    []time.Time // times of all tools/list, including failed ones
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.at)
}

func (f *fake) Post(_ context.Context, req *upstream.Request) (*upstream.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	result := `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}`
	discover := bytes.Contains(req.Body, []byte("server/discover"))
	if !discover || f.err != nil {
		f.at = append(f.at, time.Now())
	}
	if f.panic {
		panic("boom")
	}
	if f.err != nil {
		return nil, &upstream.Error{Upstream: "u", Op: "connect", Kind: upstream.ErrUnreachable, Err: f.err}
	}
	if !discover {
		result = `"tools":[` + f.tools + `]` + f.hints
	}
	var m mcp.Message
	if err := mcp.Scan(req.Body, &m); err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, result)
	return upstream.Message(200, []byte(body)), nil
}

func everywhere(name string) func(string) (string, bool) {
	return func(string) (string, bool) { return name, true }
}

// source is an upstream of a test.
type source struct {
	name      string
	transport upstream.Transport
}

// open returns a service that searches the lists of upstreams, with a reader of its own.
func open(sources []source, opts Options) *Service {
	reader := catalog.ReaderOptions{Version: "test", Logger: opts.Logger, Now: time.Now, Targets: map[string]*upstream.Upstream{}}
	for _, s := range sources {
		reader.Upstreams = append(reader.Upstreams, upstream.Config{Name: s.name})
		reader.Targets[s.name] = &upstream.Upstream{Direct: s.transport}
		opts.Upstreams = append(opts.Upstreams, s.name)
	}
	opts.Lists, opts.Now, opts.MaxResults = catalog.NewReader(reader), time.Now, 10
	return New(opts)
}

// running runs the reader of a service in a synctest bubble until the test ends it.
func running(s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.opts.Lists.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// present returns the index of a caller without lists of its own, after the first lists were read.
func (s *Service) present(ctx context.Context) *Index {
	index, release := s.indexFor(ctx, nil)
	release()
	return index
}

// A list that is incomplete or beyond the bounds of the search is not used, with the reason.
func TestListsThatAreNotSearched(t *testing.T) {
	big := strings.Repeat("x", 60<<10)
	for name, tt := range map[string]struct {
		list catalog.List
		want string
	}{
		"endless pages":  {catalog.List{Cut: fmt.Errorf("%w: over 1000", catalog.ErrPages)}, "too many pages: over 1000"},
		"a cycle":        {catalog.List{Cut: catalog.ErrCycle}, "leads to a page before"},
		"too many tools": {catalog.List{Items: slices.Repeat([][]byte{[]byte(`{"name":"a"}`)}, maxTools+1)}, "too many items: over 5000"},
		"too many bytes": {catalog.List{Items: slices.Repeat([][]byte{[]byte(`{"name":"a","description":"` + big + `"}`)}, 140)}, "too large"},
		"the most tools": {catalog.List{Items: slices.Repeat([][]byte{[]byte(`{"name":"a"}`)}, maxTools)}, ""},
	} {
		tt.list.Kind = mcp.Tool
		err := check(&catalog.Offer{Lists: []catalog.List{tt.list}})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.want)
		}
	}
}

// An invalid definition is omitted, the others are kept; a name counts once.
func TestListLeavesBadDefinitionsOut(t *testing.T) {
	list := catalog.List{Kind: mcp.Tool}
	for _, item := range []string{`{"name":"a"}`, `7`, `{"name":""}`, `{"name":"a","description":"again"}`, `{"name":"b","inputSchema":[]}`, `{"name":"c"}`} {
		list.Items = append(list.Items, []byte(item))
	}
	if got, left, why := new(Service).parse("up", &list); fmt.Sprint(names(got)) != "[a c]" || left != 4 || why == nil {
		t.Errorf("got %v, left out %d: %v", names(got), left, why)
	}
}

// The time between lists is the smaller of the interval and the list's own
// lifetime, and at least a second.
func TestRefreshCadence(t *testing.T) {
	tests := []struct {
		hints string
		want  time.Duration
	}{
		{``, time.Minute},
		{`,"ttlMs":5000`, 5 * time.Second},
		{`,"ttlMs":0`, time.Second},
		{`,"ttlMs":20`, time.Second},
		{`,"ttlMs":3600000`, time.Minute},
		{`,"ttlMs":0,"cacheScope":"private"`, time.Minute},
		{`,"ttlMs":5000,"cacheScope":"private"`, time.Minute},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{tools: `{"name":"a"}`, hints: tt.hints}
			stop := running(open([]source{{"u", f}}, Options{Route: everywhere("u"), Interval: time.Minute}))
			<-time.After(3*tt.want + time.Millisecond)
			stop()
			at := f.times()
			if len(at) != 4 {
				t.Fatalf("%s: %d lists in 3 intervals", tt.hints, len(at))
			}
			for i := 1; i < len(at); i++ {
				if got := at[i].Sub(at[i-1]); got != tt.want {
					t.Errorf("%s: %v between lists, want %v", tt.hints, got, tt.want)
				}
			}
		})
	}
}

// After a failure an upstream is not asked for 30 s, then twice as long each time,
// at most 30 m; its previous list stays, a healthy upstream is not affected, and a
// success resets the backoff.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &fake{tools: `{"name":"bad"}`}, &fake{tools: `{"name":"good"}`}
		route := func(tool string) (string, bool) { return tool, true }
		r := open([]source{{"bad", bad}, {"good", good}}, Options{Route: route, Interval: time.Minute})
		stop := running(r)
		defer stop()
		<-time.After(time.Second)
		bad.set(func(f *fake) { f.err = errors.New("down"); f.at = nil })
		<-time.After(3 * time.Hour)
		at := bad.times()
		want := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute}
		for i, w := range want {
			if got := at[i+1].Sub(at[i]); got != w {
				t.Errorf("pause %d: %v, want %v", i, got, w)
			}
		}
		if n := len(good.times()); n != 181 {
			t.Errorf("the healthy upstream was asked %d times in 3 hours", n)
		}
		if r.present(t.Context()).Len() != 2 {
			t.Errorf("%d tools in the index, want those of both", r.present(t.Context()).Len())
		}
		stats := r.Stats()
		if !stats[0].BackingOff || stats[0].Failures != uint64(len(at)) || stats[0].Tools != 1 || stats[1].BackingOff {
			t.Errorf("stats %+v", stats)
		}
		bad.set(func(f *fake) { f.err = nil })
		<-time.After(30 * time.Minute)
		bad.set(func(f *fake) { f.err = errors.New("down"); f.at = nil })
		<-time.After(2 * time.Minute)
		if at := bad.times(); len(at) < 2 || at[1].Sub(at[0]) != 30*time.Second {
			t.Errorf("after a success the backoff began with %v", at)
		}
	})
}

// An upstream that never responds does not prevent searches of the others.
func TestHealthyUpstreamsPopulate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &fake{err: errors.New("down")}, &fake{tools: `{"name":"good"}`}
		r := open([]source{{"bad", bad}, {"good", good}}, Options{Route: everywhere("good"), Interval: time.Minute})
		defer running(r)()
		if n := r.present(t.Context()).Len(); n != 1 {
			t.Errorf("%d tools", n)
		}
		bad.set(func(f *fake) { f.err, f.panic = nil, true })
		<-time.After(31 * time.Second)
		if s := r.Stats()[0]; s.Failures != 2 {
			t.Errorf("a panic is no failure: %+v", s)
		}
	})
}

// Of a name at several upstreams the tool that routes lead to is listed; a tool
// without a route, and one with the reserved name, is not.
func TestIndexFollowsRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{tools: `{"name":"both"},{"name":"lost"},{"name":"mcp_search"}`}, &fake{tools: `{"name":"both"},{"name":"mine"}`}
		route := func(tool string) (string, bool) { return "b", tool != "lost" }
		r := open([]source{{"a", a}, {"b", b}}, Options{Route: route, Interval: time.Minute})
		defer running(r)()
		r.present(t.Context())
		got := r.present(t.Context()).Search("both mine lost mcp_search", 9, everyone)
		if len(got) != 2 || got[0].Upstream != "b" || got[1].Upstream != "b" {
			t.Errorf("found %v", names(got))
		}
	})
}

// Without federation the tools of an upstream are found under any name that can be called, and its
// own mcp_call unless the gateway has that tool. A list that is read again unchanged has the same
// index.
func TestToolsAreFoundUnderTheirOwnNames(t *testing.T) {
	for call, want := range map[bool]string{false: "[files/größe mcp_call]", true: "[files/größe]"} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{tools: `{"name":"files/größe"},{"name":"mcp_call"},{"name":"mcp_search"}`}
			r := open([]source{{"u", f}}, Options{Route: everywhere("u"), Interval: time.Minute, Call: call})
			defer running(r)()
			x := r.present(t.Context())
			if got := names(x.Search("files größe mcp call search", 9, everyone)); fmt.Sprint(got) != want {
				t.Errorf("mcp_call listed %v: found %v, want %v", call, got, want)
			}
			<-time.After(2*time.Minute + time.Second)
			if n := len(f.times()); n != 3 || r.present(t.Context()) != x {
				t.Errorf("another index after %d readings of the same list", n)
			}
			f.set(func(f *fake) { f.tools += `,{"name":"more"}` })
			<-time.After(time.Minute)
			if r.present(t.Context()) == x {
				t.Error("the same index after a change")
			}
		})
	}
}

// A private list is never in the index; a list that becomes private is removed from
// it.
func TestPrivateListsAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{tools: `{"name":"a"}`, hints: `,"cacheScope":"public"`}
		r := open([]source{{"u", f}}, Options{Route: everywhere("u"), Interval: time.Minute})
		defer running(r)()
		r.present(t.Context())
		if r.present(t.Context()).Len() != 1 {
			t.Fatalf("%d tools", r.present(t.Context()).Len())
		}
		f.set(func(f *fake) { f.hints = `,"cacheScope":"private"` })
		<-time.After(61 * time.Second)
		if r.present(t.Context()).Len() != 0 || !r.Stats()[0].Private || r.Stats()[0].Tools != 0 {
			t.Errorf("%d tools, %+v", r.present(t.Context()).Len(), r.Stats())
		}
	})
}

// An omitted private list is logged as a warning with the upstream and advice: once
// for all readings, and again after it was public in between.
func TestPrivateListsAreAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer // read while the reader is idle
		f := &fake{tools: `{"name":"a"}`, hints: `,"cacheScope":"private"`}
		r := open([]source{{"u", f}}, Options{Route: everywhere("u"), Interval: time.Minute,
			Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		defer running(r)()
		r.present(t.Context())
		scope := func(scope string) {
			f.set(func(f *fake) { f.hints = `,"cacheScope":"` + scope + `"` })
			<-time.After(3*time.Minute + time.Second)
			synctest.Wait()
		}
		scope("private")
		scope("unknown")
		expectPrivateWarnings(t, &log, 1)
		scope("public")
		expectPrivateWarnings(t, &log, 1)
		scope("private")
		expectPrivateWarnings(t, &log, 2)
		if len(f.times()) < 10 {
			t.Errorf("the list was read %d times", len(f.times()))
		}
	})
}

// expectPrivateWarnings fails the test unless the log has n warnings with advice
// about the private list of u.
func expectPrivateWarnings(t *testing.T, log *bytes.Buffer, n int) {
	t.Helper()
	found := 0
	for line := range strings.SplitSeq(log.String(), "\n") {
		if !strings.Contains(line, "cacheScope private") {
			continue
		}
		found++
		if !strings.Contains(line, `"level":"WARN"`) || !strings.Contains(line, `"upstream":"u"`) || !strings.Contains(line, "cacheScope public") {
			t.Errorf("not a warning about u that says what to do: %s", line)
		}
	}
	if found != n {
		t.Errorf("%d warnings, want %d:\n%s", found, n, log)
	}
}

// A changed definition is reported once; also if the tool was absent in between. A
// new tool is not a change.
func TestChangedDefinitionsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		f := &fake{tools: `{"name":"a","description":"1"}`}
		r := open([]source{{"u", f}}, Options{Route: everywhere("u"), Interval: time.Minute, Changed: func(upstream, tool string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, upstream+"/"+tool)
		}})
		defer running(r)()
		for _, tools := range []string{
			`{"name":"a","description":"1"},{"name":"b"}`, `{"name":"b"}`, `{"name":"b"},{"description":"2","name":"a"}`, `{"name":"a","description":"2"},{"name":"b"}`,
		} {
			<-time.After(time.Second)
			f.set(func(f *fake) { f.tools = tools })
			<-time.After(time.Minute)
		}
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(told) != "[u/a]" || r.Stats()[0].Changed != 1 {
			t.Errorf("told %v, %+v", told, r.Stats())
		}
	})
}

// Results are valid JSON of bounded size for any tools.
func TestAnswers(t *testing.T) {
	var tools []*Tool
	for i := range 100 {
		tools = append(tools, made(t, fmt.Sprintf(`{"name":"t%d","title":"\"T\"","description":"%s","inputSchema":{"type":"object","properties":{"a":{"description":"\u2028\\"}}}}`, i, strings.Repeat("x", 20_000)))...)
	}
	for _, modern := range []bool{false, true} {
		for _, body := range [][]byte{
			appendResult(nil, []byte(`"id\u0041"`), modern, tools), appendResult(nil, []byte("7"), modern, nil),
			appendList(nil, []byte("0"), modern, []string{definition, callDefinition}), appendList(nil, []byte("0"), modern, nil),
		} {
			var m mcp.Message
			if err := mcp.Scan(body, &m); err != nil || m.Kind != mcp.Response {
				t.Fatalf("%v: %.200s", err, body)
			}
			if (m.ResultType == "complete") != modern {
				t.Errorf("modern %v: %.200s", modern, body)
			}
			if len(body) > 3*maxResult {
				t.Errorf("%d bytes", len(body))
			}
		}
	}
	if list := string(appendList(nil, []byte("0"), true, []string{definition})); !strings.Contains(list, `"ttlMs":60000,"cacheScope":"private"`) || !strings.Contains(list, fmt.Sprintf(`"maxLength":%d,`, MaxQuery)) {
		t.Error(list)
	}
}
