package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc/cli/daemon"
	"svc/gateway"
	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/gateway/request"
)

// rig is a running gateway in front of upstreams of the test.
type rig struct {
	t       testing.TB
	dir     string
	gateway *gateway.Gateway
	url     string // of /mcp
	key     string // of key id "alice"
	other   string // of key id "bob"
	legacy  string // the session of a client with sessions, for skillCall
	logs    *syncBuffer
	// stop closes the gateway at once; terminate shuts it down as SIGTERM does.
	stop, terminate func()
	tune            func(*gateway.Options) // may be nil

	inFlight atomic.Int64

	mu     sync.Mutex
	yaml   string
	logged int // length of the log before the last start
}

// ServeHTTP passes requests to the gateway, and counts them.
func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.inFlight.Add(1)
	defer r.inFlight.Add(-1)
	r.gateway.ServeHTTP(w, req)
}

// cheap has argon2id parameters that are fast enough for tests.
var cheap = auth.Params{MemoryKiB: 64, Time: 1, Threads: 1}

// newRig starts a gateway. The text is the configuration without listen, license, audit path and
// auth, which the rig adds.
func newRig(t testing.TB, text string) *rig {
	t.Helper()
	return newRigWith(t, text, nil)
}

// newRigWith starts a gateway whose options are changed first.
func newRigWith(t testing.TB, text string, tune func(*gateway.Options)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), logs: &syncBuffer{}, tune: tune}
	keyFile, pub, err := auth.GenerateKey(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Issue(auth.Request{KeyFile: keyFile, Subject: "test", Days: 30, GraceDays: 5, Out: filepath.Join(r.dir, "license.jwt"), Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	hashes := make([]string, 2)
	for i, id := range []string{"alice", "bob"} {
		key, err := auth.NewKey(id)
		if err != nil {
			t.Fatal(err)
		}
		if hashes[i], err = auth.Hash(key, cheap); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			r.key = key
		} else {
			r.other = key
		}
	}
	frame := fmt.Sprintf("listen: 127.0.0.1:0\nlicense:\n  path: %s\n  public_key_file: %s\nsse_keepalive: 0s\n",
		filepath.Join(r.dir, "license.jwt"), pub)
	if !strings.Contains(text, "\naudit:") {
		frame += fmt.Sprintf("audit:\n  path: %s\n", r.auditPath())
	}
	if !strings.Contains(text, "\nauth:") {
		frame += fmt.Sprintf("auth:\n  enabled: true\n  keys:\n    - id: alice\n      hash: %s\n    - id: bob\n      hash: %s\n", hashes[0], hashes[1])
	}
	r.yaml = frame + text
	r.start()
	return r
}

// start runs a gateway with the configuration of the rig until stop, or the end of the test.
func (r *rig) start() {
	r.t.Helper()
	cfg, err := r.load()
	if err != nil {
		r.t.Fatal(err)
	}
	opts := gateway.Options{
		Config: cfg, Load: r.load, Version: "test",
		Logger: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	if r.tune != nil {
		r.tune(&opts)
	}
	r.logged = len(r.logs.String())
	r.gateway, err = gateway.New(opts)
	if err != nil {
		r.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve(ln)
}

// services returns the state that requests use. Tests look at it, and replace parts of it before
// the first request. Reflection reads the field, so that programs have no way to it.
func (r *rig) services() *request.Services {
	return (*request.Services)(reflect.ValueOf(r.gateway).Elem().FieldByName("services").Addr().UnsafePointer())
}

// onDisk replaces the audit log before the first request: open opens its files.
func (r *rig) onDisk(open audit.OpenFunc) {
	r.t.Helper()
	s := r.services()
	if err := s.Audit.Close(); err != nil {
		r.t.Fatal(err)
	}
	cfg := s.Live.Load().Config
	var err error
	if s.Audit, err = audit.Open(cfg.Audit, audit.Options{Now: s.Now, Logger: s.Log, StateDir: cfg.StateDirectory(), OpenFile: open}); err != nil {
		r.t.Fatal(err)
	}
	s.Refused = request.NewRefused(request.Options{Write: s.Audit.WriteRefused, Lost: s.Audit.CountLost, Now: s.Now, Logger: s.Log})
}

// poison overwrites the buffers of a finished request, so that a reference that is kept too long
// shows: no response, audit line or upstream may contain a part of them.
func poison(b *request.Buffers) {
	for _, p := range [][]byte{b.Body.Bytes, b.Answer, b.Own, b.FrameOut} {
		p = p[:cap(p)]
		for i := range p {
			p[i] = 0xdb
		}
	}
	clear(b.Spans[:cap(b.Spans)])
}

// overHTTP reports whether the gateways of this run are served by net/http, and not by package
// front as in production.
var overHTTP bool

// serve runs the gateway on a listener as 'svc gateway' does, until stop or the end of the test.
func (r *rig) serve(ln net.Listener) {
	r.t.Helper()
	if _, measures := r.t.(*testing.B); !measures {
		r.services().Released = poison
	}
	signals := make(chan os.Signal, 2)
	var graceful atomic.Bool
	d := daemon.New(daemon.Options{
		Logger: slog.New(slog.NewTextHandler(r.logs, nil)), Signals: signals, Drain: r.gateway.Drain,
		Windows: func() (window, grace time.Duration) {
			if graceful.Load() {
				return r.gateway.ShutdownTimes()
			}
			return 0, 0
		},
	})
	d.OnClose("gateway", r.gateway.Close)
	d.Go("gateway", r.gateway.Run)
	opts := []daemon.ListenOption{daemon.MaxPerAddress(r.gateway.ConnectionLimit), daemon.OnRefusing(r.gateway.EndStreams), daemon.CutCause(gateway.ErrStopping)}
	if !overHTTP {
		opts = append(opts, daemon.Calls(r.gateway.Paths()...))
	}
	d.Serve("gateway", ln, r, r.gateway.TLSConfig(), opts...)
	r.url = "http://" + ln.Addr().String() + "/mcp"
	ran := make(chan error, 1)
	go func() { ran <- d.Run(context.Background()) }()
	end := func(wait bool) {
		graceful.Store(wait)
		signals <- syscall.SIGTERM
		if err := <-ran; err != nil {
			r.t.Errorf("run: %v", err)
		}
	}
	var once sync.Once
	r.stop = func() { once.Do(func() { end(false) }) }
	r.terminate = func() { once.Do(func() { end(true) }) }
	r.t.Cleanup(r.stop)
}

func (r *rig) auditPath() string { return filepath.Join(r.dir, "audit.jsonl") }

func (r *rig) load() (*config.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, findings := config.Parse("test.yaml", []byte(r.yaml), os.LookupEnv)
	var errs []error
	for _, finding := range findings {
		if finding.Severity == diag.Error {
			errs = append(errs, fmt.Errorf("%s: %s", finding.Path, finding.Message))
		}
	}
	return f, errors.Join(errs...)
}

var metricsServed = regexp.MustCompile(`msg="metrics are served" address=(\S+)`)

// observed returns the URL of the metrics listener, which the gateway logs.
func (r *rig) observed() string {
	r.t.Helper()
	var address []string
	eventually(r.t, "no metrics are served", func() bool {
		address = metricsServed.FindStringSubmatch(r.logs.String()[r.logged:])
		return address != nil
	})
	return "http://" + address[1]
}

// edit changes the configuration text, which the next reload reads.
func (r *rig) edit(old, new string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(r.yaml, old) {
		r.t.Fatalf("the configuration does not hold %q", old)
	}
	r.yaml = strings.Replace(r.yaml, old, new, 1)
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// post sends a body to /mcp with alice's key. Headers come in pairs; an empty value removes one,
// and a + before the name adds a further one.
func (r *rig) post(body string, headers ...string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, r.url, body, headers...)
}

func (r *rig) do(method, url, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else if name, ok := strings.CutPrefix(headers[i], "+"); ok {
			req.Header.Add(name, headers[i+1])
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(got)}
}

// rpcError is the error object of a response.
type rpcError struct {
	ID    json.RawMessage
	Error struct {
		Code    int
		Message string
		Data    map[string]any
	}
}

func (a answer) rpc(t testing.TB) rpcError {
	t.Helper()
	var e rpcError
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("answer is not JSON: %v: %s", err, a.body)
	}
	return e
}

// all returns the current audit lines, without checkpoints.
func (r *rig) all() []map[string]any {
	r.t.Helper()
	data, err := os.ReadFile(r.auditPath())
	if err != nil {
		r.t.Fatal(err)
	}
	var lines []map[string]any
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var line map[string]any
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			r.t.Fatalf("audit line is not JSON: %v: %s", err, scan.Text())
		}
		if line["kind"] != "checkpoint" {
			lines = append(lines, line)
		}
	}
	return lines
}

