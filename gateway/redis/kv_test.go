//go:build unix

package redis

import (
	"errors"
	"testing"
	"time"

	"svc/gateway/redis/redistest"
)

// A text that one replica puts is read by another, until it expires; on one
// server and on a cluster.
func TestKeptTextsAreShared(t *testing.T) {
	for name, cfg := range map[string]StoreConfig{
		"one server": redisConfig(redistest.Start(t).URL()),
		"cluster":    redisConfig(redistest.StartCluster(t, 3, false).URL(), clustered),
	} {
		t.Run(name, func(t *testing.T) {
			one, other := openRedis(t, cfg), openRedis(t, cfg)
			if text, ok, err := other.Get(t.Context(), "a"); ok || err != nil || text != "" {
				t.Errorf("before: %q, %v, %v", text, ok, err)
			}
			for _, text := range []string{"first", "second"} {
				if err := one.Put(t.Context(), "a", text, time.Hour); err != nil {
					t.Fatal(err)
				}
				if got, ok, err := other.Get(t.Context(), "a"); !ok || err != nil || got != text {
					t.Errorf("got %q, %v, %v, want %q", got, ok, err, text)
				}
			}
			if _, ok, err := other.Get(t.Context(), "b"); ok || err != nil {
				t.Errorf("another name: %v, %v", ok, err)
			}
			if err := one.Put(t.Context(), "short", "x", 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if _, ok, err := other.Get(t.Context(), "short"); !ok && err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("it did not expire")
				}
			}
		})
	}
}

// When the store is unavailable, these calls fail like those of buckets.
func TestKeepingFailsWithTheStore(t *testing.T) {
	server := redistest.Start(t)
	r := openRedis(t, redisConfig(server.URL(), within(200*time.Millisecond)))
	server.Kill()
	if err := r.Put(t.Context(), "a", "x", time.Hour); err == nil {
		t.Error("kept in a store that is down")
	}
	if _, _, err := r.Get(t.Context(), "a"); !errors.Is(err, errShortCircuit) {
		t.Errorf("got %v, want the short circuit", err)
	}
}

func TestKeptKeyIsNoBucket(t *testing.T) {
	if got := textKey("p:", "x"); got != "p:{kept:x}" {
		t.Errorf("got %s", got)
	}
}
