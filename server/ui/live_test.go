package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"svc/server"
	"svc/store/api"
)

// openStream is an open stream of new rows.
type openStream struct {
	t     testing.TB
	lines *bufio.Reader
	last  string
	close func()
}

// block is an event of a stream.
type block struct{ event, data string }

// open opens a stream.
func (b *browser) open(path, last string) *http.Response {
	b.r.t.Helper()
	ctx, cancel := context.WithCancel(b.r.t.Context())
	b.r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", b.r.url+path, nil)
	if err != nil {
		b.r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := b.c.Do(req)
	if err != nil {
		b.r.t.Fatal(err)
	}
	b.r.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (b *browser) live(path, last string) *openStream {
	b.r.t.Helper()
	resp := b.open(path, last)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		b.r.t.Fatalf("%s: %d %v", path, resp.StatusCode, resp.Header)
	}
	return &openStream{t: b.r.t, lines: bufio.NewReader(resp.Body), close: func() { resp.Body.Close() }}
}

// read reads an event; false at the end.
func (s *openStream) read() (e block, ok bool) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return e, true
		}
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "event":
			e.event = value
		case "data":
			e.data += value
		case "id":
			s.last = value
		}
	}
}

// next reads up to an event of a kind.
func (s *openStream) next(event string) block {
	s.t.Helper()
	for {
		e, ok := s.read()
		if !ok {
			s.t.Fatalf("the stream ended before %s", event)
		}
		if e.event == event {
			return e
		}
	}
}

// end reads up to the end, and returns the last event.
func (s *openStream) end() (last block) {
	for {
		e, ok := s.read()
		if !ok {
			return last
		}
		last = e
	}
}

func (e block) ids() string { return strings.Join(seen{body: e.data}.rows(), " ") }

// A stream begins with the rows of the page, goes on with new ones, newest first, and continues after the last one that
// a browser got.
func TestLive(t *testing.T) {
	r := newRig(t)
	r.traces(r.someTraces(60)...)
	b := r.signIn(r.admin)
	s, errs, others := b.live("/traces/live", ""), b.live("/traces/live?status=error", ""), r.signIn(r.other).live("/traces/live", "")
	fresh := s.next("fresh")
	if ids := fresh.ids(); !strings.HasPrefix(ids, "t-59 t-58 ") || strings.Count(ids, " ") != 49 {
		t.Errorf("begins with %s", ids)
	}
	if strings.Join(b.get("/traces").rows(), " ") != fresh.ids() {
		t.Error("the stream does not begin as the page")
	}
	for _, empty := range []*openStream{errs, others} {
		if got := empty.next("fresh").data; got != "" {
			t.Errorf("rows of other traces: %s", got)
		}
	}
	r.traces(api.TraceInput{ID: "n1", AgentName: "a", Status: "success", CreatedAt: r.now()}, api.TraceInput{ID: "n2", AgentName: "a", Status: "error", ErrorKind: "upstream_timeout", CreatedAt: r.now()})
	if got := s.next("rows"); got.ids() != "n2 n1" || !strings.Contains(got.data, "upstream timeout") {
		t.Errorf("got %+v", got)
	}
	if got := errs.next("rows").ids(); got != "n2" {
		t.Errorf("the filter gives %s", got)
	}
	s.close()
	r.traces(api.TraceInput{ID: "n3", AgentName: "a", Status: "success", CreatedAt: r.now()})
	s = b.live("/traces/live", s.last)
	if got := s.next("rows").ids(); got != "n3" {
		t.Errorf("after the last: %s", got)
	}
	if got := b.live("/traces/live", "of another store").next("fresh").ids(); !strings.HasPrefix(got, "n") {
		t.Errorf("after an unknown id: %s", got)
	}
	resp := b.open("/traces/live?status=odd", "")
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("a wrong filter: %d %s", resp.StatusCode, text)
	}
}

// Rows that come too fast to be read are counted.
func TestLiveSkips(t *testing.T) {
	r := newRig(t)
	b := r.signIn(r.admin)
	s := b.live("/traces/live", "")
	s.next("fresh")
	r.traces(r.someTraces(300)...)
	skipped, rows := 0, 0
	for skipped+rows < 300 {
		switch e, ok := s.read(); {
		case !ok:
			t.Fatalf("ended after %d and %d", skipped, rows)
		case e.event == "skipped":
			n := 0
			fmt.Sscan(e.data, &n)
			skipped += n
		case e.event == "rows":
			rows += strings.Count(e.data, "<tr>")
		}
	}
	if rows > tracesPage+livePace.most || skipped+rows != 300 {
		t.Errorf("%d rows, %d skipped", rows, skipped)
	}
}

