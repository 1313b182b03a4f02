package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"svc/server/client"
	"svc/store/api"
	"svc/test/port"
)

// process is the program, which can be restarted at the same address.
type process struct {
	t     testing.TB
	bin   string
	args  []string
	env   []string
	addr  string
	ready string // the path that returns 200 when the process is ready; empty for a process with TLS
	cmd   *exec.Cmd
	out   output
}

// output is the output of a process. It can be read while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (p *process) start() {
	p.t.Helper()
	p.launch()
	if !holdsWithin(20*time.Second, p.up) {
		p.kill()
		p.t.Fatalf("svc %s did not become ready:\n%s", p.args[0], p.out.String())
	}
}

// launch starts the process, which is not ready yet.
func (p *process) launch() {
	p.t.Helper()
	p.cmd = exec.Command(p.bin, p.args...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// holdsWithin polls until a condition that another process brings about holds,
// for at most limit, and reports whether it held.
func holdsWithin(limit time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// stop stops the process gracefully.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("svc %s: %v", p.args[0], err)
	}
	p.cmd = nil
}

func (p *process) up() bool {
	if p.ready == "" {
		conn, err := net.Dial("tcp", p.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	resp, err := http.Get("http://" + p.addr + p.ready)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait() // after a kill the error is the signal
	p.cmd = nil
}

func (p *process) get(path string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+p.addr+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	status, body, err := answerTo(http.DefaultClient, r)
	if err != nil {
		p.t.Fatal(err)
	}
	return status, body
}

// ask posts a message to /mcp, with header fields in pairs.
func (p *process) ask(body string, header ...string) (int, string) {
	p.t.Helper()
	status, answer, err := p.post(http.DefaultClient, body, header...)
	if err != nil {
		p.t.Fatal(err)
	}
	return status, answer
}

// post is ask for requests that may fail.
func (p *process) post(c *http.Client, body string, header ...string) (status int, answer string, err error) {
	r, err := http.NewRequest(http.MethodPost, "http://"+p.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return answerTo(c, r)
}

// answerTo returns a complete response. An error in its body is returned with
// its status.
func answerTo(c *http.Client, r *http.Request) (status int, body string, err error) {
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// tail returns the last part of the output of a process.
func tail(o *output) string {
	said := o.String()
	return said[max(0, len(said)-4000):]
}

func freeAddr(t testing.TB) string {
	t.Helper()
	address, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// run runs the program to its end and returns what it printed.
func run(t testing.TB, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(program(t), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("svc %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// writeLicense puts a license and its public key into a directory.
func writeLicense(t testing.TB, dir string) {
	t.Helper()
	run(t, "license", "keygen", "--out", dir)
	run(t, "license", "issue", "--key", filepath.Join(dir, "license.key"), "--subject", "t", "--out", filepath.Join(dir, "license.jwt"))
}

// newKey makes a gateway key with the program and returns it with its hash.
func newKey(t testing.TB, id string) (key, hash string) {
	t.Helper()
	var made struct{ Key, Hash string }
	if err := json.Unmarshal(run(t, "keygen", "--id", id, "-o", "json"), &made); err != nil {
		t.Fatal(err)
	}
	return made.Key, made.Hash
}

// auditLines returns the lines of a kind in an audit file.
func auditLines(t testing.TB, path, kind string) (found []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line map[string]any
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatalf("%v in %s", err, in.Text())
		}
		if line["kind"] == kind {
			found = append(found, line)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// answerCall is a tool server with empty responses.
func answerCall(w http.ResponseWriter, r *http.Request) {
	var m struct{ ID json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&m)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
}

// planeKey is the first API key of a control plane.
const planeKey = "svc_api_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// stack is a control plane and a gateway that reports to it, each a separate
// process, with their files in dir.
type stack struct {
	t       *testing.T
	dir     string
	plane   *process
	gw      *process
	control *client.Client
	key     string // of the gateway
}

// startStack starts both. The text section is added to the gateway's section
// control_plane.
func startStack(t *testing.T, upstream, section string) *stack {
	t.Helper()
	s := &stack{t: t, dir: t.TempDir()}
	file := filepath.Join(s.dir, "svc.yaml")
	s.plane = &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", env: []string{"SVC_BOOTSTRAP_API_KEY=" + planeKey}}
	s.gw = &process{t: t, bin: program(t), addr: freeAddr(t), ready: "/readyz", args: []string{"gateway", "--config", file}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("gateway:\n%s\ncontrol plane:\n%s", tail(&s.gw.out), tail(&s.plane.out))
		}
	})

	s.plane.args = []string{"serve", "--listen", s.plane.addr, "--data-dir", filepath.Join(s.dir, "data"), "--rate-limit", "100000", "--ingest-rate-limit", "100000"}
	s.plane.start()
	t.Cleanup(s.plane.kill)
	s.control = client.New("http://"+s.plane.addr, planeKey)
	ingest, err := s.control.CreateKey(t.Context(), api.KeyCreate{Name: "gateway", Scope: "ingest"})
	if err != nil {
		t.Fatal(err)
	}

	writeLicense(t, s.dir)
	key, hash := newKey(t, "agent")
	s.key = key
	text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
default_upstream: up
upstreams: [{name: up, url: %[3]q}]
routes: [{match: {tool_name: "*"}, upstream: up}]
auth: {enabled: true, keys: [{id: agent, hash: %[4]q}]}
policy: {default_action: allow}
audit: {path: %[2]s/audit.jsonl}
control_plane: {url: "http://%[5]s", ingest_key: %[6]q, %[7]s}
`, s.gw.addr, s.dir, upstream, hash, s.plane.addr, ingest.Key, section)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.gw.start()
	t.Cleanup(s.gw.kill)
	return s
}

// seedOf returns the seed of a test with random order: SVC_TEST_SEED, or a new one, which it logs.
func seedOf(t *testing.T) uint64 {
	seed, err := strconv.ParseUint(os.Getenv("SVC_TEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("SVC_TEST_SEED=%d", seed)
	return seed
}
