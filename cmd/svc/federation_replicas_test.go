//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/redis/redistest"
)

// toolServer is a server of the official SDK with one tool, one prompt, one resource, and a
// tool that returns a link which no list has.
func toolServer(t *testing.T, name string, stateless bool) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	object := map[string]any{"type": "object"}
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: object}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " " + string(r.Params.Arguments)}}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "link", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ResourceLink{URI: "thing://" + name, Name: "thing"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: name}}}}, nil
	})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: name}}}, nil
	}
	s.AddResource(&mcp.Resource{Name: "index", URI: name + "://index"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "things", URITemplate: "{+thing}"}, read)
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless, JSONResponse: stateless}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// balancer sends each request to one of the gateways in turn, and to the next one when the
// chosen one is down.
type balancer struct {
	key   string
	addrs []string
	n     atomic.Int64
}

func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	var last error
	first := int(b.n.Add(1))
	for i := range b.addrs {
		r := r.Clone(r.Context())
		r.URL.Host = b.addrs[(first+i)%len(b.addrs)]
		r.Host = r.URL.Host
		r.Header.Set("Authorization", "Bearer "+b.key)
		if body != nil {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return resp, err
		}
		last = err
	}
	return nil, last
}

// A client of each protocol generation uses three servers behind two gateways that share a
// Redis, while one gateway is killed and started again under load: each response is correct
// or an error, and after the load all responses are correct.
func TestFederatedReplicasWhileOneIsKilled(t *testing.T) {
	redis := redistest.Start(t)
	dir := t.TempDir()
	writeLicense(t, dir)
	key, hash := newKey(t, "agent")
	if err := os.WriteFile(filepath.Join(dir, "session.key"), []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	upstreams := ""
	for i, name := range []string{"crm", "web", "files"} {
		upstreams += fmt.Sprintf("  - {name: %s, url: %q, prefix: %s_}\n", name, toolServer(t, name, i > 0), name)
	}
	b := &balancer{key: key}
	var gateways []*process
	for i := range 2 {
		p := &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz"}
		file := filepath.Join(dir, fmt.Sprintf("svc%d.yaml", i))
		text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
federation: {enabled: true}
upstreams:
%[3]sauth: {enabled: true, keys: [{id: agent, hash: %[4]q}]}
policy: {default_action: allow}
audit: {path: %[2]s/audit%[5]d.jsonl}
state_dir: %[2]s/state%[5]d
sessions: {key_file: %[2]s/session.key}
rate_limit_store: {type: redis, url: %[6]q, operation_timeout: 2s}
`, p.addr, dir, upstreams, hash, i, redis.URL())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.args = []string{"gateway", "--config", file}
		p.start()
		t.Cleanup(p.kill)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("gateway %d:\n%s", i, tail(&p.out))
			}
		})
		gateways, b.addrs = append(gateways, p), append(b.addrs, p.addr)
	}
	rounds, _ := strconv.Atoi(os.Getenv("SVC_TEST_KILL_ROUNDS")) // each cycle kills both; longer runs have more cycles
	rounds = max(rounds, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds)*45*time.Second)
	defer cancel()
	connect := func() *mcp.ClientSession {
		t.Helper()
		client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
		s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + b.addrs[0] + "/mcp", HTTPClient: &http.Client{Transport: b}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	// use makes one request of every kind, and returns the wrong results; failed counts
	// errors.
	use := func(s *mcp.ClientSession, n int) (wrong string, failed int) {
		note := func(what string, err error, right bool) {
			switch {
			case err != nil:
				failed++
				if n == 0 { // not counted as a round of an agent, since errors are expected
					t.Logf("%s: %v", what, err)
				}
			case !right:
				wrong += what + "; "
			}
		}
		tools, err := s.ListTools(ctx, nil)
		note("tools", err, err == nil && len(tools.Tools) == 6)
		prompts, err := s.ListPrompts(ctx, nil)
		note("prompts", err, err == nil && len(prompts.Prompts) == 3)
		resources, err := s.ListResources(ctx, nil)
		note("resources", err, err == nil && len(resources.Resources) == 3)
		for _, name := range []string{"crm", "web", "files"} {
			got, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name + "_echo", Arguments: map[string]any{"n": n}})
			note(name+"_echo", err, err == nil && len(got.Content) == 1 && got.Content[0].(*mcp.TextContent).Text == fmt.Sprintf(`%s {"n":%d}`, name, n))
			prompt, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: name + "_greet"})
			note(name+"_greet", err, err == nil && prompt.Messages[0].Content.(*mcp.TextContent).Text == name)
			for _, uri := range []string{name + "://index", "thing://" + name} {
				read, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
				note(uri, err, err == nil && read.Contents[0].Text == name)
			}
		}
		return wrong, failed
	}
	first := connect()
	for _, name := range []string{"crm", "web", "files"} { // from here on both gateways know the links
		if _, err := first.CallTool(ctx, &mcp.CallToolParams{Name: name + "_link"}); err != nil {
			t.Fatal(err)
		}
	}
	if wrong, failed := use(first, 0); wrong != "" || failed > 0 {
		t.Fatalf("before: %d failed, wrong: %s", failed, wrong)
	}
	var done, failures atomic.Int64
	stop := make(chan struct{})
	var agents sync.WaitGroup
	for range 3 {
		s := connect()
		agents.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				wrong, failed := use(s, n)
				if wrong != "" {
					t.Errorf("under load: wrong: %s", wrong)
				}
				failures.Add(int64(failed))
				done.Add(1)
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		want := done.Load() + n
		if !holdsWithin(40*time.Second, func() bool { return done.Load() >= want }) {
			t.Errorf("%d rounds, want %d", done.Load(), want)
		}
	}
	for _, gw := range slices.Repeat(gateways, rounds) {
		more(6)
		gw.kill()
		more(6) // at only the other gateway
		if wrong, failed := use(connect(), 0); wrong != "" || failed > 0 {
			t.Errorf("a new client at one gateway alone: %d failed, wrong: %s", failed, wrong)
		}
		gw.start()
	}
	more(6)
	close(stop)
	agents.Wait()
	t.Logf("%d rounds of 15 requests, %d requests failed", done.Load(), failures.Load())
	for i, s := range []*mcp.ClientSession{first, connect()} {
		if wrong, failed := use(s, 0); wrong != "" || failed > 0 {
			t.Errorf("client %d, after: %d failed, wrong: %s", i, failed, wrong)
		}
	}
	for i, gw := range gateways {
		if strings.Contains(gw.out.String(), "not saved") {
			t.Errorf("gateway %d did not keep its state", i)
		}
	}
	if f, n := failures.Load(), done.Load()*15; f*5 > n {
		t.Errorf("%d of %d requests failed", f, n)
	}
}
