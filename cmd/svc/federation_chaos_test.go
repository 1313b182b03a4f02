//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// link is the connection of a gateway to a tool server, which breaks and stalls. The server
// loses its sessions whenever the link breaks, like a killed process.
type link struct {
	t    testing.TB
	name string
	make func() http.Handler

	mu      sync.Mutex
	ln      net.Listener // nil while it is broken
	addr    string
	conns   map[net.Conn]bool
	stalled chan struct{} // closed when data flows again; nil while it does

	handler atomic.Pointer[http.Handler]
	server  *httptest.Server
}

func newLink(t testing.TB, name string, stateless bool) *link {
	l := &link{t: t, name: name, conns: map[net.Conn]bool{}}
	l.make = func() http.Handler {
		s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
		for i := range 3 {
			s.AddTool(&mcp.Tool{Name: fmt.Sprintf("echo%d", i), InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s echo%d %s", name, i, r.Params.Arguments)}}}, nil
			})
		}
		s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: name}}}}, nil
		})
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless, JSONResponse: stateless})
	}
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*l.handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(func() { l.breakOff(); l.server.CloseClientConnections(); l.server.Close() })
	l.addr = "127.0.0.1:0"
	l.restore()
	return l
}

// breakOff closes all connections, in the middle of transfers.
func (l *link) breakOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ln != nil {
		l.ln.Close()
		l.ln = nil
	}
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// restore listens again, with a server without sessions.
func (l *link) restore() {
	h := l.make()
	l.handler.Store(&h)
	l.mu.Lock()
	defer l.mu.Unlock()
	ln, err := net.Listen("tcp", l.addr)
	if err != nil {
		l.t.Errorf("%s: %v", l.name, err)
		return
	}
	l.ln, l.addr = ln, ln.Addr().String()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go l.carry(c)
		}
	}()
}

func (l *link) carry(c net.Conn) {
	s, err := net.Dial("tcp", l.server.Listener.Addr().String())
	if err != nil {
		c.Close()
		return
	}
	l.mu.Lock()
	l.conns[c], l.conns[s] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		both.Go(func() {
			defer way[0].Close()
			defer way[1].Close()
			buffer := make([]byte, 4096)
			for {
				n, err := way[0].Read(buffer)
				l.mu.Lock()
				stalled := l.stalled
				l.mu.Unlock()
				if stalled != nil {
					<-stalled
				}
				if _, failed := way[1].Write(buffer[:n]); err != nil || failed != nil {
					return
				}
			}
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	delete(l.conns, s)
}

// stall blocks all data until the returned function is called.
func (l *link) stall() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = make(chan struct{})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.stalled)
		l.stalled = nil
	}
}

// disturb breaks and stalls the link at random until ctx ends, and then restores it.
func (l *link) disturb(ctx context.Context, random *rand.Rand, kills, stalls *atomic.Int64) {
	pause := func(most time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.Int64N(int64(most)))):
		}
	}
	for ctx.Err() == nil {
		pause(3 * time.Second)
		if random.IntN(2) == 0 {
			kills.Add(1)
			l.breakOff()
			pause(1500 * time.Millisecond)
			l.restore()
			continue
		}
		stalls.Add(1)
		release := l.stall()
		pause(2 * time.Second)
		release()
	}
}

// agent is a client of a gateway that uses the official client, or plain messages with its
// own session.
type agent interface {
	list(ctx context.Context) (tools []string, err error)
	call(ctx context.Context, tool string, n int) (text string, err error)
}

type sdkAgent struct{ *mcp.ClientSession }

func (a sdkAgent) list(ctx context.Context) (tools []string, err error) {
	got, err := a.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, tool := range got.Tools {
		tools = append(tools, tool.Name)
	}
	if prompts, err := a.ListPrompts(ctx, nil); err != nil || len(prompts.Prompts) == 0 {
		return nil, fmt.Errorf("prompts: %v", err)
	}
	return tools, nil
}

func (a sdkAgent) call(ctx context.Context, tool string, n int) (string, error) {
	got, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"n": n}})
	if err != nil {
		return "", err
	}
	return got.Content[0].(*mcp.TextContent).Text, nil
}

// sessionAgent is a client of a revision with sessions.
type sessionAgent struct {
	url, key, session string
	ids               int // ids of requests, unique in a session
}

func (a *sessionAgent) post(ctx context.Context, body string) (answer json.RawMessage, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + a.key, "Mcp-Session-Id": a.session, "MCP-Protocol-Version": "2025-06-18"} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		a.session = id
	}
	for line := range strings.Lines(string(text)) { // the last event of a stream, or the whole body
		if data, ok := strings.CutPrefix(line, "data:"); ok && strings.TrimSpace(data) != "" {
			text = []byte(data)
		}
	}
	var m struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(text, &m); err != nil && resp.StatusCode != http.StatusAccepted {
		return nil, fmt.Errorf("%d %q: %w", resp.StatusCode, text, err)
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%s", m.Error.Message)
	}
	return m.Result, nil
}

func (a *sessionAgent) list(ctx context.Context) (tools []string, err error) {
	a.ids++
	text, err := a.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, a.ids))
	var got struct{ Tools []struct{ Name string } }
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	for _, tool := range got.Tools {
		tools = append(tools, tool.Name)
	}
	return tools, err
}

func (a *sessionAgent) call(ctx context.Context, tool string, n int) (string, error) {
	a.ids++
	text, err := a.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":%d}}}`, a.ids, tool, n))
	var got struct{ Content []struct{ Text string } }
	if err == nil {
		if err = json.Unmarshal(text, &got); err == nil && len(got.Content) != 1 {
			err = fmt.Errorf("no content: %s", text)
		}
	}
	if err != nil {
		return "", err
	}
	return got.Content[0].Text, nil
}