// lines waits until there are n audit lines, and returns them.
func (r *rig) lines(n int) []map[string]any {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		lines := r.all()
		if len(lines) == n {
			return lines
		}
		if len(lines) > n || time.Now().After(deadline) {
			r.t.Fatalf("%d audit lines, want %d: %v", len(lines), n, lines)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// upstreamServer is a fake upstream that records the requests it receives.
type upstreamServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

type seen struct {
	method string
	header http.Header
	body   string
}

func newUpstream(t testing.TB, serve func(w http.ResponseWriter, body string, r *http.Request)) *upstreamServer {
	t.Helper()
	u := &upstreamServer{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"id":"svc-generation"`) { // the gateway's probe of the protocol revision
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"svc-generation","result":{"supportedVersions":["2026-07-28","2025-11-25"]}}`)
			return
		}
		u.mu.Lock()
		u.requests = append(u.requests, seen{r.Method, r.Header.Clone(), string(body)})
		u.mu.Unlock()
		serve(w, string(body), r)
	}))
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *upstreamServer) seen() []seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]seen(nil), u.requests...)
}

// echo answers every request with its id and an empty result, and accepts notifications and
// responses.
func echo(w http.ResponseWriter, body string, _ *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal([]byte(body), &m)
	if m.ID == nil || m.Method == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
}

func call(id, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool)
}

// syncBuffer is a bytes.Buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// basic is a configuration with one upstream.
func basic(url string) string {
	return fmt.Sprintf(`
default_upstream: main
upstreams:
  - name: main
    url: %s
routes:
  - match: {tool_name: "*"}
    upstream: main
policy:
  default_action: deny
  rules:
    - id: no-danger
      action: deny
      when: {tool_name: danger}
    - id: tools
      action: allow
      when: {tool_name_in: [safe, slow]}
    - id: notes
      action: allow
      when: {method: notifications/progress}
`, url)
}

// lastLine returns the newest line of the audit file.
func (r *rig) lastLine() map[string]any {
	r.t.Helper()
	lines := r.all()
	return lines[len(lines)-1]
}
