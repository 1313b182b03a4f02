package redis

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"svc/gateway/base/diag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	testStore(t, func(*testing.T) Store { return NewMemory(shardCount*100, start) })
}

func TestBucketOfOddLimits(t *testing.T) {
	const hour = int64(time.Hour)
	tests := []struct {
		name  string
		rate  float64
		burst int
		now   []int64
		want  []bool
	}{
		{"rate of zero never refills", 0, 1, []int64{0, hour}, []bool{true, false}},
		{"negative rate never refills", -5, 1, []int64{0, hour}, []bool{true, false}},
		{"rate that is no number never refills", math.NaN(), 1, []int64{0, hour}, []bool{true, false}},
		{"infinite rate refills at once", math.Inf(1), 1, []int64{0, 1}, []bool{true, true}},
		{"largest rate", math.MaxFloat64, 1, []int64{0, 1, 2}, []bool{true, true, true}},
		{"smallest rate", math.SmallestNonzeroFloat64, 1, []int64{0, math.MaxInt64}, []bool{true, false}},
		{"burst of zero", 1, 0, []int64{0, hour}, []bool{false, false}},
		{"negative burst", 1, -1, []int64{0, hour}, []bool{false, false}},
		{"largest burst", 1, math.MaxInt, []int64{0, hour}, []bool{true, true}},
		{"from the beginning of time to its end", 1, 1, []int64{math.MinInt64, math.MaxInt64}, []bool{true, true}},
		{"from the end of time to its beginning", 1, 1, []int64{math.MaxInt64, math.MinInt64}, []bool{true, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBucket(tt.burst, tt.now[0])
			for i, now := range tt.now {
				ok, retry := b.Take(tt.rate, tt.burst, now)
				if ok != tt.want[i] {
					t.Errorf("at %d: %v, want %v", now, ok, tt.want[i])
				}
				if retry < 0 || retry > maxRetryAfter || !ok && retry == 0 {
					t.Errorf("at %d: retry after %s", now, retry)
				}
			}
		})
	}
}

// TestBucketNeverExceedsItsRate: for any sequence of waits, no more calls are
// allowed than burst and rate permit, and a call after the reported wait is
// allowed.
func TestBucketNeverExceedsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.001, 1e6).Draw(t, "rate")
		burst := rapid.IntRange(1, 1000).Draw(t, "burst")
		b := newBucket(burst, 0)
		now, allowed := int64(0), 0
		for range rapid.IntRange(1, 300).Draw(t, "calls") {
			ok, retry := b.Take(rate, burst, now)
			if ok {
				allowed++
			} else if rapid.Bool().Draw(t, "patient") {
				now += int64(retry)
				if ok, _ := b.Take(rate, burst, now); !ok {
					t.Fatalf("refused after the wait of %s", retry)
				}
				allowed++
			}
			now += rapid.Int64Range(0, int64(time.Second)).Draw(t, "wait")
		}
		if most := float64(burst) + rate*float64(now)/1e9; float64(allowed) > most+1e-3 {
			t.Fatalf("%d allowed, at most %f", allowed, most)
		}
	})
}

