//go:build unix

package redis

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"svc/gateway/redis/redistest"
)

// Of several holders that claim a field the first gets it, at every replica and on a
// cluster; a field is free after it was released, when its holder is no longer configured,
// and for a holder of the same name.
func TestClaimsAreOfTheFirst(t *testing.T) {
	for name, cfg := range map[string]StoreConfig{
		"one server": redisConfig(redistest.Start(t).URL()),
		"cluster":    redisConfig(redistest.StartCluster(t, 3, false).URL(), clustered),
	} {
		t.Run(name, func(t *testing.T) {
			one, other := openRedis(t, cfg).Claims("x"), openRedis(t, cfg).Claims("x")
			ctx := t.Context()
			both := []string{"1 a", "1 b"}
			claim := func(c *Claims, own []string, holder string, want ...string) {
				t.Helper()
				var fields []string
				for i := range want {
					fields = append(fields, fmt.Sprint("f", i))
				}
				got, _, _, err := c.Claim(ctx, own, fields, slices.Repeat([]string{holder}, len(fields)), "")
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("claims of %s: %q, %v, want %q", holder, got, err, want)
				}
			}
			if fields, version, err := one.Load(ctx); len(fields) != 0 || version != "" || err != nil {
				t.Errorf("nothing: %v %q %v", fields, version, err)
			}
			claim(one, both, "1 b", "1 b")
			claim(other, both, "1 a", "1 b", "1 a")
			claim(one, both, "1 b", "1 b", "1 a", "1 b")
			fields, version, err := other.Load(ctx)
			if err != nil || fmt.Sprint(fields) != "map[f0:1 b f1:1 a f2:1 b]" {
				t.Errorf("fields %v, %v", fields, err)
			}
			_, before, after, err := one.Claim(ctx, both, nil, nil, version)
			if before != version || after != version || err != nil {
				t.Errorf("nothing was claimed at %q: %q to %q, %v", version, before, after, err)
			}
			claim(one, []string{"1 a", "2 b"}, "2 b", "2 b") // the same name takes over
			claim(one, []string{"3 c"}, "3 c", "3 c")        // b is not configured
			if got, before, _, err := one.Claim(ctx, both, []string{"f9"}, []string{"1 a"}, version); got != nil || before == version || err != nil {
				t.Errorf("a claim at version %q: %q, %q, %v", version, got, before, err)
			}
			if err := other.Drop(ctx, []string{"f1", "f2"}, []string{"b", "b"}); err != nil {
				t.Error(err)
			}
			claim(one, both, "1 a", "1 a", "1 a", "1 a") // f0 is held by c, which is not configured here
		})
	}
}

// A holder that another replica is still configured with keeps its fields, even against a
// replica that has the name with other settings.
func TestClaimsOfAnOlderConfigurationStay(t *testing.T) {
	server := redistest.Start(t)
	c := openRedis(t, redisConfig(server.URL())).Claims("x")
	claim := func(own []string, holder, want string) {
		t.Helper()
		got, _, _, err := c.Claim(t.Context(), own, []string{"f"}, []string{holder}, "")
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	claim([]string{"1 a"}, "1 a", "1 a")
	claim([]string{"2 a", "1 b"}, "1 b", "1 a")
	if _, err := server.Do("HSET", c.key, "h:1 a", "1"); err != nil { // the last replica with it has ended
		t.Fatal(err)
	}
	claim([]string{"2 a", "1 b"}, "1 b", "1 b")
}

// When replicas claim many fields concurrently, all see the same holders.
func TestClaimsAtTheSameTime(t *testing.T) {
	cfg := redisConfig(redistest.Start(t).URL())
	own := []string{"1 a", "1 b", "1 c", "1 d"}
	var wg sync.WaitGroup
	got := make([][]string, len(own))
	for i, holder := range own {
		c := openRedis(t, cfg).Claims("x")
		wg.Go(func() {
			var fields []string
			for n := range 3*claimBatch + 1 {
				fields = append(fields, fmt.Sprint("f", n))
			}
			var err error
			if got[i], _, _, err = c.Claim(t.Context(), own, fields, slices.Repeat([]string{holder}, len(fields)), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range got[1:] {
		if len(got[0]) != 3*claimBatch+1 || !slices.Equal(got[0], got[i+1]) {
			t.Errorf("replica 0 and %d see other holders", i+1)
		}
	}
}
