//go:build unix

package redis

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"svc/gateway/redis/redistest"
)

// ownedBy returns a key whose bucket is on a master of the cluster.
func ownedBy(c *redistest.Cluster, s *Redis, master int) Key {
	for i := 0; ; i++ {
		if k := rule(fmt.Sprint("owned-", i)); c.Owner(bucketKey(s.prefix, k)) == master {
			return k
		}
	}
}

// TestClusterShardThatStops: the other shards are not affected; calls to the
// stopped shard take the operation timeout and then fail at once; when it
// continues, so do they.
func TestClusterShardThatStops(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	s := openRedis(t, redisConfig(c.URL(), clustered, within(250*time.Millisecond)))
	keys := []Key{ownedBy(c, s, 0), ownedBy(c, s, 1), ownedBy(c, s, 2)}
	for _, k := range keys {
		untilAnswered(t, s, k)
	}
	c.Masters[0].Pause()
	defer c.Masters[0].Resume()
	if took, err := fails(t, s, keys[0]); took > 250*time.Millisecond+slack {
		t.Errorf("the stopped shard: %s, %v", took, err)
	}
	for range 100 {
		if took, err := fails(t, s, keys[0]); took > slack {
			t.Errorf("the stopped shard, again: %s, %v", took, err)
		}
		allow(t, s, keys[1], 1, 1)
		allow(t, s, keys[2], 1, 1)
	}
	c.Masters[0].Resume()
	if took := untilAnswered(t, s, keys[0]); took > 5*time.Second {
		t.Errorf("the shard was used again after %s", took)
	}
}

// TestClusterFailover: a killed master's buckets work again after its replica is
// promoted, without intervention, with timeouts as short as the default.
func TestClusterFailover(t *testing.T) {
	c := redistest.StartCluster(t, 3, true)
	s := openRedis(t, redisConfig(c.URL(), clustered, within(100*time.Millisecond)))
	lost, kept := ownedBy(c, s, 0), ownedBy(c, s, 1)
	untilAnswered(t, s, lost)
	untilAnswered(t, s, kept)
	c.Masters[0].Kill()
	fails(t, s, lost)
	untilAnswered(t, s, kept)
	took := untilAnswered(t, s, lost)
	t.Logf("decisions again %s after the master was killed", took.Round(100*time.Millisecond))
}

// TestClusterSlotThatMoves: a bucket is found while its slot is being moved, and
// afterwards.
func TestClusterSlotThatMoves(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	s := openRedis(t, redisConfig(c.URL(), clustered))
	key := ownedBy(c, s, 0)
	slot := c.Slot(bucketKey(s.prefix, key))
	from, to := c.Masters[0], c.Masters[1]
	untilAnswered(t, s, ownedBy(c, s, 2)) // so that the client knows the topology
	do := func(server *redistest.Server, args ...any) {
		t.Helper()
		if _, err := server.Do(args...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID())
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID())
	if !allow(t, s, key, 1e-6, 2) { // ASK
		t.Fatal("refused while the slot moves")
	}
	for _, m := range c.Masters {
		do(m, "CLUSTER", "SETSLOT", slot, "NODE", to.ID())
	}
	if !allow(t, s, key, 1e-6, 2) { // MOVED
		t.Error("refused after the slot has moved")
	}
	if allow(t, s, key, 1e-6, 2) {
		t.Error("the bucket did not move with the slot")
	}
	if st := s.Stats(); st.Failed != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestClusterDownAtTheStart: at first no node is up, then all of them.
func TestClusterDownAtTheStart(t *testing.T) {
	s := openRedis(t, redisConfig("redis://127.0.0.1:1,127.0.0.1:2", clustered))
	if took, err := fails(t, s, rule("a")); took > time.Second {
		t.Errorf("%s, %v", took, err)
	}
	if took, _ := fails(t, s, rule("b")); took > slack {
		t.Errorf("the next call took %s", took)
	}
}

// TestClusterOfOneSeed: one node in the URL is sufficient.
func TestClusterOfOneSeed(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	s := openRedis(t, redisConfig("redis://127.0.0.1:1,"+c.Masters[2].Addr, clustered))
	for i := range 3 {
		untilAnswered(t, s, ownedBy(c, s, i))
	}
}

// TestServerThatIsNoCluster: cluster: true with a single server is a failure, not
// a separate limit.
func TestServerThatIsNoCluster(t *testing.T) {
	s := openRedis(t, redisConfig(redistest.Start(t).URL(), clustered))
	fails(t, s, rule("a"))
	single := openRedis(t, redisConfig("redis://"+redistest.StartCluster(t, 3, false).Masters[0].Addr))
	failed := 0
	for i := range 20 { // and the reverse: a single-server client fails for keys of other nodes
		if _, _, err := single.Allow(context.Background(), rule(fmt.Sprint(i)), 1, 1, start); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("a single-server client decided for all of a cluster")
	}
}

// answering is a server that sends a fixed response to everything.
func answering(t *testing.T, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				buf := make([]byte, 4096)
				for {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					if _, err := conn.Write([]byte(answer)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
