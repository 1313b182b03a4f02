//go:build unix

package redis

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/redis/redistest"
)

// A field that one replica writes is read by another; of two that claim a field
// one wins; a record that has ended accepts no fields. On one server and on a
// cluster.
func TestRecordsAreShared(t *testing.T) {
	for name, cfg := range map[string]StoreConfig{
		"one server": redisConfig(redistest.Start(t).URL()),
		"cluster":    redisConfig(redistest.StartCluster(t, 3, false).URL(), clustered),
	} {
		t.Run(name, func(t *testing.T) {
			one, other := openRedis(t, cfg).Records(), openRedis(t, cfg).Records()
			ctx := t.Context()
			state := func(s Records, known, ended bool) {
				t.Helper()
				born, e, err := s.Touch(ctx, "a", time.Hour, time.Hour)
				if again, _, _ := s.Touch(ctx, "a", time.Hour, time.Hour); (born != "") != known || again != born || e != ended || err != nil {
					t.Errorf("state %q, %q, %v, %v, want %v, %v", born, again, e, err, known, ended)
				}
			}
			fields := func(want map[string]string) {
				t.Helper()
				got, err := other.Fields(ctx, "a")
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%v %s", err, diff)
				}
			}
			state(one, false, false)
			fields(map[string]string{})
			if _, ok, err := one.Field(ctx, "a", "x"); ok || err != nil {
				t.Errorf("no field: %v, %v", ok, err)
			}
			var mu sync.Mutex
			held := map[string]int{}
			var wg sync.WaitGroup
			for i := range 20 {
				s := []Records{one, other}[i%2]
				wg.Go(func() {
					holds, ended, err := s.Claim(ctx, "a", "x", fmt.Sprint("x", i), time.Hour)
					if ended || err != nil {
						t.Error(ended, err)
					}
					mu.Lock()
					held[holds]++
					mu.Unlock()
				})
			}
			wg.Wait()
			if len(held) != 1 {
				t.Fatalf("several won: %v", held)
			}
			x, ok, err := other.Field(ctx, "a", "x")
			if held[x] != 20 || !ok || err != nil {
				t.Errorf("the field holds %q, %v; won has %v", x, err, held)
			}
			for _, text := range []string{"1", "2"} {
				if err := one.Set(ctx, "a", "end", text, time.Hour); err != nil { // a caller's own field
					t.Fatal(err)
				}
			}
			fields(map[string]string{"x": x, "end": "2"})
			state(other, true, false)
			for _, text := range []string{"not it", x} {
				if err := other.Drop(ctx, "a", "x", text); err != nil {
					t.Fatal(err)
				}
				if _, ok, _ := one.Field(ctx, "a", "x"); ok != (text != x) {
					t.Errorf("after dropping %q: %v", text, ok)
				}
			}
			got, err := other.End(ctx, "a", time.Hour)
			if diff := cmp.Diff(map[string]string{"end": "2"}, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
			state(one, false, true)
			if holds, ended, err := one.Claim(ctx, "a", "x", "y", time.Hour); !ended || holds != "" || err != nil {
				t.Errorf("claimed in a record that ended: %q, %v, %v", holds, ended, err)
			}
			if err := one.Set(ctx, "a", "x", "y", time.Hour); err != nil {
				t.Error(err)
			}
			fields(map[string]string{})
			if got, err := one.End(ctx, "a", time.Hour); len(got) != 0 || err != nil {
				t.Errorf("ended again: %v, %v", got, err)
			}
		})
	}
}

// A record expires unless it is touched, and the number of its fields is limited.
func TestRecordsAreBounded(t *testing.T) {
	server := redistest.Start(t)
	r := openRedis(t, redisConfig(server.URL()))
	s, key := r.Records(), recordKey(r.prefix, "a")
	for i := range maxFields + 10 {
		if holds, _, err := s.Claim(t.Context(), "a", fmt.Sprint(i), "x", time.Hour); holds != "x" || err != nil {
			t.Fatalf("%q, %v", holds, err)
		}
	}
	if err := s.Set(t.Context(), "a", "one more", "x", time.Hour); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Fields(t.Context(), "a"); len(all) != maxFields || err != nil {
		t.Errorf("%d fields, %v", len(all), err)
	}
	left := func() time.Duration {
		t.Helper()
		ms, err := server.Do("PTTL", key)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(ms.(int64)) * time.Millisecond
	}
	for _, tt := range []struct{ ttl, atLeast, atMost time.Duration }{
		{90 * time.Minute, 59 * time.Minute, time.Hour},           // more than half is left
		{3 * time.Hour, 3*time.Hour - time.Minute, 3 * time.Hour}, // less
		{time.Minute, 3*time.Hour - time.Minute, 3 * time.Hour},   // never shortened
	} {
		if _, _, err := s.Touch(t.Context(), "a", tt.ttl, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := left(); got < tt.atLeast || got > tt.atMost {
			t.Errorf("touched for %s: %s left", tt.ttl, got)
		}
	}
	if _, err := s.End(t.Context(), "a", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if n, err := server.Do("EXISTS", key); err == nil && n == int64(0) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it did not expire")
		}
	}
}

// When the store is unavailable, calls of records fail like those of buckets.
func TestRecordsFailWithTheStore(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, redisConfig(server.URL(), within(200*time.Millisecond))).Records()
	server.Kill()
	if _, _, err := s.Touch(t.Context(), "a", time.Hour, time.Hour); err == nil {
		t.Error("touched in a store that is down")
	}
	if _, _, err := s.Claim(t.Context(), "a", "x", "y", time.Hour); !errors.Is(err, errShortCircuit) {
		t.Errorf("got %v, want the short circuit", err)
	}
}
