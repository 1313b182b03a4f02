package tui_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server"
	"svc/server/client"
	"svc/store"
	"svc/store/api"
	"svc/store/bolt"
	"svc/tui"
)

// openStore returns an empty store with a tenant, and a key of it.
func openStore(t *testing.T) (st *bolt.Store, key string) {
	t.Helper()
	st, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	key = server.NewSecret(store.ScopeAPI)
	if _, _, err := st.CreateTenant(t.Context(), store.TenantCreate{Name: "t", Key: &store.KeyCreate{
		Name: "k", Scope: store.ScopeAPI, Prefix: server.SecretPrefix(key), Digest: store.DigestKey(key)}}); err != nil {
		t.Fatal(err)
	}
	return st, key
}

// Against a real control plane: existing traces, new ones, their spans, and a
// restart of the control plane on the same store.
func TestAgainstServer(t *testing.T) {
	st, key := openStore(t)
	var current atomic.Pointer[server.Server]
	up := func() {
		srv, err := server.New(server.Options{Records: st, Traces: st, RateLimit: 100_000, IngestRateLimit: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		current.Store(srv)
	}
	up()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if srv := current.Load(); srv != nil {
			srv.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer ts.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer func() { current.Load().Drain() }()
	c := client.New(ts.URL, key)
	post := func(id, agent string) {
		t.Helper()
		if _, err := c.PostTraces(t.Context(), []api.TraceInput{{ID: id, AgentName: agent, Status: "success", ToolName: "search", DurationMs: 40,
			Spans: []api.Span{{Stage: "policy_eval", DurationMs: 4}, {Stage: "provider", DurationMs: 30}}}}); err != nil {
			t.Fatal(err)
		}
	}
	post("before", "first-agent")
	p := start(t, plainOptions(tui.Live(c), c))
	p.see(t, "first-agent", "● live", "1 trace")
	post("second", "second-agent")
	p.see(t, "second-agent", "2 traces")
	p.press(tea.KeyEnter)
	p.see(t, "Trace second", "provider", "75.0 %")
	p.press(tea.KeyEsc)
	p.Type("3")
	p.see(t, "first-agent", "TRACES 24H")
	p.Type("1")

	gone := current.Swap(nil)
	gone.Drain()
	p.see(t, "Not connected")
	if _, err := client.New(ts.URL, key).ListAgents(t.Context(), client.AgentQuery{}); err == nil {
		t.Fatal("the control plane still answers")
	}
	up()
	post("third", "third-agent")
	p.see(t, "● live")
	p.Type("G")
	p.see(t, "third-agent", "3 traces")
}

// Against a real control plane: traces that are older than the screen began with, of a period, and by the id of a
// request.
func TestOlderAgainstServer(t *testing.T) {
	st, key := openStore(t)
	srv, err := server.New(server.Options{Records: st, Traces: st, RateLimit: 100_000, IngestRateLimit: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(srv)
	defer ts.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer srv.Drain()
	c := client.New(ts.URL, key)
	now := time.Now().UTC().Truncate(time.Second)
	var batch []api.TraceInput
	for i := range 450 {
		batch = append(batch, api.TraceInput{ID: fmt.Sprintf("t%03d", i), AgentName: fmt.Sprintf("agent-%03d", i), Status: "success", RequestID: fmt.Sprintf("req-%03d", i), CreatedAt: now.Add(-time.Duration(i) * time.Minute)})
	}
	if _, err := c.PostTraces(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	p := start(t, plainOptions(tui.Live(c), c))
	p.see(t, "agent-000", "200 traces")
	p.press(tea.KeyHome)
	p.see(t, "299 traces") // one of the page is the oldest in memory
	p.press(tea.KeyHome)
	p.see(t, "agent-298", "399 traces")
	p.press(tea.KeyHome)
	p.see(t, "agent-398", "450 traces")
	p.press(tea.KeyHome)
	p.see(t, "the oldest trace of the control plane", "agent-449")
	p.Type("w")
	p.Type(now.Add(-400*time.Minute).Format("2006-01-02T15:04:05") + ".." + now.Add(-390*time.Minute).Format("2006-01-02T15:04:05"))
	p.press(tea.KeyEnter)
	p.see(t, "PAST", "11 match", "agent-400", "agent-390")
	p.press(tea.KeyEsc)
	p.Type("i")
	p.Type("req-444")
	p.press(tea.KeyEnter)
	p.see(t, "Trace t444", "agent-444")
}

// Traces of the initial list are not shown twice when the stream has them
// too.
func TestLiveSourceHasNoGapAndNoTwins(t *testing.T) {
	var posted []string
	for i := range 3 {
		posted = append(posted, fmt.Sprintf("t%d", i))
	}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/stream") {
			io.WriteString(w, `{"data":[{"id":"t1"},{"id":"t0"}],"total":2}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, id := range posted[1:] { // t1 was stored between the opening and the listing
			fmt.Fprintf(w, "id: %d\ndata: {\"id\":%q}\n\n", i, id)
		}
	}))
	defer ts.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	stream, err := tui.Live(client.New(ts.URL, "k")).Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var got []string
	for {
		ev, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Trace.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(posted) || stream.Cursor() != "1" {
		t.Errorf("got %v up to %s, want %v", got, stream.Cursor(), posted)
	}
}
