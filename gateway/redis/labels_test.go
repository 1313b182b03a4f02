//go:build unix

package redis

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"svc/gateway/redis/redistest"
)

func TestLabels(t *testing.T) {
	for name, cfg := range map[string]StoreConfig{
		"one server": redisConfig(redistest.Start(t).URL()),
		"cluster":    redisConfig(redistest.StartCluster(t, 3, false).URL(), clustered),
	} {
		t.Run(name, func(t *testing.T) {
			one, other := openRedis(t, cfg), openRedis(t, cfg)
			forger := openRedis(t, cfg)
			for r, key := range map[*Redis]string{one: "key", other: "key", forger: "another key"} {
				if err := r.Authenticate([]byte(key)); err != nil {
					t.Fatal(err)
				}
			}
			list := []string{"a", "b", "c"}
			ages := func(r *Redis, caller string) (seconds, cleared []int64) {
				t.Helper()
				got, cleared, _, err := r.Labels(t.Context(), caller, list)
				if err != nil {
					t.Fatal(err)
				}
				for _, age := range got {
					if age == math.MaxInt64 {
						seconds = append(seconds, -1)
						continue
					}
					seconds = append(seconds, int64(age.Round(10*time.Second)/time.Second))
				}
				return seconds, cleared
			}
			want := func(r *Redis, caller string, want ...int64) {
				t.Helper()
				if got, _ := ages(r, caller); !cmp.Equal(got, want) {
					t.Errorf("%s: %v, not %v", caller, got, want)
				}
			}
			set := func(r *Redis, caller, name string, age time.Duration) {
				t.Helper()
				if err := r.SetLabels(t.Context(), caller, []string{name}, []time.Duration{age}, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			want(one, "alice", -1, -1, -1)
			set(one, "alice", "a", 100*time.Second)
			set(other, "alice", "b", -100*time.Second)
			want(other, "alice", 100, -100, -1)
			set(other, "alice", "a", 200*time.Second) // it was set later
			set(other, "alice", "b", 0)
			want(one, "alice", 100, -100, -1)
			set(other, "alice", "a", 0)
			want(one, "alice", 0, -100, -1)
			want(one, "bob", -1, -1, -1)
			set(forger, "bob", "a", 0)
			want(one, "bob", -1, -1, -1)
			for _, names := range [][]string{nil, {"a"}} {
				if _, err := forger.ClearLabels(t.Context(), "bob", names, 7, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			if _, cleared := ages(one, "bob"); !cmp.Equal(cleared, []int64{0, 0, 0}) {
				t.Errorf("somebody else has cleared labels: %d", cleared)
			}
			clears := func(at int64, names, had []string, wantAges, wantCleared []int64) {
				t.Helper()
				got, err := one.ClearLabels(t.Context(), "alice", names, at, time.Hour)
				if slices.Sort(got); err != nil || !slices.Equal(got, had) {
					t.Errorf("cleared: %q, %v, not %q", got, err, had)
				}
				if got, cleared := ages(other, "alice"); !cmp.Equal(got, wantAges) || !cmp.Equal(cleared, wantCleared) {
					t.Errorf("after it was cleared: %v, %d, not %v, %d", got, cleared, wantAges, wantCleared)
				}
			}
			clears(123, []string{"a", "c"}, []string{"a"}, []int64{-1, -100, -1}, []int64{123, 0, 123})
			set(other, "alice", "c", 0)
			want(one, "alice", -1, -100, 0)
			clears(12345, nil, []string{"b", "c"}, []int64{-1, -1, -1}, []int64{12345, 12345, 12345})
			clears(23456, []string{"b"}, nil, []int64{-1, -1, -1}, []int64{12345, 23456, 12345})
			clears(34567, nil, nil, []int64{-1, -1, -1}, []int64{34567, 34567, 34567})
		})
	}
}

// Every process notices once that the store has lost what it had, whoever calls first, and counts no loss at its
// start.
func TestTheStoreLosesLabels(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  StoreConfig
		lost uint64
	}{
		"one server": {redisConfig(redistest.Start(t).URL()), 1},
		"cluster":    {redisConfig(redistest.StartCluster(t, 3, false).URL(), clustered), labelSlots},
	} {
		t.Run(name, func(t *testing.T) {
			one, other := openRedis(t, c.cfg), openRedis(t, c.cfg)
			lost := func(what string, r *Redis, want uint64) {
				t.Helper()
				if got, err := r.LabelsLost(t.Context()); got != want || err != nil {
					t.Errorf("%s: %d, %v, not %d", what, got, err, want)
				}
			}
			lost("at the start", one, 0)
			lost("at the start of another", other, 0)
			lost("later", one, 0)
			err := one.client.FlushAll(t.Context()).Err()
			if one.cluster != nil {
				err = one.cluster.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, _, got, err := other.Labels(t.Context(), "alice", []string{"a"}); got != 1 || err != nil {
				t.Errorf("a call: %d, %v", got, err)
			}
			lost("of one", one, c.lost)
			lost("of the other", other, c.lost)
			lost("of one, again", one, c.lost)
		})
	}
}
