package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// start is the clock of the suite. It has no monotonic reading, so that it can
// be stepped.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// testStore checks the requirements of every store. made returns an empty store
// whose clock follows the times that are passed to it, and that stores at least
// a hundred buckets.
func testStore(t *testing.T, made func(t *testing.T) Store) {
	ctx := context.Background()
	user := func(name string) Key { return Key{Limit: Rule, Rule: "r", Kind: "key", Principal: name} }
	type call struct {
		after time.Duration // since start
		ok    bool
		retry time.Duration
	}
	for _, tt := range []struct {
		name  string
		rate  float64
		burst int
		calls []call
	}{
		{"burst 1 is one at a time", 1, 1, []call{{0, true, 0}, {0, false, time.Second}, {999 * time.Millisecond, false, time.Millisecond}, {time.Second, true, 0}, {time.Second, false, time.Second}}},
		{"a bucket starts full", 1, 3, []call{{0, true, 0}, {0, true, 0}, {0, true, 0}, {0, false, time.Second}}},
		{"a bucket never holds more than its burst", 10, 2, []call{{0, true, 0}, {time.Hour, true, 0}, {time.Hour, true, 0}, {time.Hour, false, 100 * time.Millisecond}}},
		{"a thousandth of a token a second", 0.001, 1, []call{{0, true, 0}, {0, false, 1000 * time.Second}, {999 * time.Second, false, time.Second}, {1000 * time.Second, true, 0}}},
		{"fractions add up", 0.5, 1, []call{{0, true, 0}, {time.Second, false, time.Second}, {2 * time.Second, true, 0}}},
		{"a clock that steps back earns nothing", 1, 1, []call{{time.Hour, true, 0}, {0, false, time.Second}, {500 * time.Millisecond, false, 500 * time.Millisecond}, {time.Second, true, 0}}},
		{"a clock that steps forward earns one burst", 1, 2, []call{{0, true, 0}, {0, true, 0}, {1000 * time.Hour, true, 0}, {1000 * time.Hour, true, 0}, {1000 * time.Hour, false, time.Second}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := made(t)
			for i, c := range tt.calls {
				ok, retry, err := s.Allow(ctx, user("a"), tt.rate, tt.burst, start.Add(c.after))
				if got := (call{c.after, ok, retry.Round(time.Microsecond)}); err != nil || got != c {
					t.Fatalf("call %d: %+v, %v, want %+v", i, got, err, c)
				}
			}
		})
	}
	t.Run("different keys have different buckets", func(t *testing.T) {
		s := made(t)
		keys := []Key{
			{Limit: Input, Kind: "ip", Principal: "a"},
			{Limit: Rule, Kind: "ip", Principal: "a"},
			{Limit: Rule, Rule: "r", Kind: "ip", Principal: "a"},
			{Limit: Rule, Rule: "r", Kind: "key", Principal: "a"},
			{Limit: Rule, Rule: "r", Kind: "oauth", Issuer: "i", Principal: "a"},
			{Limit: Rule, Rule: "r", Kind: "oauth", Issuer: "ia"},
			{Limit: Rule, Rule: "r", Kind: "oauth", Principal: "ia"},
			{Limit: Rule, Rule: "rk", Kind: "ey", Principal: "a"},
			{Limit: Rule, Rule: "r", Kind: "key", Principal: "{a}:b\r\n\x00"},
			{Limit: Rule, Rule: "r", Kind: "key", Principal: strings.Repeat("a", 10<<10)},
		}
		for round, want := range []bool{true, false} {
			for _, k := range keys {
				if ok, _, err := s.Allow(ctx, k, 0.001, 1, start); ok != want || err != nil {
					t.Errorf("round %d, %.60v: %v, %v", round, k, ok, err)
				}
			}
		}
	})
	t.Run("a changed limit keeps the bucket", func(t *testing.T) {
		s := made(t)
		var got []bool
		for _, l := range []struct {
			rate  float64
			burst int
		}{{1, 2}, {1, 2}, {1, 10}, {1, 1}} { // a larger burst does not fill the bucket
			ok, _, _ := s.Allow(ctx, user("a"), l.rate, l.burst, start)
			got = append(got, ok)
		}
		ok, _, _ := s.Allow(ctx, user("a"), 100, 1, start.Add(10*time.Millisecond))
		if diff := cmp.Diff([]bool{true, true, false, false, true}, append(got, ok)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a smaller burst empties the bucket to it", func(t *testing.T) {
		s := made(t)
		var got []bool
		for _, burst := range []int{10, 2, 2, 2} {
			ok, _, _ := s.Allow(ctx, user("a"), 0.001, burst, start)
			got = append(got, ok)
		}
		if diff := cmp.Diff([]bool{true, true, true, false}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("concurrent callers get exactly the burst", func(t *testing.T) {
		s := made(t)
		var allowed atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if ok, _, _ := s.Allow(ctx, user("a"), 0.001, 50, start); ok {
						allowed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := allowed.Load(); n != 50 {
			t.Errorf("%d were allowed, want 50", n)
		}
	})
	t.Run("constant calls are still allowed at the rate", func(t *testing.T) {
		s := made(t)
		n := 0
		for i := range 20_001 {
			if ok, _, _ := s.Allow(ctx, user("a"), 1, 1, start.Add(time.Duration(i)*100*time.Microsecond)); ok {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%d in two seconds, want 3", n)
		}
	})
	t.Run("a hundred principals", func(t *testing.T) {
		s := made(t)
		for round, want := range []bool{true, false} {
			for i := range 100 {
				if ok, _, _ := s.Allow(ctx, user(fmt.Sprint(i)), 0.001, 1, start); ok != want {
					t.Fatalf("round %d, principal %d: %v", round, i, ok)
				}
			}
		}
	})
}
