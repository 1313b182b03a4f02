//go:build unix

package redis

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			ages := func(r *Redis, caller string) (seconds []int64, cleared int64) {
				t.Helper()
				got, cleared, err := r.Labels(t.Context(), caller, list)
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
			if _, err := forger.ClearLabels(t.Context(), "bob", 7, time.Hour); err != nil {
				t.Fatal(err)
			}
			if _, cleared := ages(one, "bob"); cleared != 0 {
				t.Errorf("somebody else has cleared labels: %d", cleared)
			}
			if names, err := one.ClearLabels(t.Context(), "alice", 12345, time.Hour); err != nil || len(names) != 2 {
				t.Errorf("cleared: %q, %v", names, err)
			}
			if got, cleared := ages(other, "alice"); !cmp.Equal(got, []int64{-1, -1, -1}) || cleared != 12345 {
				t.Errorf("after it was cleared: %v, %d", got, cleared)
			}
		})
	}
}
