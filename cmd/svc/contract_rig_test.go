package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tools is a tool server that its callers control: a call of sse:NAME gets an
// event stream, others get JSON. It records the requests that reach it.
type tools struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // request bodies
}

func newTools(t *testing.T) *tools {
	u := &tools{}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *tools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("Mcp-Method") != "server/discover" { // with which the gateway probes the server's protocol revision
		u.mu.Lock()
		u.seen = append(u.seen, string(body))
		u.mu.Unlock()
	}
	var msg struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if json.Unmarshal(body, &msg) != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if msg.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := func(result string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, msg.ID, result)
	}
	frames := func(n int, method string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range n {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":{\"progressToken\":%s,\"progress\":%d,\"data\":\"secret\"}}\n\n", method, msg.ID, i)
		}
		w.(http.Flusher).Flush()
	}
	w.Header().Set("Content-Type", "application/json")
	const ui = `{"content":[{"type":"ui","a":1},{"type":"text","text":"plain"},{"type":"resource","resource":{"uri":"ui://x","mimeType":"application/vnd.mcp-ui+json","text":"x"}}]}`
	switch name := msg.Params.Name; {
	case msg.Method == "subscriptions/listen":
		frames(3, "notifications/tools/list_changed")
		<-r.Context().Done()
	case name == "ui":
		io.WriteString(w, answer(ui))
	case name == "ui-only":
		io.WriteString(w, answer(`{"content":[{"type":"ui"}]}`))
	case name == "sse-ui":
		frames(1, "notifications/progress")
		fmt.Fprintf(w, "data: %s\n\n", answer(ui))
	case name == "input":
		io.WriteString(w, answer(`{"resultType":"input_required","inputRequests":{}}`))
	case name == "sse-input":
		frames(1, "notifications/progress")
		fmt.Fprintf(w, "data: %s\n\n", answer(`{"resultType":"input_required","inputRequests":{}}`))
	case name == "sse-log":
		frames(3, "notifications/message")
		fmt.Fprintf(w, "data: %s\n\n", answer(`{"content":[]}`))
	case name == "sse-progress":
		frames(3, "notifications/progress")
		fmt.Fprintf(w, "data: %s\n\n", answer(`{"content":[]}`))
	case name == "sse-many":
		frames(10_050, "notifications/other")
		fmt.Fprintf(w, "data: %s\n\n", answer(`{"content":[]}`))
	case name == "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(1500 * time.Millisecond):
		}
		io.WriteString(w, answer(`{"content":[]}`))
	default:
		quoted, _ := json.Marshal(string(body))
		io.WriteString(w, answer(fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted)))
	}
}

// reached returns the bodies of the requests since the last call of reached.
func (u *tools) reached() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen := u.seen
	u.seen = nil
	return seen
}

// gate is a gateway process with the configuration of one test.
type gate struct {
	*process
	dir, file string
}

// newGate starts a gateway. ADDR and DIR in the text are replaced by its address
// and its directory; license, audit and listen are added.
func newGate(t *testing.T, text string) *gate {
	t.Helper()
	return newGateAt(t, freeAddr(t), text)
}

// newGateAt is newGate for a gateway at an address.
func newGateAt(t *testing.T, addr, text string) *gate {
	t.Helper()
	g := &gate{process: &process{t: t, bin: program(t), addr: addr, ready: "/readyz"}, dir: t.TempDir()}
	writeLicense(t, g.dir)
	g.file = filepath.Join(g.dir, "svc.yaml")
	g.write(text)
	// Its output goes to a file, which can be read while it runs.
	g.args = []string{"-c", `exec "$0" "$@" >>` + filepath.Join(g.dir, "log") + ` 2>&1`, g.bin, "gateway", "--config", g.file}
	g.bin = "/bin/sh"
	g.start()
	t.Cleanup(func() {
		g.kill()
		if t.Failed() {
			said := g.said()
			t.Logf("gateway:\n%s", said[max(0, len(said)-4000):])
		}
	})
	return g
}

func (g *gate) write(text string) {
	g.t.Helper()
	text = "listen: ADDR\nlicense: {path: DIR/license.jwt, public_key_file: DIR/license.pub}\naudit: {path: DIR/audit.jsonl}\n" + text
	if err := os.WriteFile(g.file, []byte(strings.NewReplacer("ADDR", g.addr, "DIR", g.dir).Replace(text)), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// reload replaces the configuration: it waits until the log reports the reload and
// /readyz returns the given status.
func (g *gate) reload(text, want string) {
	g.t.Helper()
	g.write(text)
	const says = "configuration reloaded"
	before, got := strings.Count(g.said(), says), ""
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		g.t.Fatal(err)
	}
	reloaded := func() bool {
		_, got = g.get("/readyz")
		return got == want && strings.Count(g.said(), says) > before
	}
	if !holdsWithin(10*time.Second, reloaded) {
		g.t.Fatalf("/readyz returns %s after the reload, want %s; the log:\n%s", got, want, g.said())
	}
}

// line returns the last audit line of a request.
func (g *gate) line() map[string]any {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, "audit.jsonl"))
	if err != nil {
		g.t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		var line map[string]any
		if err := json.Unmarshal(lines[i], &line); err != nil {
			g.t.Fatal(err)
		}
		if line["kind"] == nil || line["kind"] == "request" {
			return line
		}
	}
	g.t.Fatal("no line of a request")
	return nil
}

func rpc(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"q-1","method":%q,"params":%s}`, method, params)
}

func toolCall(name string) string {
	return rpc("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"a":"AKIA1234"}}`, name))
}

// expect is the expected outcome of one message.
type expect struct {
	name, body string
	header     []string
	status     int
	code       int    // JSON-RPC code
	message    string // JSON-RPC error data
	answer     string // pattern of the response
	reaches    string // pattern of the request at the upstream; "-" if none may reach it
	line       map[string]any
}

func (g *gate) hold(t *testing.T, u *tools, tests []expect) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u.reached()
			status, got := g.ask(tt.body, tt.header...)
			if status != tt.status {
				t.Fatalf("status %d, want %d: %.500s", status, tt.status, got)
			}
			if tt.code != 0 {
				var msg struct {
					ID    json.RawMessage
					Error struct {
						Code    int
						Message string
					}
				}
				if err := json.Unmarshal([]byte(got), &msg); err != nil || msg.Error.Code != tt.code || msg.Error.Message != tt.message || string(msg.ID) != `"q-1"` {
					t.Errorf("answer %s %v, want %d %s", got, err, tt.code, tt.message)
				}
			}
			if tt.answer != "" && !regexp.MustCompile(tt.answer).MatchString(got) {
				t.Errorf("answer %.700s, want %s", got, tt.answer)
			}
			switch reached := strings.Join(u.reached(), "\n"); {
			case tt.reaches == "-" && reached != "":
				t.Errorf("the upstream saw %s", reached)
			case tt.reaches != "" && tt.reaches != "-" && !regexp.MustCompile(tt.reaches).MatchString(reached):
				t.Errorf("the upstream saw %s, want %s", reached, tt.reaches)
			}
			line := g.line()
			for key, want := range tt.line {
				if fmt.Sprint(line[key]) != fmt.Sprint(want) {
					t.Errorf("audit line: %s is %v, want %v\n%v", key, line[key], want, line)
				}
			}
		})
	}
}

// said returns the log of the gateway so far.
func (g *gate) said() string {
	b, err := os.ReadFile(filepath.Join(g.dir, "log"))
	if err != nil {
		g.t.Error(err)
	}
	return string(b)
}
