package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/cli/command"
	"svc/cli/devcmd"
	"svc/cli/process/processtest"
	"svc/server/client"
)

// lockedBuffer is a buffer that tests read while a command writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// devProcess is 'svc dev' in this process.
type devProcess struct {
	dir      string
	out, err lockedBuffer
	signals  chan os.Signal
	done     chan int
	state    devcmd.State
}

// startDev runs 'svc dev' on free ports until the test ends.
func startDev(t *testing.T, dir string) *devProcess {
	t.Helper()
	p := &devProcess{dir: dir, signals: make(chan os.Signal, 4), done: make(chan int, 1)}
	env, _, _ := processtest.New(t)
	env.Stdout, env.Stderr, env.Now = &p.out, &p.err, time.Now
	env.Signals = func() (<-chan os.Signal, func()) { return p.signals, func() {} }
	env.Executable = "/usr/bin/svc"
	go func() {
		p.done <- Main(env, []string{"dev", "--data-dir", dir, "--listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0"})
	}()
	t.Cleanup(func() { p.stop(t) })
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(p.out.String(), "Ctrl-C stops"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("svc dev is not ready\n%s%s", p.out.String(), p.err.String())
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, devcmd.StateFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &p.state); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *devProcess) stop(t *testing.T) {
	t.Helper()
	if p.signals == nil {
		return
	}
	p.signals <- syscall.SIGTERM
	p.signals = nil
	select {
	case code := <-p.done:
		if code != command.ExitOK {
			t.Errorf("exit code %d\n%s", code, p.err.String())
		}
	case <-time.After(20 * time.Second):
		t.Error("svc dev did not stop")
	}
}

// withKey adds the gateway key to every request of an MCP client.
type withKey struct{ key string }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// The official client connects through the gateway of 'svc dev' in every
// protocol revision, calls a tool, streams progress, and is denied another
// tool; the control plane then has the traces.
func TestDevWithOfficialClient(t *testing.T) {
	p := startDev(t, t.TempDir())
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			progress := make(chan float64, 8)
			c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					progress <- r.Params.Progress
				},
			})
			cs, err := c.Connect(ctx, &mcp.StreamableClientTransport{
				Endpoint:   p.state.GatewayURL,
				HTTPClient: &http.Client{Transport: withKey{p.state.GatewayKey}},
			}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			defer cs.Close()
			if got := cs.InitializeResult().ProtocolVersion; got != revision {
				t.Errorf("negotiated %s, want %s", got, revision)
			}
			tools, err := cs.ListTools(ctx, nil)
			if err != nil || len(tools.Tools) < 6 {
				t.Fatalf("tools/list: %v %v", tools, err)
			}
			params := &mcp.CallToolParams{Name: "shop_run_sales_report", Arguments: map[string]any{"months": 2}}
			params.SetProgressToken("p")
			if res, err := cs.CallTool(ctx, params); err != nil || res.IsError {
				t.Fatalf("run_sales_report: %v %v", res, err)
			}
			for _, want := range []float64{1, 2} {
				select {
				case got := <-progress:
					if got != want {
						t.Errorf("progress %v, want %v", got, want)
					}
				case <-ctx.Done():
					t.Fatalf("no progress %v", want)
				}
			}
			res, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "handbook_search", Arguments: map[string]any{"text": "late"}})
			if err != nil || res.IsError {
				t.Errorf("handbook_search: %v %v", res, err)
			}
			if got, err := cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: "handbook://refunds"}); err != nil || len(got.Contents) != 1 {
				t.Errorf("resources/read: %v %v", got, err)
			}
			_, err = cs.CallTool(ctx, &mcp.CallToolParams{Name: "shop_delete_customer", Arguments: map[string]any{"customerId": "C-1001"}})
			if err == nil || !strings.Contains(err.Error(), "policy_denied") {
				t.Errorf("delete_customer: %v, want policy_denied", err)
			}
			res, err = cs.CallTool(ctx, &mcp.CallToolParams{Name: "shop_get_customer", Arguments: map[string]any{"customerId": "C-1001"}})
			if err != nil || res.IsError {
				t.Errorf("the customer is gone: %v %v", res, err)
			}
		})
	}

	api := client.New(p.state.ControlPlaneURL, p.state.APIKey)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		page, err := api.ListTraces(t.Context(), client.TraceQuery{Page: client.Page{Limit: 500}})
		if err != nil {
			t.Fatal(err)
		}
		blocked, reports := 0, 0
		for _, tr := range page.Data {
			switch {
			case tr.ToolName == "shop_delete_customer" && tr.Blocked && tr.Status == "error" && tr.AgentName == "dev":
				blocked++
			case tr.ToolName == "shop_run_sales_report" && tr.Status == "success":
				reports++
			}
		}
		if blocked == 3 && reports == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d blocked and %d successful calls among %d traces, want 3 of each", blocked, reports, page.Total)
		}
	}
}

