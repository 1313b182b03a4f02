//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Where traces are.
const (
	inPostgres   = "postgres"
	inClickHouse = "clickhouse"
)

const (
	shards         = 2
	clickhousePort = "9000"
	askPort        = "8123" // its HTTP interface, for the operator
)

// noticeIn is how long control planes may wait for a shard before they report it as
// unavailable, and promptIn how long any other answer may take meanwhile.
const (
	noticeIn = 10 * time.Second
	promptIn = 3 * time.Second
)

const clickhouseConfig = `<yandex>
<logger><level>warning</level><console>1</console></logger>
<listen_host>ADDRESS</listen_host><tcp_port>` + clickhousePort + `</tcp_port><http_port>` + askPort + `</http_port>
<path>DIR/data/</path><tmp_path>DIR/tmp/</tmp_path><user_files_path>DIR/files/</user_files_path><format_schema_path>DIR/schemas/</format_schema_path>
<users_config>DIR/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>134217728</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size><max_concurrent_queries>500</max_concurrent_queries>
<merge_tree><old_parts_lifetime>30</old_parts_lifetime></merge_tree>
</yandex>`

const clickhouseUsers = `<yandex><profiles><default/></profiles>
<users><default><password></password><networks><ip>10.77.0.0/24</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default/></quotas></yandex>`

