//go:build unix

package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway/redis/redistest"
)

// untilAnswered retries until there is a decision, and returns the time that it
// took.
func untilAnswered(t *testing.T, s Store, k Key) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		_, _, err := s.Allow(context.Background(), k, 1, 1, start)
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("no decision within %s: %v", time.Since(began), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// fails expects an error, and returns it and the time that it took.
func fails(t *testing.T, s Store, k Key) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	ok, _, err := s.Allow(context.Background(), k, 1, 1, start)
	took := time.Since(began)
	if ok || err == nil {
		t.Fatalf("%v, %v, want no decision", ok, err)
	}
	return took, err
}

// slack is the maximum delay of the scheduler on a busy machine.
const slack = 100 * time.Millisecond

// TestOperationTimeout: with a stopped server a call takes 50 ms, by default,
// for any number of concurrent calls; then calls fail at once for a second; and
// when the server continues, the store works again.
func TestOperationTimeout(t *testing.T) {
	for name, warm := range map[string]bool{"with connections": true, "without connections": false} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			var c StoreConfig
			c.SetDefaults()
			c.Type, c.URL = TypeRedis, server.URL()
			s := openRedis(t, c)
			if warm {
				untilAnswered(t, s, rule("warm"))
			}
			server.Pause()
			defer server.Resume()
			took, err := fails(t, s, rule("a"))
			if errors.Is(err, errShortCircuit) || took < 45*time.Millisecond || took > 50*time.Millisecond+slack {
				t.Errorf("the first call: %s, %v", took, err)
			}
			tripped := time.Now()
			for range 1000 {
				if _, err := fails(t, s, rule("a")); !errors.Is(err, errShortCircuit) {
					t.Fatalf("in the second after the failure: %v", err)
				}
			}
			if took := time.Since(tripped); took > slack {
				t.Errorf("a thousand short-circuited calls took %s", took)
			}
			time.Sleep(time.Until(tripped.Add(shortCircuit)))
			var wg sync.WaitGroup
			began, before := time.Now(), runtime.NumGoroutine()
			for range 500 {
				wg.Go(func() { fails(t, s, rule("a")) })
			}
			wg.Wait()
			if took := time.Since(began); took > 50*time.Millisecond+2*slack {
				t.Errorf("500 calls at once took %s", took)
			}
			server.Resume()
			if took := untilAnswered(t, s, rule("a")); took > shortCircuit+time.Second {
				t.Errorf("the store was used again after %s", took)
			}
			for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+10; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
				}
			}
		})
	}
}

// TestShortCircuitLastsOneSecond: exactly, on a clock of the test's own.
func TestShortCircuitLastsOneSecond(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	s := openRedis(t, redisConfig(server.URL()))
	var now time.Duration
	s.since = func(time.Time) time.Duration { return now }
	for _, tt := range []struct {
		at    time.Duration
		short bool
	}{{0, false}, {0, true}, {time.Second - 1, true}, {time.Second, false}, {2*time.Second - 1, true}, {2 * time.Second, false}, {time.Hour, false}} {
		now = tt.at
		if _, err := fails(t, s, rule("a")); errors.Is(err, errShortCircuit) != tt.short {
			t.Errorf("at %s: %v", tt.at, err)
		}
	}
	if got := s.Stats(); got != (RedisStats{Failed: 4, ShortCircuited: 3, Failing: true}) {
		t.Errorf("stats %+v", got)
	}
}

