//go:build unix

package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"svc/gateway/redis/redistest"
)

// callerClock is the clock of the suite: the script gets the time from the
// caller. The rest of the script is the production one.
const callerClock = "\nlocal now = tonumber(ARGV[3])\n"

// patient is a long operation timeout, for tests that must not time out on a
// busy machine.
const patient = 5 * time.Second

// redisConfig returns the section with default values.
func redisConfig(url string, change ...func(*StoreConfig)) StoreConfig {
	var c StoreConfig
	c.SetDefaults()
	c.Type, c.URL, c.OperationTimeout = TypeRedis, url, patient
	for _, f := range change {
		f(&c)
	}
	return c
}

func prefixed(p string) func(*StoreConfig) { return func(c *StoreConfig) { c.KeyPrefix = p } }
func within(d time.Duration) func(*StoreConfig) {
	return func(c *StoreConfig) { c.OperationTimeout = d }
}
func clustered(c *StoreConfig) { c.Cluster = true }

func openRedis(t testing.TB, c StoreConfig) *Redis {
	t.Helper()
	r, err := NewRedis(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// followCaller makes a store use the caller's time.
func followCaller(r *Redis) *Redis {
	r.script = redis.NewScript(callerClock + decision)
	r.clock = func(now time.Time) string { return strconv.FormatInt(now.UnixMicro(), 10) }
	return r
}

// suiteOn returns a function that creates empty stores on one server, each with
// a prefix of its own.
func suiteOn(url string, change ...func(*StoreConfig)) func(*testing.T) Store {
	var n atomic.Int32
	return func(t *testing.T) Store {
		prefix := prefixed(fmt.Sprintf("suite-%d:", n.Add(1)))
		return followCaller(openRedis(t, redisConfig(url, append(change, prefix)...)))
	}
}

func TestRedis(t *testing.T) { testStore(t, suiteOn(redistest.Start(t).URL())) }

func TestRedisCluster(t *testing.T) {
	testStore(t, suiteOn(redistest.StartCluster(t, 3, false).URL(), clustered))
}

func rule(name string) Key { return Key{Limit: Rule, Rule: "r", Kind: "key", Principal: name} }

// allow calls Allow and expects a decision.
func allow(t testing.TB, s Store, k Key, rate float64, burst int) bool {
	t.Helper()
	ok, _, err := s.Allow(context.Background(), k, rate, burst, time.Now())
	if err != nil {
		t.Fatalf("no decision: %v", err)
	}
	return ok
}

// TestRedisAnswersLikeBucket: the script and Bucket return the same for every
// call of any history, including the wait to the nanosecond.
func TestRedisAnswersLikeBucket(t *testing.T) {
	s := followCaller(openRedis(t, redisConfig(redistest.Start(t).URL())))
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		key := rule(fmt.Sprint(n))
		now := start
		var b bucket
		for i := range rapid.IntRange(1, 30).Draw(t, "calls") {
			rate := rapid.OneOf(rapid.Float64Range(0.001, 100), rapid.SampledFrom([]float64{1, 0.5, 1.0 / 3, 1e-9, 1e9, 1e300})).Draw(t, "rate")
			burst := rapid.IntRange(1, 50).Draw(t, "burst")
			now = now.Add(time.Duration(rapid.Int64Range(-1e5, 3e6).Draw(t, "wait")) * time.Microsecond)
			ns := now.UnixNano()
			if i == 0 {
				b = newBucket(burst, ns)
			}
			wantOK, wantRetry := b.Take(rate, burst, ns)
			ok, retry, err := s.Allow(context.Background(), key, rate, burst, now)
			if ok != wantOK || retry != wantRetry || err != nil {
				t.Fatalf("call %d: %v, %s, %v, want %v, %s", i, ok, retry, err, wantOK, wantRetry)
			}
		}
	})
}

