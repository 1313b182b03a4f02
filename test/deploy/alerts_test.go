package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// The jobs that the rules name.
const (
	gatewayJob = "svc-gateway"
	planeJob   = "svc-control-plane"
)

// rule is an alert of deploy/prometheus.
type rule struct{ Alert, Expr, For string }

func rules(t *testing.T) map[string]rule {
	t.Helper()
	all := map[string]rule{}
	for _, name := range []string{"gateway", "control-plane"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", name+".rules.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Groups []struct{ Rules []rule } }
		if err := yaml.Unmarshal(raw, &file); err != nil {
			t.Fatal(err)
		}
		for _, r := range file.Groups[0].Rules {
			if _, twice := all[r.Alert]; twice {
				t.Errorf("%s stands twice", r.Alert)
			}
			all[r.Alert] = r
		}
		inChart, err := os.ReadFile(filepath.Join(chart, "files", name+".rules.yaml"))
		if err != nil || string(inChart) != string(raw) {
			t.Errorf("the chart has other rules than deploy/prometheus/%s.rules.yaml: copy the file (%v)", name, err)
		}
	}
	return all
}

// process is a running svc.
type process struct {
	t       *testing.T
	dir     string
	listen  string
	metrics string
	cmd     *exec.Cmd
	args    []string
	limit   string // of file descriptors
}

func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// start starts the process and returns its first metrics.
func (p *process) start() string {
	p.t.Helper()
	path, err := program()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(path, p.args...)
	if p.limit != "" {
		p.cmd = exec.Command("sh", append([]string{"-c", "ulimit -n " + p.limit + `; exec "$0" "$@"`, path}, p.args...)...)
	}
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "SVC_BOOTSTRAP_API_KEY=" + bootstrap}, log, log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return p.until("it serves metrics", func(text string) bool { return text != "" })
}

const bootstrap = "svc_api_000000000000000000000000000000000000000000000000"

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// scrape returns the metrics, empty if the process does not respond.
func (p *process) scrape() string {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(data)
}

// until scrapes until the metrics are as expected.
func (p *process) until(what string, ok func(text string) bool) string {
	p.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 2*time.Minute; <-tick.C {
		if text := p.scrape(); ok(text) {
			return text
		}
	}
	log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	p.t.Fatalf("not within two minutes: %s\n%s", what, log)
	return ""
}

