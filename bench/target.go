//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"svc/gateway/auth"
)

// The cores: the measured program has one, the rig the other.
const (
	targetCore = "0"
	rigCore    = "1"
	bothCores  = "0,1"
)

// target is a proxy in front of the upstream.
type target struct {
	name string
	addr string
	proc *process
	rest int64 // resident memory before the first request, in bytes

	plane *plane // the control plane for the traces of a gateway; nil if the upstream accepts them
	asked int    // number of measured requests
}

// rig is the processes and files of a run.
type rig struct {
	dir      string
	self     string // this program
	upstream *process
	spinner  *process
	backend  string // address of the upstream
	svc      string // the measured binary
	base     string // the binary for comparison
	keys     []string
	hashes   []string
}

// startUpstream starts the upstream and reads its address.
func (r *rig) startUpstream(ctx context.Context) (err error) {
	r.upstream, r.backend, err = startAndRead(ctx, rigCore, "upstream", r.self, "upstream")
	return err
}

// startAndRead starts a program that prints its address on its first line.
func startAndRead(ctx context.Context, cores string, name string, argv ...string) (*process, string, error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer pr.Close()
	p, err := start(ctx, cores, pw, name, argv...)
	pw.Close()
	if err != nil {
		return nil, "", err
	}
	if err := pr.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		p.stop()
		return nil, "", err
	}
	buf := make([]byte, 100)
	n, err := pr.Read(buf)
	if err != nil || !bytes.HasSuffix(buf[:n], []byte("\n")) {
		p.stop()
		return nil, "", fmt.Errorf("%s did not print its address: %v: %s", name, err, tail(p.out.String()))
	}
	return p, strings.TrimSpace(string(buf[:n])), nil
}

func (r *rig) startTarget(ctx context.Context, name string, o *options) (*target, error) {
	switch configuration(name) {
	case "nginx":
		return r.startNginx(ctx)
	case "front", "own":
		argv := []string{r.self, "front", "-upstream", "http://" + r.backend + "/mcp"}
		if o.profile != "" {
			argv = append(argv, "-cpuprofile", filepath.Join(o.profile, name+".pprof"))
		}
		if name == "own" {
			argv = append(argv, "-own")
		}
		p, addr, err := startAndRead(ctx, targetCore, name, argv...)
		return &target{name: name, addr: addr, proc: p}, err
	case "reporting":
		return r.startReporting(ctx, name, targetCore, rigCore)
	case "governed":
		return r.startGoverned(ctx, name)
	case "shared":
		return r.startReporting(ctx, name, bothCores, bothCores)
	default:
		return r.startGateway(ctx, name, targetCore, "http://"+r.backend, "svc_ingest_"+strings.Repeat("b", 43))
	}
}

// nginxConfig is nginx optimized for this load: connections to the upstream are
// kept, buffers hold a whole response, nothing is logged. Event streams are not
// buffered.
const nginxConfig = `daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx-error.log warn;
events { worker_connections 10000; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000000;
	tcp_nodelay on;
	client_body_buffer_size 64k;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_buffer_size 64k;
	proxy_buffers 4 64k;
	proxy_busy_buffers_size 128k;
	upstream backend { server %[2]s; keepalive 256; keepalive_requests 1000000000; }
	server {
		listen %[3]s;
		location / { proxy_pass http://backend; }
	}
	server {
		listen %[4]s;
		proxy_buffering off;
		location / { proxy_pass http://backend; }
	}
}
`

// nginxPath finds nginx, also if PATH lacks the system's daemons.
func nginxPath() (string, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nginx")
	}
	return path, err
}

// startNginx starts nginx with two listeners: the second is for event streams.
func (r *rig) startNginx(ctx context.Context) (*target, error) {
	path, err := nginxPath()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	stream, err := freeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, r.dir, r.backend, addr, stream), 0o600); err != nil {
		return nil, err
	}
	p, err := start(ctx, targetCore, nil, "nginx", path, "-p", r.dir, "-e", filepath.Join(r.dir, "nginx-error.log"), "-c", file)
	if err != nil {
		return nil, err
	}
	t := &target{name: "nginx", addr: addr + " " + stream, proc: p}
	return t, t.awaitListening(addr)
}

// addressFor returns the address for a shape.
func (t *target) addressFor(s shape) string {
	addr, stream, two := strings.Cut(t.addr, " ")
	if two && s.name == "sse" {
		return stream
	}
	return addr
}

// binary returns the svc binary of a target.
func (r *rig) binary(target string) string {
	if isBase(target) {
		return r.base
	}
	return r.svc
}

// buildSvc builds the measured binary, unless one was given, and creates its
// license.
func (r *rig) buildSvc(ctx context.Context, o *options) error {
	r.svc, r.base = o.svc, o.base
	if r.svc == "" {
		r.svc = filepath.Join(r.dir, "svc")
		if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", r.svc, "svc/cmd/svc").CombinedOutput(); err != nil {
			return fmt.Errorf("build svc: %w: %s", err, tail(string(out)))
		}
	}
	for _, argv := range [][]string{
		{"license", "keygen", "--out", r.dir},
		{"license", "issue", "--key", filepath.Join(r.dir, "license.key"), "--subject", "bench", "--days", "1", "--grace-days", "1", "--out", filepath.Join(r.dir, "license.jwt")},
	} {
		if out, err := exec.CommandContext(ctx, r.svc, argv...).CombinedOutput(); err != nil {
			return fmt.Errorf("svc %s: %w: %s", strings.Join(argv[:2], " "), err, tail(string(out)))
		}
	}
	return nil
}

