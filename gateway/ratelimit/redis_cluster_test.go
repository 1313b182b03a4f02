//go:build unix

package ratelimit

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"svc/gateway/ratelimit/redistest"
)

// ownedBy returns a key whose bucket is on a master of the cluster.
func ownedBy(c *redistest.Cluster, s *Redis, master int) Key {
	for i := 0; ; i++ {
		if k := rule(fmt.Sprint("owned-", i)); c.Owner(bucketKey(s.prefix, k)) == master {
			return k
		}
	}
}

// TestClusterShardThatStops: the other shards go on as if nothing were, the calls
// to the stopped one take the operation time-out and then fail at once; when it
// goes on, so do they.
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

// TestClusterFailover: a killed master's buckets are decided again once its
// replica is promoted, without help, with calls as short as the default.
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

// TestClusterSlotThatMoves: a bucket is found where its slot is being moved to,
// and where it was moved to.
func TestClusterSlotThatMoves(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	s := openRedis(t, redisConfig(c.URL(), clustered))
	key := ownedBy(c, s, 0)
	slot := c.Slot(bucketKey(s.prefix, key))
	from, to := c.Masters[0], c.Masters[1]
	untilAnswered(t, s, ownedBy(c, s, 2)) // knows the topology
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

// TestClusterDownAtTheStart: no node, then all of them.
func TestClusterDownAtTheStart(t *testing.T) {
	s := openRedis(t, redisConfig("redis://127.0.0.1:1,127.0.0.1:2", clustered))
	if took, err := fails(t, s, rule("a")); took > time.Second {
		t.Errorf("%s, %v", took, err)
	}
	if took, _ := fails(t, s, rule("b")); took > slack {
		t.Errorf("the next call took %s", took)
	}
}

// TestClusterOfOneSeed: one node of the URL is enough.
func TestClusterOfOneSeed(t *testing.T) {
	c := redistest.StartCluster(t, 3, false)
	s := openRedis(t, redisConfig("redis://127.0.0.1:1,"+c.Masters[2].Addr, clustered))
	for i := range 3 {
		untilAnswered(t, s, ownedBy(c, s, i))
	}
}

// TestServerThatIsNoCluster: cluster: true at a single server is a failure, not a
// limit of its own.
func TestServerThatIsNoCluster(t *testing.T) {
	s := openRedis(t, redisConfig(redistest.Start(t).URL(), clustered))
	fails(t, s, rule("a"))
	single := openRedis(t, redisConfig("redis://"+redistest.StartCluster(t, 3, false).Masters[0].Addr))
	failed := 0
	for i := range 20 { // and the other way round, for keys of other nodes
		if _, _, err := single.Allow(context.Background(), rule(fmt.Sprint(i)), 1, 1, start); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("a single-server client decided for all of a cluster")
	}
}

// answering listens, and answers whatever it is sent.
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
