//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/redis"
	"svc/gateway/redis/redistest"
)

// slowly limits the tool slow by a rule.
func slowly(text string, burst int) string {
	return strings.Replace(text, "    - id: tools\n", fmt.Sprintf("    - id: slowly\n      action: rate_limit\n      tokens_per_second: 0.00001\n      burst: %d\n      when: {tool_name: slow}\n    - id: tools\n", burst), 1)
}

// inRedis keeps the limits in a store.
func inRedis(url string, more string) string {
	return "rate_limit_store: {type: redis, url: \"" + url + "\", " + more + "}\n"
}

// Two gateways share a limit exactly, that of a rule and that of the input: N of 2N requests are
// allowed, on one Redis server and on a cluster.
func TestGatewaysShareALimitExactly(t *testing.T) {
	t.Parallel()
	const n = 40
	up := newUpstream(t, echo)
	for name, store := range map[string]string{
		"one server":           inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"),
		"three-master cluster": inRedis(redistest.StartCluster(t, 3, false).URL(), "operation_timeout: 5s, cluster: true"),
	} {
		for limit, text := range map[string]string{
			"rate_limit":       slowly(basic(up.URL), n) + store,
			"input_rate_limit": basic(up.URL) + fmt.Sprintf("input_rate_limit: {enabled: true, requests_per_second: 0.00001, burst: %d}\n", n) + store,
		} {
			t.Run(name+"/"+limit, func(t *testing.T) {
				var allowed, refused atomic.Int32
				var wg sync.WaitGroup
				for range 2 {
					r := newRig(t, text)
					for range 4 {
						wg.Go(func() {
							for range 2 * n / 8 {
								switch got := r.post(call("1", "slow")); got.status {
								case http.StatusOK:
									allowed.Add(1)
								case http.StatusTooManyRequests:
									refused.Add(1)
								default:
									t.Errorf("got %d %s", got.status, got.body)
								}
							}
						})
					}
				}
				wg.Wait()
				if allowed.Load() != n || refused.Load() != n {
					t.Errorf("%d allowed and %d refused of %d, want half", allowed.Load(), refused.Load(), 2*n)
				}
			})
		}
	}
}

// When the store fails, fail_open decides for rules and for the input limit.
func TestRateLimitStoreFailure(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	for _, limit := range []string{"rate_limit", "input_rate_limit"} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/fail_open %v", limit, open), func(t *testing.T) {
				server := redistest.Start(t)
				text := slowly(basic(up.URL), 1)
				if limit == "input_rate_limit" {
					text = basic(up.URL) + "input_rate_limit: {enabled: true, requests_per_second: 0.00001, burst: 1}\n"
				}
				r := newRig(t, text+inRedis(server.URL(), fmt.Sprintf("fail_open: %v", open)))
				server.Pause()
				for i := range 3 { // one that times out, two that are short-circuited
					began := time.Now()
					got := r.post(call("1", "slow"))
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("request %d took %s", i, took)
					}
					if open {
						if got.status != http.StatusOK {
							t.Errorf("request %d: %d %s", i, got.status, got.body)
						}
						continue
					}
					if e := got.rpc(t); got.status != 429 || e.Error.Code != -32003 || e.Error.Message != "rate_limited" || got.header.Get("Retry-After") != "1" {
						t.Errorf("request %d: %d %s %v", i, got.status, got.body, got.header)
					}
				}
				for _, line := range r.lines(3) {
					if !open && (line["action"] != "rate_limit_blocked" || line["error_kind"] != "rate_limit_store_unavailable") {
						t.Errorf("audit line %v", line)
					}
					if open && line["action"] != "allow" {
						t.Errorf("audit line %v", line)
					}
				}
				server.Resume()
				for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
					r.post(call("1", "slow"))
					got := r.post(call("1", "slow")) // the bucket is empty by now
					if got.status == 429 && !strings.Contains(got.body, "unavailable") && r.services().Limits.(*redis.Redis).Stats().Refused > 0 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("the store is not used again: %d %s", got.status, got.body)
					}
				}
			})
		}
	}
}

// A reload keeps the store and its buckets; a change of the section takes effect after a restart.
func TestReloadKeepsTheSharedStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	up := newUpstream(t, echo)
	r := newRig(t, slowly(basic(up.URL), 1)+inRedis(server.URL(), "operation_timeout: 5s"))
	if got := r.post(call("1", "slow")); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	store := r.services().Limits.(*redis.Redis)
	r.edit("operation_timeout: 5s", "operation_timeout: 5s, key_prefix: \"other:\"")
	r.edit("tokens_per_second: 0.00001", "tokens_per_second: 0.00002")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.post(call("1", "slow")); got.status != 429 {
		t.Errorf("the bucket was reset: %d %s", got.status, got.body)
	}
	if r.services().Limits.(*redis.Redis) != store {
		t.Error("the store was replaced")
	}
	if got := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/readyz", ""); !strings.Contains(got.body, "rate_limit_store") {
		t.Errorf("readyz %s", got.body)
	}
	keys, err := server.Do("KEYS", "*")
	buckets := strings.ReplaceAll(fmt.Sprint(keys), "mcpgw:rl:{mail:replicas}", "") // the entries by which replicas find each other
	if err != nil || strings.Count(buckets, "mcpgw:rl:{") != 1 || strings.Contains(buckets, "other:") {
		t.Errorf("keys %v, %v", keys, err)
	}
}

// A gateway starts without its store, logs that, and uses the store once it is available.
func TestGatewayStartsWithoutItsStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	up := newUpstream(t, echo)
	r := newRig(t, slowly(basic(up.URL), 100)+inRedis(server.URL(), "operation_timeout: 1s"))
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(r.logs.String(), "rate-limit store does not answer"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no warning: %s", r.logs)
		}
	}
	if got := r.post(call("1", "slow")); got.status != 429 || !strings.Contains(got.body, "rate_limit_store_unavailable") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := r.post(call("1", "safe")); got.status != http.StatusOK {
		t.Errorf("a request that no limit is about: %d %s", got.status, got.body)
	}
	server.Restart()
	for deadline := time.Now().Add(20 * time.Second); r.post(call("1", "slow")).status != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the store is not used")
		}
	}
}

// Options that New cannot use are an error, after which nothing is left open.
func TestStoreThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	r := newRig(t, basic(newUpstream(t, echo).URL))
	r.stop()
	r.edit("policy:", inRedis("rediss://127.0.0.1:1", "tls: {ca_file: /does/not/exist}")+"policy:")
	cfg, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.New(gateway.Options{Config: cfg, Load: r.load}); err == nil || !strings.Contains(err.Error(), "rate_limit_store.tls.ca_file") {
		t.Errorf("New() = %v", err)
	}
}