// startGateway writes an ordinary configuration and starts svc. Its files are in
// a directory with the target's name.
func (r *rig) startGateway(ctx context.Context, name, cores, controlPlane, ingestKey string) (*target, error) {
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(file, []byte(r.gatewayConfig(addr, dir, controlPlane, ingestKey, name)), 0o600); err != nil {
		return nil, err
	}
	p, err := start(ctx, cores, nil, name, r.binary(name), "gateway", "--config", file)
	if err != nil {
		return nil, err
	}
	t := &target{name: name, addr: addr, proc: p}
	return t, t.awaitListening(addr)
}

// makeKeys makes the API keys and their hashes.
func (r *rig) makeKeys(n int) error {
	for i := range n {
		key, err := auth.NewKey(fmt.Sprintf("k%d", i))
		if err != nil {
			return err
		}
		hash, err := auth.Hash(key, auth.DefaultParams())
		if err != nil {
			return err
		}
		r.keys, r.hashes = append(r.keys, key), append(r.hashes, hash)
	}
	return nil
}

// gatewayConfig has API keys, fifty mixed rules of which the last allows, audit
// with its chain, and the trace reporter.
func (r *rig) gatewayConfig(addr, dir, controlPlane, ingestKey, target string) string {
	var b strings.Builder
	url := fmt.Sprintf(`url: "http://%s/mcp"`, r.backend)
	upstreams := url
	routes := `default_upstream: tools
routes:
  - {match: {tool_prefix: small_}, upstream: tools}
  - {match: {tool_prefix: large_}, upstream: tools}
  - {match: {tool_glob: "sse_*"}, upstream: tools}
  - {match: {tool_prefix: hold_}, upstream: tools}
  - {match: {tool_prefix: ask_}, upstream: tools}`
	switch configuration(target) {
	case "modern":
		upstreams += `, protocol: "2026-07-28"`
	case "translated":
		upstreams += `, protocol: "2025-11-25"`
	case "federated":
		upstreams = fmt.Sprintf("prefix: %s, %s}\n  - {name: more, prefix: more_, %[2]s", toolPrefix(target), url)
		routes = "federation: {enabled: true}"
	case "stdio":
		upstreams = fmt.Sprintf(`command: [taskset, -c, %q, %q, stdio], sharing: all`, rigCore, r.self)
	}
	fmt.Fprintf(&b, `listen: %s
license: {path: %s/license.jwt, public_key_file: %[2]s/license.pub}
upstreams:
  - {name: tools, %[3]s}
%[8]s
audit: {path: %[4]s/audit.jsonl, chain: true}
state_dir: %[4]s/state
control_plane:
  url: %[5]s
  ingest_key: %[6]s
  governance: {enabled: %[7]t, refresh_interval: 5s}
auth:
  enabled: true
  keys:
`, addr, r.dir, upstreams, dir, controlPlane, ingestKey, isGoverned(target), routes)
	for i, hash := range r.hashes {
		fmt.Fprintf(&b, "    - {id: k%d, hash: %q}\n", i, hash)
	}
	b.WriteString("policy:\n  default_action: deny\n  rules:\n")
	rule := func(id, action, when, more string) {
		fmt.Fprintf(&b, "    - {id: %s, action: %s, when: {%s}%s}\n", id, action, when, more)
	}
	for i := range 10 {
		rule(fmt.Sprintf("exact-%d", i), "deny", fmt.Sprintf("tool_name: forbidden_%d", i), "")
		rule(fmt.Sprintf("prefix-%d", i), "deny", fmt.Sprintf("tool_prefix: admin%d_", i), "")
		rule(fmt.Sprintf("in-%d", i), "deny", fmt.Sprintf("tool_name_in: [drop_%d, erase_%d, wipe_%[1]d]", i, i), "")
	}
	for i := range 7 {
		rule(fmt.Sprintf("glob-%d", i), "deny", fmt.Sprintf(`tool_glob: "*_secret%d_*"`, i), "")
		rule(fmt.Sprintf("regex-%d", i), "deny", fmt.Sprintf(`tool_regex: "(root|sudo)_%d[0-9]+"`, i), "")
	}
	for i := range 3 {
		rule(fmt.Sprintf("frames-%d", i), "deny", fmt.Sprintf("method: notifications/unwanted_%d, direction: server_to_client", i), "")
	}
	rule("mask-keys", "redact", "tool_prefix: export_", `, redact: [{regex: "AKIA[0-9A-Z]{16}", replacement: "[KEY]"}]`)
	rule("slow-lane", "rate_limit", "tool_prefix: slow_", ", tokens_per_second: 5, burst: 10")
	if configuration(target) == "labels" { // each call is judged by its caller's labels, and sets one
		rule("both-read", "deny", `tool_name: "*", labels_all: [untrusted, private]`, "")
	}
	rule("rest", "allow", `tool_name: "*"`, "")
	if configuration(target) == "labels" {
		b.WriteString("data_flow:\n  labels:\n    - {name: untrusted, tool_glob: \"*_call\"}\n    - {name: untrusted, tool_prefix: small_}\n    - {name: private, tool_prefix: files_}\n")
	}
	return b.String()
}

// awaitListening waits until the target accepts connections.
func (t *target) awaitListening(addr string) error {
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err := t.proc.failed(); err != nil {
			return err
		}
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return nil
		}
		if time.Now().After(end) {
			t.proc.stop()
			return fmt.Errorf("%s does not listen: %w: %s", t.name, err, tail(t.proc.out.String()))
		}
	}
}

// freeAddress returns a free loopback address.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