// An open stream ends with its session within a second and the pace of the API, however the session ends.
func TestLiveEndsWithTheSession(t *testing.T) {
	for name, end := range map[string]func(r *rig, srv *server.Server, b *browser, key, team string){
		"signed out": func(_ *rig, _ *server.Server, b *browser, _, _ string) { b.post("/signout") },
		"12 hours":   func(r *rig, _ *server.Server, _ *browser, _, _ string) { r.advance(13 * time.Hour) },
		"key deleted": func(r *rig, _ *server.Server, _ *browser, key, _ string) {
			r.decode(r.admin, "DELETE", "/api/keys/"+key, "", &struct{}{})
		},
		"scope lost": func(r *rig, _ *server.Server, _ *browser, _, team string) {
			r.ask(r.admin, "PUT", "/api/teams/"+team+"/scopes", `{"scopes":["agents:read"]}`)
		},
		"server stops": func(_ *rig, srv *server.Server, _ *browser, _, _ string) { srv.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			srv, _ := r.serve()
			secret, team := r.teamKey("readers", "traces:read", "agents:read")
			b := r.signIn(secret)
			s := b.live("/traces/live", "")
			s.next("fresh")
			var keys struct{ Data []struct{ ID, Name string } }
			r.decode(r.admin, "GET", "/api/keys", "", &keys)
			id := ""
			for _, k := range keys.Data {
				if k.Name == "readers" {
					id = k.ID
				}
			}
			began := time.Now()
			end(r, srv, b, id, team)
			last := s.end()
			if took := time.Since(began); took > 2500*time.Millisecond {
				t.Errorf("ended after %v", took)
			}
			if told := last.event == "signedout"; told != (name != "scope lost" && name != "server stops") {
				t.Errorf("the last event is %+v", last)
			}
			if name == "signed out" {
				if resp := b.open("/traces/live", ""); resp.StatusCode != http.StatusSeeOther {
					t.Errorf("opened again: %d", resp.StatusCode)
				}
			}
		})
	}
}

// Open pages of a tenant are bounded, and do not take the streams of programs.
func TestOpenPagesAreBounded(t *testing.T) {
	r := newRig(t)
	b := r.signIn(r.admin)
	for range 128 {
		b.live("/traces/live", "").next("fresh")
	}
	resp := b.open("/traces/live", "")
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), "too many open trace streams") {
		t.Errorf("one more: %d %s", resp.StatusCode, text)
	}
	r.signIn(r.other).live("/traces/live", "").next("fresh")
}

// A hundred open pages take less than 20 MiB, of which a part belongs to the clients of this test.
func TestOpenPagesTakeLittleMemory(t *testing.T) {
	r := newRig(t)
	r.traces(r.someTraces(200)...)
	b := r.signIn(r.admin)
	used := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	before := used()
	var open []*openStream
	for range 100 {
		open = append(open, b.live("/traces/live", ""))
	}
	for _, s := range open {
		s.next("fresh")
	}
	r.traces(api.TraceInput{ID: "new", AgentName: "a", Status: "success", CreatedAt: r.now()})
	for _, s := range open {
		s.next("rows")
	}
	took := used() - before
	t.Logf("100 open pages: %.1f MiB", float64(took)/(1<<20))
	if took > 20<<20 {
		t.Errorf("100 open pages take %d bytes", took)
	}
}

// A browser that does not read is disconnected, and meanwhile traces are stored.
func TestSlowBrowser(t *testing.T) {
	usual := livePace
	livePace.write = 200 * time.Millisecond
	t.Cleanup(func() { livePace = usual })
	r := newRig(t)
	_, served := r.serve()
	b := r.signIn(r.admin)
	u := strings.TrimPrefix(r.url, "http://")
	page, browser := net.Pipe() // nothing is written that is not read
	defer browser.Close()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+u+"/traces/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for _, c := range b.c.Jar.Cookies(req.URL) {
		req.AddCookie(c)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		served.ServeHTTP(&pipeWriter{page, http.Header{}}, req)
	}()
	r.traces(r.someTraces(500)...)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the stream goes on")
	}
}

// pipeWriter is a response over a connection.
type pipeWriter struct {
	net.Conn
	header http.Header
}

func (w *pipeWriter) Header() http.Header { return w.header }
func (w *pipeWriter) WriteHeader(int)     {}
func (w *pipeWriter) Flush()              {}