// TestRedisKilledAndRestarted: under load. Failure and recovery are logged once
// each, and no goroutines remain.
func TestRedisKilledAndRestarted(t *testing.T) {
	server := redistest.Start(t)
	var log syncBuffer
	cfg := redisConfig(server.URL(), within(250*time.Millisecond))
	s, err := NewRedis(cfg, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	untilAnswered(t, s, rule("a"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _, _ = s.Allow(context.Background(), rule("load"), 1, 1, start)
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	server.Kill()
	time.Sleep(2 * shortCircuit)
	server.Restart()
	untilAnswered(t, s, rule("b"))
	close(stop)
	wg.Wait()
	if n := strings.Count(log.String(), "rate-limit store fails"); n != 1 {
		t.Errorf("the failure was logged %d times: %s", n, log.String())
	}
	if n := strings.Count(log.String(), "answers again"); n != 1 {
		t.Errorf("the recovery was logged %d times: %s", n, log.String())
	}
}

// TestRedisDownAtTheStart: a store is created without a server, and works once
// the server is up.
func TestRedisDownAtTheStart(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	s := openRedis(t, redisConfig(server.URL()))
	if err := s.Ping(context.Background()); err == nil {
		t.Error("a ping without a server")
	}
	fails(t, s, rule("a"))
	server.Restart()
	untilAnswered(t, s, rule("a"))
	if err := s.Ping(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestRedisAuthentication: user and password of the URL, and failures without
// them. No error contains a password.
func TestRedisAuthentication(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "s3cr:@t", "--user", "limits", "on", ">p4ss", "~*", "+@all")
	for _, tt := range []struct{ name, user, want string }{
		{"password", ":s3cr%3A%40t@", ""},
		{"user and password", "limits:p4ss@", ""},
		{"no password", "", "NOAUTH"},
		{"wrong password", ":n0tit@", "WRONGPASS"},
		{"wrong user", "nobody:s3cr@", "WRONGPASS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openRedis(t, redisConfig("redis://"+tt.user+server.Addr))
			if tt.want == "" {
				allow(t, s, rule("a"), 1, 1)
				return
			}
			_, err := fails(t, s, rule("a"))
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %s", err, tt.want)
			}
			for _, secret := range []string{"s3cr", "n0tit", "p4ss"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error %q shows a password", err)
				}
			}
			if _, err := fails(t, s, rule("b")); !errors.Is(err, errShortCircuit) {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestRedisDatabase: buckets are stored in the database of the URL.
func TestRedisDatabase(t *testing.T) {
	server := redistest.Start(t)
	allow(t, openRedis(t, redisConfig(server.URL()+"/3")), rule("a"), 0.001, 1)
	if got, err := server.Do("INFO", "keyspace"); err != nil || !strings.Contains(fmt.Sprint(got), "db3:keys=1,") || strings.Contains(fmt.Sprint(got), "db0") {
		t.Errorf("keyspace %v, %v", got, err)
	}
	if !allow(t, openRedis(t, redisConfig(server.URL())), rule("a"), 0.001, 1) {
		t.Error("database 0 shares the bucket")
	}
	_, err := fails(t, openRedis(t, redisConfig(server.URL()+"/9999")), rule("a"))
	if !strings.Contains(err.Error(), "out of range") {
		t.Errorf("a database that is not there: %v", err)
	}
}

// TestRedisThatCannotWrite: a replica, and a server out of memory, are failures.
func TestRedisThatCannotWrite(t *testing.T) {
	server := redistest.Start(t)
	_, port, _ := strings.Cut(server.Addr, ":")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"replica":       {[]string{"--replicaof", "127.0.0.1", port}, "READONLY"},
		"out of memory": {[]string{"--maxmemory", "1"}, "OOM"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openRedis(t, redisConfig(redistest.Start(t, tt.args...).URL()))
			if _, err := fails(t, s, rule("a")); !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if _, err := fails(t, s, rule("a")); !errors.Is(err, errShortCircuit) {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestCallerThatGoesAwayIsNoFailure: a canceled request does not count as a
// failure of the store, so that clients cannot trip the breaker.
func TestCallerThatGoesAwayIsNoFailure(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, redisConfig(server.URL()))
	untilAnswered(t, s, rule("a"))
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if ok, _, err := s.Allow(ctx, rule("a"), 1, 1, start); ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", ok, err)
	}
	server.Resume()
	allow(t, s, rule("a"), 1, 1)
	if got := s.Stats().Failed; got != 0 {
		t.Errorf("%d failures", got)
	}
}

// TestRedisClosed: calls after Close fail without a panic.
func TestRedisClosed(t *testing.T) {
	server := redistest.Start(t)
	s, err := NewRedis(redisConfig(server.URL()), nil)
	if err != nil {
		t.Fatal(err)
	}
	untilAnswered(t, s, rule("a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fails(t, s, rule("a"))
}

// TestNoRedis: a server that is not Redis is a failure like any other.
func TestNoRedis(t *testing.T) {
	for name, answer := range map[string]string{
		"http": "HTTP/1.1 400 Bad Request\r\n\r\n", "number": ":1\r\n", "null": "$-1\r\n", "long array": "*1000000\r\n", "huge": "$999999999999\r\n", "ok": "+OK\r\n",
		"three numbers": "*3\r\n:1\r\n:2\r\n:3\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := openRedis(t, redisConfig("redis://"+answering(t, answer), within(250*time.Millisecond)))
			if took, _ := fails(t, s, rule("a")); took > 250*time.Millisecond+slack {
				t.Errorf("took %s", took)
			}
		})
	}
}

// syncBuffer is a buffer for concurrent writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