// TestMemoryIsBounded: a million principals use no more buckets than the limit,
// each of them small.
func TestMemoryIsBounded(t *testing.T) {
	const bound = 1 << 16
	m := NewMemory(bound, start)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1_000_000 {
		k := Key{Limit: Rule, Rule: "r", Kind: "oauth", Issuer: "https://issuer.example", Principal: fmt.Sprintf("user-%d", i)}
		if ok, _, _ := m.Allow(context.Background(), k, 0.001, 1, start); !ok {
			t.Fatalf("principal %d is refused", i)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := m.Len(); n > bound {
		t.Errorf("%d buckets, want at most %d", n, bound)
	}
	if per := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / bound; per > 256 {
		t.Errorf("%d bytes for each bucket", per)
	}
	runtime.KeepAlive(m)
}

// TestMemoryForgetsFullBuckets: full buckets are removed as other principals
// arrive.
func TestMemoryForgetsFullBuckets(t *testing.T) {
	m := NewMemory(0, start)
	ask := func(i int, after time.Duration) {
		_, _, _ = m.Allow(context.Background(), Key{Limit: Input, Kind: "ip", Principal: fmt.Sprint(i)}, 10, 1, start.Add(after))
	}
	for i := range 10_000 {
		ask(i, 0)
	}
	for i := range 10_000 {
		ask(10_000+i, time.Second)
	}
	if n := m.Len(); n > 11_000 {
		t.Errorf("%d buckets, want about 10000", n)
	}
}

// TestMemoryKeepsEmptyBucketsLonger: a full shard evicts full buckets before the
// bucket of a limited principal.
func TestMemoryKeepsEmptyBucketsLonger(t *testing.T) {
	m := NewMemory(shardCount*100, start)
	limited := Key{Limit: Rule, Rule: "r", Kind: "key", Principal: "limited"}
	if ok, _, _ := m.Allow(context.Background(), limited, 0.0001, 1, start); !ok {
		t.Fatal("refused at first")
	}
	for i := range 100_000 {
		k := Key{Limit: Rule, Rule: "r", Kind: "key", Principal: fmt.Sprint(i)}
		_, _, _ = m.Allow(context.Background(), k, 1e9, 1, start.Add(time.Duration(i)*time.Microsecond))
	}
	if ok, _, _ := m.Allow(context.Background(), limited, 0.0001, 1, start.Add(time.Second)); ok {
		t.Error("the limited one was forgotten for others whose buckets were full")
	}
}

// TestMemoryClock: a time with a monotonic reading is not affected by a step of
// the wall clock.
func TestMemoryClock(t *testing.T) {
	m := NewMemory(0, time.Now())
	k := Key{Limit: Input, Kind: "ip", Principal: "a"}
	if ok, _, _ := m.Allow(context.Background(), k, 0.001, 1, time.Now()); !ok {
		t.Fatal("refused at first")
	}
	if ok, _, _ := m.Allow(context.Background(), k, 0.001, 1, time.Now()); ok {
		t.Error("allowed twice")
	}
}

func TestStoreConfig(t *testing.T) {
	tests := []struct {
		name   string
		change func(*StoreConfig)
		want   string
	}{
		{"defaults", func(*StoreConfig) {}, ""},
		{"redis", func(c *StoreConfig) { c.Type, c.URL = "redis", "redis://:secret@127.0.0.1:6379/1" }, ""},
		{"rediss", func(c *StoreConfig) { c.Type, c.URL = "redis", "rediss://h:6379" }, ""},
		{"unknown type", func(c *StoreConfig) { c.Type = "memcached" }, `type: unknown store type "memcached"`},
		{"redis without url", func(c *StoreConfig) { c.Type = "redis" }, "url: is required for type redis"},
		{"several hosts", func(c *StoreConfig) { c.Type, c.URL = "redis", "redis://a,b:7" }, "url: names several hosts, which requires a cluster"},
		{"cluster", func(c *StoreConfig) { c.Type, c.URL, c.Cluster = "redis", "redis://a,b:7", true }, ""},
		{"cluster of one host", func(c *StoreConfig) { c.Type, c.URL, c.Cluster = "redis", "redis://a", true }, ""},
		{"cluster with a database", func(c *StoreConfig) { c.Type, c.URL, c.Cluster = "redis", "redis://a/1", true }, "url: names database 1: a cluster has only database 0"},
		{"cluster in memory", func(c *StoreConfig) { c.Cluster = true }, "cluster: has no effect"},
		{"parameters", func(c *StoreConfig) { c.Type, c.URL = "redis", "redis://:s3cret@a?db=1" }, "url: must not have parameters"},
		{"ca_file without tls", func(c *StoreConfig) { c.Type, c.URL, c.TLS.CAFile = "redis", "redis://a", "ca.pem" }, "tls.ca_file: has no effect without TLS"},
		{"ca_file with rediss", func(c *StoreConfig) { c.Type, c.URL, c.TLS.CAFile = "redis", "rediss://a", "ca.pem" }, ""},
		{"ca_file with tls.enabled", func(c *StoreConfig) { c.Type, c.URL, c.TLS = "redis", "redis://a", StoreTLS{true, "ca.pem"} }, ""},
		{"braces in key_prefix", func(c *StoreConfig) { c.Type, c.URL, c.KeyPrefix = "redis", "redis://a", "{x}" }, "key_prefix: puts all buckets on one server"},
		{"endless key_prefix", func(c *StoreConfig) { c.Type, c.URL, c.KeyPrefix = "redis", "redis://a", strings.Repeat("x", 257) }, "key_prefix: must not be longer than 256 bytes"},
		{"redis with another scheme", func(c *StoreConfig) { c.Type, c.URL = "redis", "http://h" }, "url: scheme must be redis or rediss"},
		{"redis without host", func(c *StoreConfig) { c.Type, c.URL = "redis", "redis:///1" }, "url: names no host"},
		{"bad url is not shown", func(c *StoreConfig) { c.Type, c.URL = "redis", "redis://:s3cret@h:port" }, "url: is not a valid URL"},
		{"no time for a call", func(c *StoreConfig) { c.OperationTimeout = 0 }, "operation_timeout: must be above zero"},
		{"url in memory", func(c *StoreConfig) { c.URL = "redis://h" }, "url: has no effect"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c StoreConfig
			c.SetDefaults()
			tt.change(&c)
			report := diag.New()
			c.Validate(report.Root())
			found := report.Findings()
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("findings %v", found)
			case tt.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0].Path+": "+found[0].Message, tt.want)):
				t.Errorf("findings %v, want %q", found, tt.want)
			case strings.Contains(fmt.Sprint(found), "s3cret"):
				t.Error("a finding holds the password")
			}
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	m := NewMemory(0, time.Now())
	keys := make([]Key, 4096)
	for i := range keys {
		keys[i] = Key{Limit: Rule, Rule: "search-limit", Kind: "key", Principal: fmt.Sprintf("key-%d", i)}
	}
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			_, _, _ = m.Allow(context.Background(), keys[i%len(keys)], 100, 10, now)
		}
	})
}
