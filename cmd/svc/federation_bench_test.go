//go:build linux

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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listing is a server with sessions that lists tools, and responds to every call.
func listing(b *testing.B, name string, tools int) string {
	var list []string
	for i := range tools {
		list = append(list, fmt.Sprintf(`{"name":"tool_%d","description":"Looks up record %d of %s in the register, and returns its fields.","inputSchema":{"type":"object","properties":{"id":{"type":"string","description":"The record"},"limit":{"type":"integer","minimum":1}},"required":["id"]}}`, i, i, name))
	}
	all := strings.Join(list, ",")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		answer := func(result string) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result) }
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", name+strconv.FormatInt(time.Now().UnixNano(), 36))
			answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
		case m.Method == "tools/list":
			answer(`{"tools":[` + all + `]}`)
		case m.Method == "tools/call":
			answer(`{"content":[{"type":"text","text":"done"}]}`)
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
		}
	}))
	b.Cleanup(s.Close)
	return s.URL
}

// federatedGateway starts a gateway in front of servers with tools.
func federatedGateway(b *testing.B, servers, tools, keys int, rules string) (gw *process, secrets []string) {
	dir := b.TempDir()
	writeLicense(b, dir)
	upstreams, hashes := "", ""
	for i := range servers {
		name := fmt.Sprintf("u%02d", i)
		upstreams += fmt.Sprintf("  - {name: %s, url: %q, prefix: %s_}\n", name, listing(b, name, tools), name)
	}
	for i := range keys {
		id := fmt.Sprintf("agent%d", i)
		secret, hash := newKey(b, id)
		secrets = append(secrets, secret)
		hashes += fmt.Sprintf("    - {id: %s, hash: %q}\n", id, hash)
	}
	gw = &process{t: b, bin: program(b), addr: freeAddr(b), ready: "/readyz", args: []string{"gateway", "--config", filepath.Join(dir, "svc.yaml")}}
	text := fmt.Sprintf(`listen: %[1]s
license: {path: %[2]s/license.jwt, public_key_file: %[2]s/license.pub}
federation: {enabled: true}
upstreams:
%[3]sauth:
  enabled: true
  keys:
%[4]spolicy: {default_action: allow, rules: [%[5]s]}
audit: {path: %[2]s/audit.jsonl}
state_dir: %[2]s/state
`, gw.addr, dir, upstreams, hashes, rules)
	if err := os.WriteFile(filepath.Join(dir, "svc.yaml"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	gw.start()
	b.Cleanup(gw.kill)
	return gw, secrets
}

// cpu is the processor time that a process has used, and resident its resident memory.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func resident(b *testing.B, pid int) (bytes int) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return pages * os.Getpagesize()
}

// page requests one page of the tools, and returns its body and its cursor.
func page(b *testing.B, gw *process, key, cursor string) (body, next string) {
	b.Helper()
	params := "{}"
	if cursor != "" {
		params = fmt.Sprintf(`{"cursor":%q}`, cursor)
	}
	status, body := gw.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`, "Authorization", "Bearer "+key)
	if status != http.StatusOK {
		b.Fatalf("%d %.300s", status, body)
	}
	if _, rest, ok := strings.Cut(body, `"nextCursor":"`); ok {
		next, _, _ = strings.Cut(rest, `"`)
	}
	return body, next
}

// whole reads all pages, and returns their number.
func whole(b *testing.B, gw *process, key string) (pages int) {
	b.Helper()
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		_, cursor = page(b, gw, key, cursor)
	}
	return pages
}

// BenchmarkMergedList reads the first page (1,000 tools) of the tools of 20 servers with 250
// each. The baseline is nginx, which serves the same bytes from a file. The processor time
// is that of the two server processes, without the client.
func BenchmarkMergedList(b *testing.B) {
	gw, keys := federatedGateway(b, 20, 250, 1, "")
	if pages := whole(b, gw, keys[0]); pages != 5 {
		b.Fatalf("%d pages", pages)
	}
	body, _ := page(b, gw, keys[0], "")
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "list.json"), []byte(body), 0o644); err != nil {
		b.Fatal(err)
	}
	nginx := &process{t: b, bin: "/usr/sbin/nginx", addr: freeAddr(b), ready: "/list.json"}
	conf := fmt.Sprintf("daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;\nevents {}\nhttp { access_log off; keepalive_requests 100000; server { listen %[2]s; root %[1]s; } }\n", dir, nginx.addr)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	nginx.args = []string{"-p", dir, "-c", filepath.Join(dir, "nginx.conf")}
	nginx.start()
	b.Cleanup(nginx.kill)
	var gatewayWall, nginxWall time.Duration
	for range 100 {
		page(b, gw, keys[0], "")
	}
	gatewayBefore, nginxBefore := cpu(b, gw.cmd.Process.Pid), cpu(b, nginx.cmd.Process.Pid)
	n := 0
	for b.Loop() { // alternating rounds of 50 requests each
		for range 50 {
			n++
			began := time.Now()
			page(b, gw, keys[0], "")
			gatewayWall += time.Since(began)
		}
		for range 50 {
			began := time.Now()
			if _, got := nginx.get("/list.json"); len(got) != len(body) {
				b.Fatalf("%d bytes", len(got))
			}
			nginxWall += time.Since(began)
		}
	}
	atGateway, atNginx := cpu(b, gw.cmd.Process.Pid)-gatewayBefore, cpu(b, nginx.cmd.Process.Pid)-nginxBefore
	b.ReportMetric(float64(len(body)), "bytes")
	b.ReportMetric(float64(gatewayWall)/float64(nginxWall), "×nginx")
	b.ReportMetric(float64(gatewayWall.Microseconds())/float64(n), "µs/page")
	b.ReportMetric(float64(atGateway.Microseconds())/float64(n), "cpu-µs/page")
	b.ReportMetric(float64(atNginx.Microseconds())/float64(n), "nginx-cpu-µs/page")
}

