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

	tea "github.com/charmbracelet/bubbletea"

	"svc/server"
	"svc/server/client"
	"svc/store"
	"svc/store/api"
	"svc/store/bolt"
	"svc/tui"
)

// Against a real control plane: existing traces, new ones, their spans, and a
// restart of the control plane on the same store.
func TestAgainstServer(t *testing.T) {
	st, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	key := server.NewSecret(store.ScopeAPI)
	if _, _, err := st.CreateTenant(t.Context(), store.TenantCreate{Name: "t", Key: &store.KeyCreate{
		Name: "k", Scope: store.ScopeAPI, Prefix: server.SecretPrefix(key), Digest: store.DigestKey(key)}}); err != nil {
		t.Fatal(err)
	}
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