// TestRedisSharesALimitExactly: of 2N calls through two stores at once, N are
// allowed.
func TestRedisSharesALimitExactly(t *testing.T) {
	urls := map[string]StoreConfig{
		"one server":           redisConfig(redistest.Start(t).URL()),
		"three-master cluster": redisConfig(redistest.StartCluster(t, 3, false).URL(), clustered),
	}
	for name, cfg := range urls {
		t.Run(name, func(t *testing.T) {
			const n = 1000 // half of the calls
			var allowed atomic.Int32
			var wg sync.WaitGroup
			for range 2 {
				s := openRedis(t, cfg)
				for range 4 {
					wg.Go(func() {
						for range 2 * n / 8 {
							ok, _, err := s.Allow(context.Background(), rule("shared"), 1e-6, n, time.Now())
							if err != nil {
								t.Error(err)
							}
							if ok {
								allowed.Add(1)
							}
						}
					})
				}
			}
			wg.Wait()
			if got := allowed.Load(); got != n {
				t.Fatalf("%d of %d calls were allowed, want %d", got, 2*n, n)
			}
			third := openRedis(t, cfg)
			for range n {
				if allow(t, third, rule("shared"), 1e-6, n) {
					t.Fatal("more than the burst was allowed")
				}
			}
		})
	}
}

// TestRedisUsesTheClockOfTheServer: callers whose clocks differ by years share a
// bucket, and a call after the reported wait is allowed.
func TestRedisUsesTheClockOfTheServer(t *testing.T) {
	s := openRedis(t, redisConfig(redistest.Start(t).URL()))
	ctx := context.Background()
	if ok, _, err := s.Allow(ctx, rule("a"), 5, 1, start); !ok || err != nil {
		t.Fatalf("at first: %v, %v", ok, err)
	}
	ok, retry, err := s.Allow(ctx, rule("a"), 5, 1, start.Add(100*365*24*time.Hour))
	if ok || err != nil || retry <= 0 || retry > 200*time.Millisecond {
		t.Fatalf("a century later by the caller's clock: %v, %s, %v", ok, retry, err)
	}
	time.Sleep(retry + time.Microsecond)
	if ok, _, err := s.Allow(ctx, rule("a"), 5, 1, start); !ok || err != nil {
		t.Errorf("after the wait: %v, %v", ok, err)
	}
}

// TestRedisKeys: one key for each bucket, of prefix and digest, for every
// principal; the key does not contain the principal; it expires.
func TestRedisKeys(t *testing.T) {
	server := redistest.Start(t)
	for _, prefix := range []string{"mcpgw:rl:", "", "a{b}c:", "new\nline "} {
		s := openRedis(t, redisConfig(server.URL(), prefixed(prefix)))
		for _, principal := range []string{"alice", "{}", "}{x}{", "a\r\nDEL *\r\n", "\x00", strings.Repeat("p", 10<<10)} {
			if _, err := server.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			if !allow(t, s, rule(principal), 0.5, 2) {
				t.Fatalf("%.20q is refused", principal)
			}
			answer, err := server.Do("KEYS", "*")
			keys, _ := answer.([]any)
			if err != nil || len(keys) != 1 {
				t.Fatalf("%.20q: keys %q, %v", principal, answer, err)
			}
			name := fmt.Sprint(keys[0])
			if !regexp.MustCompile("^" + regexp.QuoteMeta(prefix) + `\{[A-Za-z0-9_-]{22}\}$`).MatchString(name) {
				t.Errorf("%.20q under prefix %q: key %q", principal, prefix, name)
			}
			ttl, err := server.Do("PTTL", name)
			if ms, _ := ttl.(int64); err != nil || ms < 10_000 || ms > 12_000 { // two seconds until the bucket is full, and ten
				t.Errorf("%.20q: expires in %v ms, %v", principal, ttl, err)
			}
		}
	}
}