// namesItsFailure are the allowed errors of a call whose upstream was broken or stalled:
// messages of the gateway, and its statuses, because the official client reports only those.
var namesItsFailure = []string{"upstream_unreachable", "upstream_busy", "upstream_invalid", "sse_truncated", "Bad Gateway", "Service Unavailable", "Gateway Timeout"}

// Links to six servers break and stall at random under the load of clients of both protocol
// generations, at /mcp and at a view: no list fails or lacks an item, each call succeeds or
// returns an allowed error, and when the links are restored everything works.
// SVC_TEST_CHAOS=10m and SVC_TEST_SEED=1 make it longer, and repeat a run.
func TestFederationWhileUpstreamsBreakAndStall(t *testing.T) {
	length := 4 * time.Second
	if text := os.Getenv("SVC_TEST_CHAOS"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := seedOf(t)
	dir := t.TempDir()
	writeLicense(t, dir)
	key, hash := newKey(t, "agent")
	var links []*link
	upstreams, tools := "", []string{}
	for i := range 6 {
		l := newLink(t, fmt.Sprintf("u%d", i), i%2 == 0)
		links = append(links, l)
		upstreams += fmt.Sprintf("  - {name: %[1]s, url: \"http://%[2]s/\", prefix: %[1]s_, timeout: 1s, breaker: {failure_threshold: 5, open_duration: 500ms}}\n", l.name, l.addr)
		for j := range 3 {
			tools = append(tools, fmt.Sprintf("%s_echo%d", l.name, j))
		}
	}
	file := filepath.Join(dir, "svc.yaml")
	p := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", args: []string{"gateway", "--config", file}}
	text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
federation: {enabled: true, refresh_interval: 1s}
upstreams:
%[3]sviews: [{name: half, upstreams: [u0, u1, u2], tools: ["*_echo0", "*_echo1"]}]
auth: {enabled: true, keys: [{id: agent, hash: %[4]q}]}
policy: {default_action: allow}
audit: {path: %[2]s/audit.jsonl}
`, p.addr, dir, upstreams, hash)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(p.kill)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("gateway:\n%s", tail(&p.out))
		}
	})
	ofView := []string{"u0_echo0", "u0_echo1", "u1_echo0", "u1_echo1", "u2_echo0", "u2_echo1"}
	ctx, cancel := context.WithTimeout(t.Context(), length+2*time.Minute)
	defer cancel()
	type client struct {
		agent
		tools []string
	}
	var clients []client
	for _, at := range []struct {
		path  string
		tools []string
	}{{"/mcp", tools}, {"/mcp/v/half", ofView}} {
		url := "http://" + p.addr + at.path
		for range 3 {
			session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: &balancer{key: key, addrs: []string{p.addr}}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Close() })
			legacy := &sessionAgent{url: url, key: key}
			if _, err := legacy.post(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, client{sdkAgent{session}, at.tools}, client{legacy, at.tools})
		}
	}
	var lists, lost, calls, failed, kills, stalls, longest atomic.Int64
	listed := func(c client) {
		began := time.Now()
		got, err := c.list(ctx)
		lists.Add(1)
		if took := int64(time.Since(began)); took > longest.Load() {
			longest.Store(took)
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, c.tools) {
			lost.Add(1)
			t.Errorf("a list: %q, %v; want %q", got, err, c.tools)
		}
	}
	called := func(c client, tool string, n int) error {
		upstream, own, _ := strings.Cut(tool, "_")
		got, err := c.call(ctx, tool, n)
		calls.Add(1)
		if err != nil {
			failed.Add(1)
			if !slices.ContainsFunc(namesItsFailure, func(name string) bool { return strings.Contains(err.Error(), name) }) {
				t.Errorf("%s does not name its failure: %v", tool, err)
			}
		} else if want := fmt.Sprintf(`%s %s {"n":%d}`, upstream, own, n); got != want {
			t.Errorf("%s is wrong: %q, want %q", tool, got, want)
		}
		return err
	}
	for _, c := range clients {
		if !holdsWithin(10*time.Second, func() bool { got, err := c.list(ctx); return err == nil && len(got) == len(c.tools) }) {
			t.Fatal("the tools are not listed")
		}
	}
	disturbed, settle := context.WithTimeout(ctx, length)
	defer settle()
	var all sync.WaitGroup
	for i, l := range links {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() { l.disturb(disturbed, random, &kills, &stalls) })
	}
	for i, c := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(100+i)))
		all.Go(func() {
			for n := 0; disturbed.Err() == nil && !t.Failed(); n++ {
				listed(c)
				for range 5 {
					_ = called(c, c.tools[random.IntN(len(c.tools))], n)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d lists, %d of which failed or lacked an item, the longest took %v; %d calls, %d of which failed and named why; %d kills, %d stalls",
		lists.Load(), lost.Load(), time.Duration(longest.Load()).Round(time.Millisecond), calls.Load(), failed.Load(), kills.Load(), stalls.Load())
	kinds := map[string]int{}
	for _, line := range auditLines(t, filepath.Join(dir, "audit.jsonl"), "request") {
		if kind, _ := line["error_kind"].(string); kind != "" {
			kinds[fmt.Sprint(line["method"], " ", line["status"], " ", kind)]++
		}
	}
	t.Logf("failures in the audit file: %v", kinds)
	for _, c := range clients {
		listed(c)
		for n, tool := range c.tools {
			if !holdsWithin(10*time.Second, func() bool { return called(c, tool, n) == nil }) {
				t.Errorf("%s does not work any more", tool)
			}
		}
	}
	if strings.Contains(p.out.String(), "panic") {
		t.Error("the gateway panicked")
	}
}
