//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// cluster is everything that runs, and the two hosts of the clients and of the operator.
type cluster struct {
	dir, svc string
	traces   string // where they are: inPostgres or inClickHouse
	network  *network
	list     []*process
	caller   *host // clients
	operator *host // the failover manager, and the checks of this program
	db       *database

	adminKey, limitedKey          string
	gatewayKey, limitedGatewayKey string
	tenants                       []*tenant // tenants whose traces clients send; the first is the one of the gateways

	mu    sync.Mutex
	notes []string
}

// The number of instances of each role.
const (
	planes   = 2
	gateways = 2
	tools    = 3
	redises  = 6 // three masters, each with a replica
)

// Limits that are small enough to be reached, and large enough for the other requests.
const (
	restLimit     = 600 // requests per minute of a tenant
	bucketRate    = 5   // calls per second of the limited caller
	bucketBurst   = 10
	restWindow    = time.Minute
	planePort     = "8080"
	gatewayPort   = "8090"
	toolPort      = "9000"
	metricsPort   = "9090"
	callerThreads = 6
)

func newCluster(dir, svc, traces string) (c *cluster, err error) {
	c = &cluster{dir: dir, svc: svc, traces: traces}
	if c.network, err = newNetwork(); err != nil {
		return c, err
	}
	if c.caller, err = c.network.add("caller", 101); err != nil {
		return c, err
	}
	if c.operator, err = c.network.add("operator", 102); err != nil {
		return c, err
	}
	if c.db, err = newDatabase(c); err != nil {
		return c, err
	}
	for i := range redises {
		p, err := c.add(fmt.Sprintf("redis%d", i+1), "redis", 21+i)
		if err != nil {
			return c, err
		}
		p.args = redisArgs(p.host, p.dir)
	}
	for i := range tools {
		p, err := c.add(fmt.Sprintf("tool%d", i+1), "tool", 31+i)
		if err != nil {
			return c, err
		}
		self, err := os.Executable()
		if err != nil {
			return c, err
		}
		p.args = append([]string{self, "-serve-tool", p.name, "-listen", p.host.address + ":" + toolPort}, toolNames(p.name)...)
	}
	if traces == inClickHouse {
		err = c.addShards()
	}
	return c, err
}

// toolNames lists the tools of a tool server: one for each caller, so that the traces of
// each can be counted, and one whose calls are limited.
func toolNames(server string) (list []string) {
	for i := range callerThreads {
		list = append(list, fmt.Sprintf("%s_call%d", server, i))
	}
	return append(list, server+"_limited", server+"_probe", server+"_sdk")
}

// add creates a host and a process on it, without starting it.
func (c *cluster) add(name, role string, number int) (*process, error) {
	h, err := c.network.add(name, number)
	if err != nil {
		return nil, err
	}
	p := &process{name: name, role: role, host: h, dir: filepath.Join(c.dir, name)}
	c.list = append(c.list, p)
	return p, os.Mkdir(p.dir, 0o755)
}

// role returns the processes of a role.
func (c *cluster) role(role string) (list []*process) {
	for _, p := range c.list {
		if p.role == role {
			list = append(list, p)
		}
	}
	return list
}

// hosts returns the hosts of a role; callers are a role too.
func (c *cluster) hosts(role string) (list []*host) {
	if role == "caller" {
		return []*host{c.caller}
	}
	for _, p := range c.role(role) {
		list = append(list, p.host)
	}
	return list
}

// start starts everything and waits until it serves.
func (c *cluster) start(ctx context.Context) error {
	if err := c.db.make(); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	for _, p := range slices.Concat(c.role("redis"), c.role("tool"), c.role("clickhouse")) {
		if err := p.start(); err != nil {
			return err
		}
	}
	if err := errors.Join(until(20*time.Second, c.makeRedisCluster), until(20*time.Second, c.redisWhole), c.makeTraceStore()); err != nil {
		return err
	}
	go c.db.watch(ctx)
	if err := c.startPlanes(); err != nil {
		return err
	}
	return c.startGateways()
}

// storeURL names both hosts of the database: the client library finds the one that
// accepts writes.
func (c *cluster) storeURL() string {
	return fmt.Sprintf("postgres://svc@%s:%s,%s:%s/svc?sslmode=disable", c.db.nodes[0].host.address, postgresPort, c.db.nodes[1].host.address, postgresPort)
}

func (c *cluster) redisHosts() string {
	list := []string{}
	for _, p := range c.role("redis") {
		list = append(list, p.host.address+":"+redisPort)
	}
	return strings.Join(list, ",")
}

// startPlanes starts the control planes, and creates the tenants.
func (c *cluster) startPlanes() error {
	c.adminKey = "svc_api_" + rand.Text() + rand.Text()
	for i := range planes {
		p, err := c.add(fmt.Sprintf("plane%d", i+1), "plane", 41+i)
		if err != nil {
			return err
		}
		p.args = []string{c.svc, "serve", "--listen", p.host.address + ":" + planePort, "--data-dir", p.dir, "--store", c.storeURL(),
			"--redis-url", "redis://" + c.redisHosts(), "--metrics-listen", p.host.address + ":" + metricsPort,
			"--rate-limit", fmt.Sprint(restLimit), "--ingest-rate-limit", "100000", "--evaluate-interval", "5s", "--log-format", "json"}
		p.env = []string{"SVC_BOOTSTRAP_API_KEY=" + c.adminKey, "SVC_TRACE_STORE=" + c.traceStoreURL()}
		if err := p.start(); err != nil {
			return err
		}
	}
	if err := until(30*time.Second, c.planesReady); err != nil {
		return err
	}
	if err := c.makeTenants(); err != nil {
		return err
	}
	var err error
	c.limitedKey, err = c.makeTenant("limited")
	return err
}