// gateway returns a gateway that is not started; more is added to its configuration.
func gateway(t *testing.T, days int, more string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), listen: free(t), metrics: free(t)}
	if out, err := svc(t, p.dir, nil, "license", "init", "--dir", "license", "--days", strconv.Itoa(days), "--grace-days", "0"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config := fmt.Sprintf("listen: %s\nlicense: {path: %[2]s/license/license.jwt, public_key_file: %[2]s/license/license.pub}\nauth: {enabled: false}\n"+
		"policy: {default_action: allow}\naudit: {path: %[2]s/audit/audit.jsonl}\nstate_dir: %[2]s/state\ntelemetry: {metrics: {listen: '%s'}}\n%s", p.listen, p.dir, p.metrics, more)
	if err := os.WriteFile(filepath.Join(p.dir, "svc.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"audit", "state"} {
		if err := os.Mkdir(filepath.Join(p.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.args = []string{"gateway", "--config", "svc.yaml"}
	t.Cleanup(func() {
		if p.cmd != nil && p.cmd.ProcessState == nil {
			p.stop()
		}
	})
	return p
}

const anUpstream = "upstreams: [{name: tools, url: 'http://127.0.0.1:9/mcp'}]\n"

// value returns the value of a metric without further labels than those of the name.
func value(text, name string) float64 {
	for _, l := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(l, name+" "); ok {
			v, _ := strconv.ParseFloat(rest, 64)
			return v
		}
	}
	return -1
}

const hour = time.Hour

// TestAlerts provokes each fault of the table in docs/operations.md at the program, and evaluates
// the rules of deploy/prometheus on the metrics from before and after.
func TestAlerts(t *testing.T) {
	all := rules(t)
	healthy := gateway(t, 365, anUpstream)
	well := healthy.start()
	tested := map[string]bool{}
	// check expects that the alerts fire after the fault, and did not before.
	check := func(t *testing.T, before, after *history, alerts ...string) {
		t.Helper()
		for _, name := range alerts {
			r, ok := all[name]
			if !ok {
				t.Fatalf("no rule %s", name)
			}
			tested[name] = true
			if before != nil && before.fires(t, r) {
				t.Errorf("%s fires without the fault", name)
			}
			if !after.fires(t, r) {
				t.Errorf("%s does not fire", name)
			}
		}
	}
	calm := new(history)
	calm.scrape(t, gatewayJob, well, hour)
	for name, r := range all {
		if strings.HasPrefix(name, "Gateway") && calm.fires(t, r) {
			t.Errorf("%s fires for a gateway without a fault", name)
		}
	}

	t.Run("a process is gone", func(t *testing.T) {
		p := gateway(t, 365, anUpstream)
		after := new(history)
		after.scrape(t, gatewayJob, p.start(), hour)
		p.stop()
		after.scrape(t, gatewayJob, p.scrape(), 5*time.Minute)
		check(t, calm, after, "GatewayDown")
		check(t, nil, new(history).lasting(hour), "GatewayDown", "ControlPlaneDown") // nothing is scraped
	})
	t.Run("a process restarts in a loop", func(t *testing.T) {
		p := gateway(t, 365, anUpstream)
		after := new(history)
		for range 4 {
			after.scrape(t, gatewayJob, p.start(), 2*time.Minute)
			p.stop()
		}
		check(t, calm, after, "GatewayRestarts")
		check(t, nil, after.as(planeJob), "ControlPlaneRestarts")
	})
	t.Run("file descriptors run out", func(t *testing.T) {
		p := gateway(t, 365, anUpstream)
		p.limit = "60"
		after := new(history)
		after.scrape(t, gatewayJob, p.start(), hour)
		var open []net.Conn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		text := p.until("more than 80 % of the descriptors are open", func(text string) bool {
			if text != "" && value(text, "process_open_fds") > 0.8*value(text, "process_max_fds") {
				return true
			}
			c, err := net.Dial("tcp", p.listen)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			return false
		})
		after.scrape(t, gatewayJob, text, 5*time.Minute)
		check(t, calm, after, "GatewayDescriptorsRunOut")
		check(t, nil, after.as(planeJob), "ControlPlaneDescriptorsRunOut")
	})
	t.Run("a license ends", func(t *testing.T) {
		for days, alerts := range map[int][]string{20: {"GatewayLicenseEnds"}, 3: {"GatewayLicenseEndsSoon"}} {
			p := gateway(t, days, anUpstream)
			after := new(history)
			after.scrape(t, gatewayJob, p.start(), hour)
			p.stop()
			check(t, calm, after, alerts...)
			if days == 20 && after.fires(t, all["GatewayLicenseEndsSoon"]) {
				t.Error("GatewayLicenseEndsSoon fires 20 days before the end")
			}
		}
	})
	t.Run("a program keeps ending", func(t *testing.T) {
		p := gateway(t, 365, "default_upstream: tools\nupstreams: [{name: tools, command: [sh, -c, exit 3]}]\n")
		after := new(history)
		after.scrape(t, gatewayJob, p.start(), hour)
		text := p.until("six processes have ended", func(text string) bool {
			if value(text, `svc_gateway_upstream_process_exits_total{upstream="tools"}`) >= 6 {
				return true
			}
			req, _ := http.NewRequest(http.MethodPost, "http://"+p.listen+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
			return false
		})
		after.scrape(t, gatewayJob, text, 5*time.Minute)
		check(t, calm, after, "GatewayProgramKeepsEnding")
	})
	t.Run("a bundle is rejected", func(t *testing.T) {
		plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"revision": "r1", "policies": []any{map[string]any{"id": "pol_1", "name": "n", "type": "of a later version"}}}})
		}))
		defer plane.Close()
		p := gateway(t, 365, anUpstream+"control_plane: {url: '"+plane.URL+"', ingest_key: svc_ingest_000000000000000000000000000000000000000000000000, governance: {enabled: true}}\n")
		after := new(history)
		started := p.start()
		after.scrape(t, gatewayJob, strings.ReplaceAll(started, "svc_gateway_governance_rejected_total 1", "svc_gateway_governance_rejected_total 0"), hour)
		after.scrape(t, gatewayJob, p.until("a bundle was rejected", func(text string) bool { return value(text, "svc_gateway_governance_rejected_total") > 0 }), 5*time.Minute)
		check(t, calm, after, "GatewayPoliciesRejected")
	})
	t.Run("labels cannot be stored", func(t *testing.T) {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var asked struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&asked)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"secret"}]}}`, asked.ID)
		}))
		defer up.Close()
		p := gateway(t, 365, "default_upstream: tools\nupstreams: [{name: tools, url: '"+up.URL+"'}]\nroutes: [{match: {tool_name: '*'}, upstream: tools}]\ndata_flow: {labels: [{name: private, tool_name: read}]}\n")
		after := new(history)
		after.scrape(t, gatewayJob, p.start(), hour)
		state := filepath.Join(p.dir, "state")
		if err := os.Rename(state, state+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(state, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequest(http.MethodPost, "http://"+p.listen+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(said), "labels_unavailable") || strings.Contains(string(said), "secret") {
			t.Errorf("the answer: %d %s", resp.StatusCode, said)
		}
		after.scrape(t, gatewayJob, p.until("a label is counted", func(text string) bool { return value(text, "svc_gateway_labels_unstored_total") > 0 }), 5*time.Minute)
		check(t, calm, after, "GatewayLabelsNotStored")
	})
	t.Run("state_dir and the audit file cannot be written", func(t *testing.T) {
		p := gateway(t, 365, anUpstream)
		after := new(history)
		after.scrape(t, gatewayJob, p.start(), hour)
		for _, folder := range []string{"state", "audit"} { // root may write everywhere, but not in a file
			path := filepath.Join(p.dir, folder)
			if err := os.Rename(path, path+".away"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text := p.until("neither can be written", func(text string) bool {
			return value(text, "svc_gateway_state_writable") == 0 && value(text, "svc_gateway_audit_writable") == 0
		})
		after.scrape(t, gatewayJob, text, 5*time.Minute)
		check(t, calm, after, "GatewayStateNotWritable", "GatewayAuditNotWritable")
	})
	t.Run("retention removes a lot", func(t *testing.T) {
		p := &process{t: t, dir: t.TempDir(), listen: free(t), metrics: free(t)}
		p.args = []string{"serve", "--listen", p.listen, "--metrics-listen", p.metrics, "--data-dir", p.dir}
		t.Cleanup(func() { p.stop() })
		after := new(history)
		p.start()
		for batch := range 11 {
			var traces []map[string]any
			for i := range 1000 {
				traces = append(traces, map[string]any{"id": fmt.Sprintf("018f3c5e-7b1a-7c3d-9e2f-%012d", batch*1000+i), "agentName": "a", "status": "success",
					"createdAt": time.Now().Add(-2 * hour).UTC().Format(time.RFC3339)})
			}
			body, _ := json.Marshal(map[string]any{"traces": traces})
			req, _ := http.NewRequest(http.MethodPost, "http://"+p.listen+"/api/traces", strings.NewReader(string(body)))
			req.Header.Set("Authorization", "Bearer "+bootstrap)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode/100 != 2 {
				t.Fatalf("%d %s", resp.StatusCode, said)
			}
		}
		after.scrape(t, planeJob, p.scrape(), hour)
		for name, r := range all {
			if strings.HasPrefix(name, "ControlPlane") && after.fires(t, r) {
				t.Errorf("%s fires for a control plane without a fault", name)
			}
		}
		p.stop()
		p.args = append(p.args, "--trace-retention", "1h")
		p.start()
		after.scrape(t, planeJob, p.until("11,000 traces are removed", func(text string) bool { return value(text, "svc_retention_removed_traces_total") == 11000 }), 5*time.Minute)
		check(t, nil, after, "ControlPlaneRetentionRemovesMuch")
	})
	// Faults that no test can provoke on every machine: the values that TestShardMetric of server,
	// its tests of a full disk, and the tests of retention's clock, of approvals, of labels and of webhooks see.
	t.Run("values of other tests", func(t *testing.T) {
		for alert, text := range map[string]string{
			"ControlPlaneTraceShardAway":   `svc_trace_store_shard_up{shard="two:9000"} 0`,
			"ControlPlaneStoreNotWritable": "svc_store_writable 0",
			"ControlPlaneDiskAlmostFull":   "svc_store_disk_free_bytes 1e+08",
			"ControlPlaneClockJump":        "svc_store_clock_jump_seconds 8.64e+06",
			"GatewayDiskAlmostFull":        `svc_gateway_disk_free_bytes{directory="audit"} 1e+08`,
			"ControlPlaneApprovalsWait":    "svc_approvals_open 2\n" + `svc_approval_decisions_total{decision="grant"} 3`,
			"ControlPlaneMessagesWait":     "svc_webhook_queue 1001",
		} {
			after := new(history)
			after.scrape(t, planeJob, text, hour)
			check(t, calm, after, alert)
		}
		for alert, counter := range map[string]string{
			"ControlPlaneMessagesFail":    `svc_webhook_deliveries_total{result="failed"}`,
			"GatewayApprovalsUnavailable": `svc_gateway_approvals_total{result="unavailable"}`,
			"GatewayApprovalsLimited":     `svc_gateway_approvals_total{result="limit"}`,
			"GatewayLabelsFull":           "svc_gateway_labels_full_total",
		} {
			before, after := new(history), new(history)
			before.scrape(t, planeJob, counter+" 1", hour)
			after.scrape(t, planeJob, counter+" 1", hour)
			after.scrape(t, planeJob, counter+" 2", 6*time.Minute)
			check(t, before, after, alert)
		}
	})

	// The table has no alert that does not exist or was not tested.
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(docs), "### Alerts")
	table, _, _ = strings.Cut(table, "\n#")
	names := regexp.MustCompile("`((?:Gateway|ControlPlane)[A-Za-z]+)`").FindAllStringSubmatch(table, -1)
	if len(names) < 15 {
		t.Errorf("the table has %d alerts", len(names))
	}
	for _, m := range names {
		if !tested[m[1]] {
			t.Errorf("the fault of %s is not provoked", m[1])
		}
	}
}
