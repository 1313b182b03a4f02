//go:build unix

package redis

import (
	"fmt"
	"testing"
	"time"

	"svc/gateway/redis/redistest"
)

// A URI that one replica stored is known to another; a URI belongs to the first upstream
// that returned it until the entry expires.
func TestWhatCallersWereShownIsShared(t *testing.T) {
	for name, cfg := range map[string]StoreConfig{
		"one server": redisConfig(redistest.Start(t).URL()),
		"cluster":    redisConfig(redistest.StartCluster(t, 3, false).URL(), clustered),
	} {
		t.Run(name, func(t *testing.T) {
			one, other := openRedis(t, cfg), openRedis(t, cfg)
			put := func(r *Redis, caller, upstream string, ttl time.Duration, uris ...string) {
				t.Helper()
				if err := r.PutSeen(t.Context(), caller, uris, upstream, ttl, 5); err != nil {
					t.Fatal(err)
				}
			}
			want := func(caller, uri, upstream string, ttl time.Duration) {
				t.Helper()
				if got, ok, err := other.Seen(t.Context(), caller, uri, ttl); got != upstream || ok != (upstream != "") || err != nil {
					t.Errorf("%s of %s: %q, %v, %v, want %q", uri, caller, got, ok, err, upstream)
				}
			}
			want("alice", "1", "", time.Hour)
			put(one, "alice", "a", time.Hour, "1", "2")
			put(other, "alice", "b c", time.Hour, "2", "3")
			want("alice", "1", "a", time.Hour)
			want("alice", "2", "a", time.Hour)
			want("alice", "3", "b c", time.Hour)
			want("bob", "1", "", time.Hour)
			want("alice", "1", "", 0) // expired
			put(other, "alice", "b", 0, "1")
			for i := range 4 {
				put(one, "alice", "a", time.Hour, fmt.Sprint("x", i))
			}
			want("alice", "3", "", time.Hour) // full: it was started again
			want("alice", "x3", "a", time.Hour)
		})
	}
}