// addShards makes the servers of ClickHouse: each is a shard.
func (c *cluster) addShards() error {
	program, err := exec.LookPath("clickhouse-server")
	if err != nil {
		if program = "/usr/sbin/clickhouse-server"; !exists(program) {
			return errors.New("ClickHouse is missing: install the package clickhouse-server, or keep traces in PostgreSQL with -traces postgres")
		}
	}
	for i := range shards {
		p, err := c.add(fmt.Sprintf("shard%d", i+1), "clickhouse", 61+i)
		if err != nil {
			return err
		}
		for _, name := range []string{"data", "tmp", "files", "schemas"} {
			if err := os.Mkdir(filepath.Join(p.dir, name), 0o700); err != nil {
				return err
			}
		}
		values := strings.NewReplacer("ADDRESS", p.host.address, "DIR", p.dir)
		for name, text := range map[string]string{"config.xml": clickhouseConfig, "users.xml": clickhouseUsers} {
			if err := os.WriteFile(filepath.Join(p.dir, name), []byte(values.Replace(text)), 0o600); err != nil {
				return err
			}
		}
		p.args = []string{program, "--config-file=" + filepath.Join(p.dir, "config.xml")}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makeTraceStore makes the database on every shard.
func (c *cluster) makeTraceStore() error {
	for _, p := range c.role("clickhouse") {
		if err := until(30*time.Second, func() error { _, err := c.askShard(p, "CREATE DATABASE IF NOT EXISTS svc"); return err }); err != nil {
			return err
		}
	}
	return nil
}

// traceStoreURL names all shards; empty where traces are in PostgreSQL.
func (c *cluster) traceStoreURL() string {
	list := []string{}
	for _, p := range c.role("clickhouse") {
		list = append(list, net.JoinHostPort(p.host.address, clickhousePort))
	}
	if len(list) == 0 {
		return ""
	}
	return "clickhouse://default@" + strings.Join(list, ",") + "/svc"
}

// askShard runs a statement at a shard.
func (c *cluster) askShard(p *process, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	transport := &http.Transport{DialContext: c.operator.dial, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+net.JoinHostPort(p.host.address, askPort)+"/", bytes.NewReader([]byte(sql)))
	if err != nil {
		return "", err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %.300s", p.name, res.StatusCode, text)
	}
	return strings.TrimSpace(string(text)), err
}

// shardsWhole reports why a shard does not serve.
func (c *cluster) shardsWhole() error {
	for _, p := range c.role("clickhouse") {
		if _, err := c.askShard(p, "SELECT count() FROM svc.traces"); err != nil {
			return err
		}
	}
	return nil
}

// homeOf returns the shard that has the traces of a tenant; nil where they are in
// PostgreSQL.
func (c *cluster) homeOf(tenant string) (home *process, err error) {
	for _, p := range c.role("clickhouse") {
		n, err := c.askShard(p, "SELECT count() FROM svc.homes WHERE tenant = '"+tenant+"'")
		if err != nil {
			return nil, err
		}
		if n == "0" {
			continue
		}
		if home != nil {
			return nil, fmt.Errorf("tenant %s is at home on two shards", tenant)
		}
		home = p
	}
	if home == nil && len(c.role("clickhouse")) > 0 {
		return nil, fmt.Errorf("tenant %s is at home on no shard", tenant)
	}
	return home, nil
}

// question is one question about the traces of a tenant at a control plane.
type question struct {
	span
	answer
}

// watchShards asks for traces of every tenant at every control plane while shards are
// away, and compares the answers with what is documented: tenants of these shards get 503
// with Retry-After within noticeIn and then at once, those of other shards are served,
// and the control planes stay ready. end is called before the shards come back; it returns
// a function that waits for the last answers and returns what was wrong.
func (r *run) watchShards(away []*process) (end func() (wrong func() []string)) {
	begin := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var wrong []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) < 20 {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	var ended time.Time // the end of the fault
	for _, t := range r.tenants {
		affected := false
		for _, p := range away {
			affected = affected || t.home == p
		}
		for i := range t.admin.urls {
			wg.Go(func() {
				list := r.askAbout(ctx, t, i)
				mu.Lock()
				end := ended
				mu.Unlock()
				for _, text := range judge(list, affected, begin, end) {
					note("tenant %s at %s: %s", t.name, t.admin.urls[i], text)
				}
			})
		}
	}
	for i := range r.admin.urls {
		wg.Go(func() {
			every(ctx, 500*time.Millisecond, func(int) {
				if a := r.admin.once(ctx, i, "GET", "/readyz", nil, nil); ctx.Err() == nil && (a.err != nil || a.status != 200) {
					note("%s is not ready: %d %v", a.url, a.status, a.err)
				}
			})
		})
	}
	return func() func() []string {
		mu.Lock()
		ended = time.Now()
		mu.Unlock()
		cancel()
		return func() []string {
			wg.Wait()
			return wrong
		}
	}
}

// askAbout asks for traces until ctx ends. A question that was asked before is answered
// after that.
func (r *run) askAbout(ctx context.Context, t *tenant, plane int) (list []question) {
	c := newREST(r.c, t.adminKey)
	c.limit = 30 * time.Second
	defer c.close()
	every(ctx, 500*time.Millisecond, func(int) {
		sent := time.Now()
		a := c.once(context.Background(), plane, "GET", "/api/traces?limit=1", c.header(), nil)
		list = append(list, question{span{sent, time.Now()}, a})
	})
	return list
}

// judge returns what is wrong about the answers to questions about the traces of a tenant
// whose shard was away, or was not, from begin to end.
func judge(list []question, away bool, begin, end time.Time) (wrong []string) {
	note := func(q question, what string) {
		wrong = append(wrong, fmt.Sprintf("%.1f s after the begin: %s: %d %v after %.1f s", q.sent.Sub(begin).Seconds(), what, q.status, q.err, q.done.Sub(q.sent).Seconds()))
	}
	noticed := false
	for _, q := range list {
		took := q.done.Sub(q.sent)
		switch err := specified(q.answer); {
		case err != nil:
			note(q, err.Error())
		case q.err != nil:
			note(q, "no answer")
		case q.status == 429: // the limit of the tenant
		case !away && q.status != 200:
			note(q, "its shard is there")
		case !away && took > promptIn:
			note(q, "its shard is there, and the answer was late")
		case away && q.status == 503 && noticed && took > promptIn:
			note(q, "the shard is known to be away, and the answer was late")
		case away && q.status == 503:
			if !noticed && q.done.Sub(begin) > noticeIn {
				note(q, "noticed late")
			}
			noticed = true
		case away && q.status == 200 && q.done.Before(end) && q.sent.After(begin):
			note(q, "its shard is away")
		}
	}
	if away && !noticed {
		wrong = append(wrong, fmt.Sprintf("that its shard is away was not noticed in %.1f s", end.Sub(begin).Seconds()))
	}
	return wrong
}