// The commands of the first screen work when they are pasted.
func TestDevScreenCommands(t *testing.T) {
	for _, program := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	p := startDev(t, t.TempDir())
	commands := regexp.MustCompile(`(?m)^curl(?:.*\\\n)+.*`).FindAllString(p.out.String(), -1)
	if len(commands) != 6 {
		t.Fatalf("found %d curl commands in\n%s", len(commands), p.out.String())
	}
	for i, want := range []string{`"status":"late"`, `"pageId":"late-orders"`, `"message":"policy_denied"`, `AWS_SECRET_ACCESS_KEY`, `"message":"policy_denied"`, `"reason":"approval_required"`} {
		out, err := exec.Command("sh", "-c", commands[i]).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s\nprinted %s %v, want %s", commands[i], out, err, want)
		}
	}
	if want := "export SVC_URL=" + p.state.ControlPlaneURL + " \\\n  SVC_API_KEY=" + p.state.APIKey + " && \\\n  /usr/bin/svc approvals grant \"$(/usr/bin/svc approvals list --status pending --limit 1 -o name)\"\n"; !strings.Contains(p.out.String(), want) {
		t.Errorf("no command\n%s", want)
	}
	if want := "SVC_URL=" + p.state.ControlPlaneURL + " \\\nSVC_API_KEY=" + p.state.APIKey + " \\\n  /usr/bin/svc tui\n"; !strings.Contains(p.out.String(), want) {
		t.Errorf("the last command is not\n%s", want)
	}
}

// Changed rules are used after SIGHUP; an invalid configuration changes
// nothing.
func TestDevReload(t *testing.T) {
	p := startDev(t, t.TempDir())
	path := filepath.Join(p.dir, "gateway.yaml")
	rules, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	call := func() string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.state.GatewayURL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop_search_orders","arguments":{"status":"late","limit":3}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.state.GatewayKey)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Status
	}
	reload := func(text, told string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(p.err.String())
		p.signals <- syscall.SIGHUP
		for deadline := time.Now().Add(10 * time.Second); !strings.Contains(p.err.String()[before:], told); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after the reload: %q, want %q", p.err.String()[before:], told)
			}
		}
	}
	if got := call(); got != "200 OK" {
		t.Fatalf("before: %s", got)
	}
	denying := strings.Replace(string(rules), `tool_prefix: "shop_delete_"`, `tool_prefix: "shop_search_"`, 1)
	reload(denying, "in use")
	if got := call(); got != "403 Forbidden" {
		t.Errorf("after a rule that denies it: %s, want 403", got)
	}
	reload("listen: [", "reload refused")
	if got := call(); got != "403 Forbidden" {
		t.Errorf("after a broken file: %s, want the rules from before", got)
	}
}

// No operator socket is open in the process that also starts programs of upstreams: they run
// under the same account, and could ask it for a key. The commands say what to do.
func TestDevHasNoOperatorSocket(t *testing.T) {
	dir := t.TempDir()
	startDev(t, dir)
	for _, name := range []string{"svc.sock", "svc.sock.secret"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	env, _, errs := processtest.New(t)
	if code := Main(env, []string{"tenant", "key", "default", "--data-dir", dir}); code == command.ExitOK || !strings.Contains(errs.String(), "stop the other process") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// Keys are created once; a key that the store does not know is created again.
func TestDevKeysOutliveRestart(t *testing.T) {
	dir := t.TempDir()
	p := startDev(t, dir)
	first := p.state
	p.stop(t)
	p = startDev(t, dir)
	if p.state.APIKey != first.APIKey || p.state.GatewayKey != first.GatewayKey || p.state.IngestKey != first.IngestKey {
		t.Errorf("keys %+v after a restart, want %+v", p.state, first)
	}
	p.stop(t)
	if err := os.Remove(filepath.Join(dir, devcmd.StateFile)); err != nil {
		t.Fatal(err)
	}
	p = startDev(t, dir)
	if p.state.APIKey == first.APIKey || p.state.APIKey == "" {
		t.Errorf("without dev.json: API key %q, want a new one", p.state.APIKey)
	}
	if _, err := client.New(p.state.ControlPlaneURL, p.state.APIKey).ListAgents(t.Context(), client.AgentQuery{}); err != nil {
		t.Errorf("the new key: %v", err)
	}
}

// TestDevPrintsALink: the first screen has a link that signs a browser in.
func TestDevPrintsALink(t *testing.T) {
	p := startDev(t, t.TempDir())
	found := regexp.MustCompile(regexp.QuoteMeta(p.state.ControlPlaneURL) + `/signin/link\?([A-Z2-7]{52})\n`).FindStringSubmatch(p.out.String())
	if found == nil {
		t.Fatalf("no link: %s", p.out.String())
	}
	b := newPageBrowser(t, p.state.ControlPlaneURL, nil)
	if resp, text := b.open("/signin/link", url.Values{"link": {found[1]}}); resp.StatusCode != http.StatusOK || !strings.Contains(text, "<h1>Overview</h1>") {
		t.Errorf("%s: %s", resp.Status, text)
	}
}
