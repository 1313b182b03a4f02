package cli

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process/processtest"
)

// serveProcess is 'svc serve' in this process.
type serveProcess struct {
	t       *testing.T
	url     string // URL of the API
	metrics string // URL of the metrics; empty when off
	key     string
	err     lockedBuffer
}

// startServe runs 'svc serve' on free ports until the test ends.
func startServe(t *testing.T, environ map[string]string, tty bool, args ...string) *serveProcess {
	t.Helper()
	p := &serveProcess{t: t}
	dir := t.TempDir()
	signals, done := make(chan os.Signal, 1), make(chan int, 1)
	env, _, _ := processtest.New(t)
	env.Stderr, env.StderrTTY, env.Now = &p.err, tty, time.Now
	env.Signals = func() (<-chan os.Signal, func()) { return signals, func() {} }
	env.LookupEnv = func(name string) (string, bool) { v, ok := environ[name]; return v, ok }
	go func() {
		done <- Main(env, append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--log-format", "json"}, args...))
	}()
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		select {
		case code := <-done:
			if code != command.ExitOK {
				t.Errorf("exit code %d\n%s", code, p.err.String())
			}
		case <-time.After(20 * time.Second):
			t.Error("svc serve did not stop")
		}
	})
	address := func(server string) string {
		m := regexp.MustCompile(`"server":"` + server + `","addr":"([^"]+)"`).FindStringSubmatch(p.err.String())
		if m == nil {
			return ""
		}
		return "http://" + m[1]
	}
	for deadline := time.Now().Add(20 * time.Second); address("operator") == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("svc serve is not ready\n%s", p.err.String())
		}
	}
	p.url, p.metrics = address("api"), address("metrics")
	if key, err := os.ReadFile(filepath.Join(dir, "bootstrap-key")); err == nil {
		p.key = strings.TrimSpace(string(key))
	}
	return p
}

// 'svc store info --store URL' and the other commands on a store ask the running server that has
// the store open, when the URL alone names it; where the server's data directory is elsewhere, the
// error names the flag.
func TestCommandsOnTheStoreOfARunningServerByItsURL(t *testing.T) {
	data, link, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "other.db")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	startServe(t, nil, false, "--data-dir", data)
	other := t.TempDir()
	startServe(t, nil, false, "--data-dir", other, "--store", "bbolt://"+elsewhere)
	here := "bbolt://" + filepath.Join(data, "svc.db")
	for _, row := range []struct {
		args []string
		fail string // in the error; empty: succeeds
	}{
		{[]string{"store", "info", "--store", here}, ""},
		{[]string{"store", "info", "--store", "bbolt://" + filepath.Join(link, "svc.db")}, ""},
		{[]string{"store", "backup", filepath.Join(t.TempDir(), "copy.db"), "--store", here}, ""},
		{[]string{"tenant", "list", "--store", here}, ""},
		{[]string{"store", "info", "--store", "bbolt://" + elsewhere, "--data-dir", other}, ""},
		{[]string{"store", "info", "--store", "bbolt://" + elsewhere}, "name the --data-dir of the server"},
		{[]string{"tenant", "list", "--store", "bbolt://" + elsewhere}, "name the --data-dir of the server"},
	} {
		env, _, out := processtest.New(t)
		code := Main(env, row.args)
		if text := out.String(); (code == command.ExitOK) != (row.fail == "") || !strings.Contains(text, row.fail) {
			t.Errorf("%v: exit code %d, %s", row.args, code, text)
		}
	}
}

// ask sends a request with the first key; header is name, value, name, value…
func (p *serveProcess) ask(method, url, body string, header ...string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if strings.HasPrefix(url, p.url) {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer)
}