// TestRedisSlowerRateKeepsTheBucket: a bucket whose rate is lowered does not
// expire at the time at which the old rate would have filled it.
func TestRedisSlowerRateKeepsTheBucket(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, redisConfig(server.URL()))
	allow(t, s, rule("a"), 1000, 1)
	time.Sleep(2 * time.Millisecond)
	allow(t, s, rule("a"), 1000, 1)
	if allow(t, s, rule("a"), 0.0001, 1) {
		t.Fatal("allowed")
	}
	ttl, err := server.Do("PTTL", bucketKey(s.prefix, rule("a")))
	if ms, _ := ttl.(int64); err != nil || ms < 9_000_000 {
		t.Errorf("expires in %v ms, %v, want some ten thousand seconds", ttl, err)
	}
}

// TestRedisOddLimits: limits outside of valid configurations do no harm.
func TestRedisOddLimits(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, redisConfig(server.URL()))
	inf := math.Inf(1)
	for i, tt := range []struct {
		rate  float64
		burst int
		want  [2]bool
	}{{0, 1, [2]bool{true, false}}, {-1, 1, [2]bool{true, false}}, {math.NaN(), 1, [2]bool{true, false}},
		{inf, 1, [2]bool{true, true}}, {5e-324, 1, [2]bool{true, false}}, {1, 0, [2]bool{}}, {1, -1, [2]bool{}}, {1, 1<<63 - 1, [2]bool{true, true}}} {
		for call, want := range tt.want {
			ok, retry, err := s.Allow(context.Background(), rule(fmt.Sprint(i)), tt.rate, tt.burst, start)
			if ok != want || err != nil || ok == (retry > 0) || retry > maxRetryAfter {
				t.Errorf("rate %g, burst %d, call %d: %v, %s, %v", tt.rate, tt.burst, call, ok, retry, err)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestRedisScriptFlush: a server that lost the script gets it again.
func TestRedisScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, redisConfig(server.URL()))
	for range 3 {
		allow(t, s, rule("a"), 1, 1)
		if _, err := server.Do("SCRIPT", "FLUSH"); err != nil {
			t.Fatal(err)
		}
	}
	if st := s.Stats(); st.Failed != 0 || st.Allowed+st.Refused != 3 {
		t.Errorf("stats %+v", st)
	}
}

// TestRedisKeyThatIsNoBucket: callers of that key get no decision, the key is
// unchanged, other keys work.
func TestRedisKeyThatIsNoBucket(t *testing.T) {
	server := redistest.Start(t)
	var log bytes.Buffer
	s, err := NewRedis(redisConfig(server.URL()), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name := bucketKey(s.prefix, rule("a"))
	for _, set := range [][]any{{"LPUSH", name, "x"}, {"HSET", name, "t", 1}, {"SET", name, "hello"}, {"SET", name, ""},
		{"SET", name, "nan 5"}, {"SET", name, "5"}, {"SET", name, "1 2 3"}, {"SET", name, "- 5"}, {"SET", name, "5 -1"}} {
		if _, err := server.Do("DEL", name); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Do(set...); err != nil {
			t.Fatal(err)
		}
		before, _ := server.Do("DUMP", name)
		ok, _, err := s.Allow(context.Background(), rule("a"), 1, 1, start)
		if ok || err == nil || errors.Is(err, errShortCircuit) || !strings.Contains(err.Error(), "BUCKET") {
			t.Errorf("%q: %v, %v", set, ok, err)
		}
		if after, _ := server.Do("DUMP", name); after != before {
			t.Errorf("%q: the key was changed", set)
		}
		allow(t, s, rule("b"), 1, 1)
	}
	if n := strings.Count(log.String(), "is not a bucket"); n < 1 || n > 3 {
		t.Errorf("logged %d times: %s", n, &log)
	}
}

func BenchmarkRedis(b *testing.B) {
	s := openRedis(b, redisConfig(redistest.Start(b).URL()))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			allow(b, s, rule(strconv.Itoa(i%4096)), 100, 10)
		}
	})
}
