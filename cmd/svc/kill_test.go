package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc/server/api"
	"svc/server/client"
)

// TestKilledProcessesLoseAndDoubleNoTrace runs the gateway and the control
// plane as processes of their own, kills each again and again with SIGKILL while
// calls run, and then compares: every answer that a client got has its audit
// line, and every audit line its one trace.
func TestKilledProcessesLoseAndDoubleNoTrace(t *testing.T) {
	dir := t.TempDir()
	bin := program(t)
	upstream := httptest.NewServer(http.HandlerFunc(answerCall))
	defer upstream.Close()

	const apiKey = "svc_api_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	plane := &process{t: t, bin: bin, addr: freeAddr(t), ready: "/readyz"}
	plane.args = []string{"serve", "--listen", plane.addr, "--data-dir", filepath.Join(dir, "data"), "--rate-limit", "100000", "--ingest-rate-limit", "100000"}
	plane.env = []string{"SVC_BOOTSTRAP_API_KEY=" + apiKey}
	plane.start()
	defer plane.kill()
	control := client.New("http://"+plane.addr, apiKey)
	ingest := createIngestKey(t, control)

	gw := &process{t: t, bin: bin, addr: freeAddr(t), ready: "/readyz"}
	key := writeGateway(t, bin, dir, gw.addr, upstream.URL, "http://"+plane.addr, ingest)
	gw.args = []string{"gateway", "--config", filepath.Join(dir, "svc.yaml")}
	gw.start()
	defer gw.kill()

	defer func() {
		if t.Failed() {
			t.Logf("gateway:\n%s\ncontrol plane:\n%s", tail(&gw.out), tail(&plane.out))
		}
	}()

	// Four agents call without pause and note every id that was answered.
	var answered sync.Map
	var count atomic.Int64
	stop := make(chan struct{})
	var agents sync.WaitGroup
	for a := range 4 {
		agents.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("tool_%d_%d", a, n)
				if callTool(gw.addr, key, id) {
					answered.Store(id, true)
					count.Add(1)
				} else {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	for range 4 {
		time.Sleep(400 * time.Millisecond)
		gw.kill()
		gw.start()
		time.Sleep(400 * time.Millisecond)
		plane.kill()
		plane.start()
	}
	close(stop)
	agents.Wait()

	lines := auditedTools(t, filepath.Join(dir, "audit.jsonl"))
	answered.Range(func(id, _ any) bool {
		if lines[id.(string)] != 1 {
			t.Errorf("answered call %v has %d audit lines", id, lines[id.(string)])
		}
		return true
	})
	traces := awaitTraces(t, control, len(lines))
	for id := range lines {
		if traces[id] != 1 {
			t.Errorf("call %s has an audit line and %d traces", id, traces[id])
		}
	}
	if len(traces) != len(lines) {
		t.Errorf("%d calls in the audit files, %d in the traces", len(lines), len(traces))
	}
	t.Logf("%d calls answered, %d audited, %d traced, over 4 kills of each side", count.Load(), len(lines), len(traces))
}

func answerCall(w http.ResponseWriter, r *http.Request) {
	var m struct{ ID json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&m)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
}

// process is the program, started again and again at one address.
type process struct {
	t     *testing.T
	bin   string
	args  []string
	env   []string
	addr  string
	ready string
	cmd   *exec.Cmd
	out   bytes.Buffer
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.bin, p.args...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for i := 0; ; i++ {
		resp, err := http.Get("http://" + p.addr + p.ready)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if i == 400 {
			p.kill()
			p.t.Fatalf("svc %s did not become ready:\n%s", p.args[0], p.out.String())
		}
		time.Sleep(25 * time.Millisecond)
	}
}

func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // killed: the error is the signal
	p.cmd = nil
}

// tail returns the last of what a process said.
func tail(b *bytes.Buffer) []byte { return b.Bytes()[max(0, b.Len()-4000):] }

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func createIngestKey(t *testing.T, c *client.Client) string {
	t.Helper()
	key, err := c.CreateKey(t.Context(), api.KeyCreate{Name: "gateway", Scope: "ingest"})
	if err != nil {
		t.Fatal(err)
	}
	return key.Key
}

// writeGateway writes license and configuration and returns an API key.
func writeGateway(t *testing.T, bin, dir, addr, upstream, plane, ingest string) string {
	t.Helper()
	run := func(args ...string) []byte {
		out, err := exec.Command(bin, args...).Output()
		if err != nil {
			t.Fatalf("svc %s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	run("license", "keygen", "--out", dir)
	run("license", "issue", "--key", filepath.Join(dir, "license.key"), "--subject", "t", "--days", "1", "--grace-days", "1", "--out", filepath.Join(dir, "license.jwt"))
	var key struct{ Key, Hash string }
	if err := json.Unmarshal(run("keygen", "--id", "agent", "-o", "json"), &key); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
default_upstream: up
upstreams: [{name: up, url: %[3]q}]
routes: [{match: {tool_name: "*"}, upstream: up}]
auth: {enabled: true, keys: [{id: agent, hash: %[4]q}]}
policy: {default_action: allow}
audit: {path: %[2]s/audit.jsonl}
control_plane: {url: %[5]q, ingest_key: %[6]q}
`, addr, dir, upstream, key.Hash, plane, ingest)
	if err := os.WriteFile(filepath.Join(dir, "svc.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return key.Key
}

// callTool reports whether the call was answered in full.
func callTool(addr, key, tool string) bool {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q}}`, tool, tool)
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK && bytes.Contains(got, []byte(tool))
}

// auditedTools counts the request lines of each tool.
func auditedTools(t *testing.T, path string) map[string]int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts := make(map[string]int)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line struct{ Kind, Tool string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Kind == "request" && line.Tool != "" {
			counts[line.Tool]++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}

// awaitTraces waits until there are as many traces, and a moment longer for
// those that would be too many; then it counts them by tool.
func awaitTraces(t *testing.T, c *client.Client, want int) map[string]int {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		page, err := c.ListTraces(t.Context(), client.TraceQuery{Page: client.Page{Limit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if page.Total >= want {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d traces after 30 s, want %d", page.Total, want)
		}
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(2 * time.Second) // the reporter's interval is one
	counts := make(map[string]int)
	for offset := 0; ; {
		page, err := c.ListTraces(t.Context(), client.TraceQuery{Page: client.Page{Limit: 500, Offset: offset}})
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range page.Data {
			counts[trace.ToolName]++
		}
		if offset += len(page.Data); len(page.Data) == 0 || offset >= page.Total {
			return counts
		}
	}
}