// IDP_WEBHOOK_SECRET configures the webhook receiver; without it every webhook
// request is 403.
func TestServeWebhookSecret(t *testing.T) {
	const body = `{"type":"user.created","createdAt":"2026-11-01T12:00:00Z","data":{"userId":"u1","email":"u1@example.com","displayName":"U","orgId":"o"}}`
	deliver := func(p *serveProcess, secret string) (int, string) {
		at := fmt.Sprint(time.Now().Unix())
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(at + "." + body))
		return p.ask("POST", p.url+"/api/auth/webhook", body, "X-Idp-Signature", "t="+at+",v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	p := startServe(t, map[string]string{"IDP_WEBHOOK_SECRET": "whsec_test"}, false)
	if status, answer := deliver(p, "whsec_test"); status != 200 || answer != `{"success":true}` {
		t.Errorf("signed: %d %s", status, answer)
	}
	if status, answer := deliver(p, "another"); status != 403 || !strings.Contains(answer, "Invalid webhook signature") {
		t.Errorf("signed with another secret: %d %s", status, answer)
	}
	p = startServe(t, nil, false)
	for _, secret := range []string{"whsec_test", ""} {
		if status, answer := deliver(p, secret); status != 403 || !strings.Contains(answer, "Invalid webhook signature") {
			t.Errorf("without a secret, signed with %q: %d %s", secret, status, answer)
		}
	}
}

// The first key is printed to standard error only when that is a terminal, and
// is never logged.
func TestServeBootstrapKeyIsShownToTerminalsOnly(t *testing.T) {
	for _, tty := range []bool{false, true} {
		p := startServe(t, nil, tty)
		if !strings.HasPrefix(p.key, "svc_api_") {
			t.Fatalf("first key %q", p.key)
		}
		if shown := strings.Contains(p.err.String(), p.key); shown != tty {
			t.Errorf("terminal %v: shown %v", tty, shown)
		}
	}
}

// /metrics is served on metrics-listen only, which is off by default; /healthz
// and /readyz need no key.
func TestServeMetricsListen(t *testing.T) {
	p := startServe(t, nil, false, "--metrics-listen", "127.0.0.1:0")
	if status, answer := p.ask("GET", p.metrics+"/metrics", ""); status != 200 || !strings.Contains(answer, "svc_store_size_bytes ") {
		t.Errorf("metrics: %d %.200s", status, answer)
	}
	if status, _ := p.ask("GET", p.metrics+"/api/agents", ""); status != 404 {
		t.Errorf("the API on the address of the metrics: %d", status)
	}
	for path, want := range map[string]int{"/metrics": 404, "/healthz": 200, "/readyz": 200, "/api/agents": 401} {
		if status, answer := p.ask("GET", p.url+path, "", "Authorization", ""); status != want {
			t.Errorf("%s without a key: %d %s", path, status, answer)
		}
	}
	if p = startServe(t, nil, false); p.metrics != "" {
		t.Errorf("metrics listen on %s unasked", p.metrics)
	}
}

// The SLA evaluator of the process writes violations in its interval.
func TestServeEvaluatesSLATargets(t *testing.T) {
	p := startServe(t, nil, false, "--evaluate-interval", "1s")
	var agent struct{ Data struct{ ID string } }
	_, answer := p.ask("POST", p.url+"/api/agents", `{"name":"slow"}`)
	if err := json.Unmarshal([]byte(answer), &agent); err != nil {
		t.Fatal(err)
	}
	p.ask("POST", p.url+"/api/costs/sla", `{"name":"fast","agentId":"`+agent.Data.ID+`","p99LatencyMs":100,"evaluationPeriod":"1h"}`)
	p.ask("POST", p.url+"/api/traces", `{"agentName":"slow","status":"success","durationMs":500}`)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(300 * time.Millisecond) {
		_, answer := p.ask("GET", p.url+"/api/costs/sla/violations", "")
		if strings.Contains(answer, `"total":1`) && strings.Contains(answer, `"violationType":"latency"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("violations: %s", answer)
		}
	}
}

// max-auto-agents bounds the agents that traces register; beyond it a trace is
// stored with the name only.
func TestServeMaxAutoAgents(t *testing.T) {
	for bound, want := range map[string]string{"0": `"total":0`, "1": `"total":1`} {
		p := startServe(t, map[string]string{"SVC_MAX_AUTO_AGENTS": bound}, false)
		for _, name := range []string{"first", "second"} {
			if status, answer := p.ask("POST", p.url+"/api/traces", `{"agentName":"`+name+`","status":"success"}`); status != 201 {
				t.Fatalf("%d %s", status, answer)
			}
		}
		if _, answer := p.ask("GET", p.url+"/api/agents", ""); !strings.Contains(answer, want) {
			t.Errorf("bound %s: agents %s", bound, answer)
		}
		if _, answer := p.ask("GET", p.url+"/api/traces", ""); !strings.Contains(answer, `"agentName":"second"`) {
			t.Errorf("bound %s: traces %s", bound, answer)
		}
	}
}