// BenchmarkMergedListOfANewCaller measures the processor time of all pages for callers whose
// credentials are verified and who have not read the list before, with a rule that redacts
// responses.
func BenchmarkMergedListOfANewCaller(b *testing.B) {
	const callers = 24
	gw, keys := federatedGateway(b, 20, 250, callers+1, "{id: hide, action: redact, when: {direction: server_to_client}, redact: [{regex: 'secret-[0-9]+', replacement: XXX}]}")
	for _, key := range keys {
		gw.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", "Bearer "+key)
	}
	whole(b, gw, keys[callers]) // the gateway has read the servers' lists
	for b.Loop() {
		before := cpu(b, gw.cmd.Process.Pid)
		for _, key := range keys[:callers] {
			whole(b, gw, key)
		}
		b.ReportMetric(float64((cpu(b, gw.cmd.Process.Pid)-before).Milliseconds())/callers, "cpu-ms/caller")
	}
}

// BenchmarkFederatedSessions measures the memory of 1,000 sessions that have called a tool
// at each of ten servers.
func BenchmarkFederatedSessions(b *testing.B) {
	const sessions, servers = 1000, 10
	gw, keys := federatedGateway(b, servers, 5, 1, "")
	whole(b, gw, keys[0])
	for b.Loop() {
		before := resident(b, gw.cmd.Process.Pid)
		for range sessions {
			r, _ := http.NewRequest(http.MethodPost, "http://"+gw.addr+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
			r.Header.Set("Authorization", "Bearer "+keys[0])
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			session := resp.Header.Get("Mcp-Session-Id")
			for i := range servers {
				status, body := gw.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"u%02d_tool_1","arguments":{"id":"7"}}}`, i),
					"Authorization", "Bearer "+keys[0], "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")
				if status != http.StatusOK || !strings.Contains(body, "done") {
					b.Fatalf("%d %s", status, body)
				}
			}
		}
		after := resident(b, gw.cmd.Process.Pid)
		b.ReportMetric(float64(after-before)/(1<<20), "MiB")
		b.ReportMetric(float64(after)/(1<<20), "resident-MiB")
	}
}

// BenchmarkFederatedStart measures the time from the start of a gateway in front of 20 servers
// with 250 tools each until it is ready, and until a client has their whole list. The builds in
// SVC_BENCH_BINARIES, separated by spaces, take turns; each has state and servers of its own.
func BenchmarkFederatedStart(b *testing.B) {
	binaries := strings.Fields(os.Getenv("SVC_BENCH_BINARIES"))
	if len(binaries) == 0 {
		binaries = []string{program(b)}
	}
	var gateways []*process
	var keys [][]string
	for _, bin := range binaries {
		gw, secrets := federatedGateway(b, 20, 250, 1, "")
		gw.kill()
		gw.bin = bin
		gateways, keys = append(gateways, gw), append(keys, secrets)
	}
	ready, listed := make([][]float64, len(binaries)), make([][]float64, len(binaries))
	for b.Loop() {
		for i, gw := range gateways {
			began := time.Now()
			gw.launch()
			for !gw.up() {
				if time.Since(began) > 20*time.Second {
					b.Fatalf("not ready:\n%s", gw.out.String())
				}
				<-time.After(time.Millisecond)
			}
			ready[i] = append(ready[i], time.Since(began).Seconds()*1e3)
			if pages := whole(b, gw, keys[i][0]); pages != 5 {
				b.Fatalf("%d pages", pages)
			}
			listed[i] = append(listed[i], time.Since(began).Seconds()*1e3)
			gw.kill()
		}
	}
	for i, bin := range binaries {
		slices.Sort(ready[i])
		slices.Sort(listed[i])
		b.ReportMetric(ready[i][len(ready[i])/2], filepath.Base(bin)+"-ready-ms")
		b.ReportMetric(listed[i][len(listed[i])/2], filepath.Base(bin)+"-listed-ms")
	}
}