// maxTenants bounds the tenants that are created until one belongs to another shard than
// the first.
const maxTenants = 30

// makeTenants makes two tenants whose traces are on different shards.
func (c *cluster) makeTenants() error {
	first, err := c.newTenant("default", c.adminKey)
	if err != nil {
		return err
	}
	for i := range maxTenants {
		name := fmt.Sprintf("other%d", i+1)
		key, err := c.makeTenant(name)
		if err != nil {
			return err
		}
		t, err := c.newTenant(name, key)
		if err != nil {
			return err
		}
		if c.traces == inPostgres || t.home != first.home {
			t.name = "other"
			c.tenants = []*tenant{first, t}
			return nil
		}
	}
	return fmt.Errorf("%d tenants are all at home on %s", maxTenants, first.home.name)
}

// makeTenant creates a tenant with the command line and returns its key.
func (c *cluster) makeTenant(name string) (string, error) {
	cmd := exec.Command(c.svc, "tenant", "create", name, "--store", c.storeURL(), "-o", "json")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = &out, &errs, c.dir, []string{"HOME=" + c.dir}
	if err := c.operator.inside(cmd.Start); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("svc tenant create: %w: %s", err, errs.String())
	}
	return member(out.String(), "apiKey")
}

// startGateways starts the gateways: with one license and one session key, and an audit
// file each.
func (c *cluster) startGateways() error {
	run := func(args ...string) (string, error) {
		cmd := exec.Command(c.svc, args...)
		cmd.Dir, cmd.Env = c.dir, []string{"HOME=" + c.dir}
		out, err := cmd.Output()
		return string(out), err
	}
	_, err := run("license", "init", "--dir", "license")
	if err != nil {
		return err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	sessionKey := filepath.Join(c.dir, "session.key")
	if err := os.WriteFile(sessionKey, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		return err
	}
	hashes := map[string]string{}
	for _, id := range []string{"caller", "limited"} {
		out, err := run("keygen", "--id", id, "-o", "json")
		if err != nil {
			return err
		}
		key, kerr := member(out, "key")
		hash, herr := member(out, "hash")
		if err := errors.Join(kerr, herr); err != nil {
			return err
		}
		if hashes[id] = hash; id == "caller" {
			c.gatewayKey = key
		} else {
			c.limitedGatewayKey = key
		}
	}
	for i := range gateways {
		p, err := c.add(fmt.Sprintf("gateway%d", i+1), "gateway", 51+i)
		if err != nil {
			return err
		}
		file := filepath.Join(p.dir, "svc.yaml")
		if err := os.WriteFile(file, []byte(c.gatewayFile(p, sessionKey, hashes)), 0o600); err != nil {
			return err
		}
		p.args = []string{c.svc, "gateway", "--config", file, "--log-format", "json"}
		if err := p.start(); err != nil {
			return err
		}
	}
	return until(30*time.Second, c.gatewaysReady)
}

func (c *cluster) gatewayFile(p *process, sessionKey string, hashes map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `listen: %s:%s
license: {path: %[3]s/license/license.jwt, public_key_file: %[3]s/license/license.pub}
audit: {path: %[4]s/audit.jsonl}
state_dir: %[4]s
sessions: {key_file: %[5]s}
telemetry: {metrics: {listen: "%[1]s:%[6]s"}}
rate_limit_store: {type: redis, cluster: true, url: "redis://%[7]s", operation_timeout: 250ms}
auth:
  enabled: true
  keys:
    - {id: caller, hash: "%[8]s"}
    - {id: limited, hash: "%[9]s"}
default_upstream: tool1
`, p.host.address, gatewayPort, c.dir, p.dir, sessionKey, metricsPort, c.redisHosts(), hashes["caller"], hashes["limited"])
	b.WriteString("upstreams:\n")
	for _, t := range c.role("tool") {
		fmt.Fprintf(&b, "  - {name: %s, url: \"http://%s:%s/mcp\", timeout: 4s}\n", t.name, t.host.address, toolPort)
	}
	b.WriteString("routes:\n")
	for _, t := range c.role("tool") {
		fmt.Fprintf(&b, "  - {match: {tool_glob: \"%s_*\"}, upstream: %[1]s}\n", t.name)
	}
	fmt.Fprintf(&b, `policy:
  default_action: allow
  rules:
    - id: limit
      action: rate_limit
      when: {tool_glob: "*_limited"}
      tokens_per_second: %d
      burst: %d
control_plane:
  url: [%s]
  ingest_key: %s
  gateway: %s
  traces: {timeout: 5s}
  governance: {enabled: true, refresh_interval: 10s}
shutdown: {grace: 5s}
`, bucketRate, bucketBurst, strings.Join(c.planeURLs(), ", "), c.tenants[0].ingestKey, p.name)
	return b.String()
}

func (c *cluster) planeURLs() (list []string) {
	for _, p := range c.role("plane") {
		list = append(list, "http://"+p.host.address+":"+planePort)
	}
	return list
}

func (c *cluster) gatewayURLs() (list []string) {
	for _, p := range c.role("gateway") {
		list = append(list, "http://"+p.host.address+":"+gatewayPort)
	}
	return list
}

// close ends everything.
func (c *cluster) close() {
	for _, p := range c.list {
		p.kill()
	}
	if c.network != nil {
		c.network.close()
	}
}

// note records an error that makes the run fail.
func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if len(c.notes) < 200 {
		c.notes = append(c.notes, text)
	}
	fmt.Fprintln(os.Stderr, "  !", text)
}
