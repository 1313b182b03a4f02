//go:build unix

package e2e

//lint:file-ignore SA1019 sampling is deprecated since 2026-07-28, and passes as long as clients have it

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"svc/gateway/redis"
	"svc/gateway/redis/redistest"
)

// While Redis is unavailable a replica continues with the sessions that it has used. The other
// responds at once with an error after which clients retry, and keeps serving the default
// upstream. Afterwards there is one session again.
func TestSessionsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]struct{ begin, end func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			_, second, one, other, sid := twoReplicas(t, inRedis(server.URL(), "operation_timeout: 1s"))
			if got := one.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			fail.begin(server)
			for i := range 3 {
				began := time.Now()
				for _, tool := range []string{"safe", "slow"} {
					if got := one.post(call("2", tool), "Mcp-Session-Id", sid); got.status != 200 {
						t.Errorf("%s at the replica that knows: %d %s", tool, got.status, got.body)
					}
				}
				if got := other.post(call("3", "safe"), "Mcp-Session-Id", sid); got.status != 200 {
					t.Errorf("the default upstream: %d %s", got.status, got.body)
				}
				got := other.post(call("4", "slow"), "Mcp-Session-Id", sid)
				if e := got.rpc(t); got.status != 503 || string(e.ID) != "4" || e.Error.Message != "session_store_unavailable" || got.header.Get("Retry-After") != "1" {
					t.Errorf("what only Redis knows: %d %s", got.status, got.body)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("round %d took %s", i, took)
				}
			}
			fail.end(server)
			eventually(t, "the replica that knows does not go on", func() bool {
				return one.post(call("5", "slow"), "Mcp-Session-Id", sid).status == 200 && !one.services().Limits.(*redis.Redis).Stats().Failing
			})
			eventually(t, "the other replica does not come back", func() bool {
				return other.post(call("6", "slow"), "Mcp-Session-Id", sid).status == 200
			})
			if n := second.total(); n != 1 {
				t.Errorf("%d sessions were opened, want the one", n)
			}
			for _, line := range other.kinds("request") {
				if line["status"] == float64(503) && line["error_kind"] != "session_store_unavailable" {
					t.Errorf("audit line %v", line)
				}
			}
		})
	}
}

// A restarted gateway continues with the upstream sessions in Redis, and with the initialize
// parameters of their clients.
func TestSessionsInRedisSurviveARestart(t *testing.T) {
	t.Parallel()
	_, second, one, _, sid := twoReplicas(t, inRedis(redistest.Start(t).URL(), "operation_timeout: 5s"))
	if got := one.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	one = restart(t, one)
	if got := one.post(call("2", "slow"), "Mcp-Session-Id", sid); got.status != 200 || second.total() != 1 {
		t.Errorf("after a restart: %d %s, %d sessions were opened", got.status, got.body, second.total())
	}
	second.forget()
	if got := one.post(call("3", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Errorf("after the upstream lost its session: %d %s", got.status, got.body)
	}
	if sent := second.sent(`"initialize"`); len(sent) != 2 || !strings.Contains(sent[1].body, `"elicitation":{}`) {
		t.Errorf("the second upstream was sent %v", sent)
	}
}

// A session that a client ends while Redis is unavailable ends at once at the replica that
// received the DELETE, and at the other replica when Redis is back.
func TestSessionEndedWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first, second, one, other, sid := twoReplicas(t, inRedis(server.URL(), "operation_timeout: 200ms"))
	if got := one.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	server.Kill()
	if got := one.do(http.MethodDelete, one.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Errorf("DELETE: %d %s", got.status, got.body)
	}
	eventually(t, "DELETE left a session open", func() bool { return first.open() == 0 && second.open() == 0 })
	if got := one.post(call("2", "slow"), "Mcp-Session-Id", sid); got.status != 404 {
		t.Errorf("after DELETE: %d %s", got.status, got.body)
	}
	server.Restart()
	another := one.begin()
	eventually(t, "the other replica still has the session", func() bool {
		one.post(call("3", "safe"), "Mcp-Session-Id", another) // any request synchronizes Redis
		return other.post(call("4", "slow"), "Mcp-Session-Id", sid).status == 404
	})
	eventually(t, "a session is open at the second upstream", func() bool { return second.open() == 0 })
}

// After the store was emptied while both replicas run, one session is left at each upstream in
// the end, whichever replica opens one first.
func TestSessionsAfterRedisWasFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, second, one, other, sid := twoReplicas(t, inRedis(server.URL(), "operation_timeout: 5s"))
	if got := one.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if _, err := server.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	for i, r := range []*rig{other, one, other, one} {
		if got := r.post(call("2", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
			t.Errorf("call %d: %d %s", i, got.status, got.body)
		}
	}
	eventually(t, "both sessions are open", func() bool { return second.open() == 1 })
	if got := other.do(http.MethodDelete, other.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Fatalf("DELETE: %d", got.status)
	}
	eventually(t, "a session is open", func() bool { return second.open() == 0 })
	if got := one.post(call("3", "slow"), "Mcp-Session-Id", sid); got.status != 404 {
		t.Errorf("after DELETE: %d %s", got.status, got.body)
	}
}

// A session that was ended before a restart is unknown after it, also without Redis.
func TestEndedSessionIsUnknownAfterARestart(t *testing.T) {
	first, second, r, sid := two(t)
	kept := r.begin()
	if got := r.post(call("1", "slow"), "Mcp-Session-Id", sid); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if got := r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid); got.status != 204 {
		t.Fatalf("DELETE: %d", got.status)
	}
	eventually(t, "the session is open at an upstream", func() bool { return first.open() == 1 && second.open() == 0 })
	r = restart(t, r)
	for _, tool := range []string{"safe", "slow"} {
		if got := r.post(call("1", tool), "Mcp-Session-Id", sid); got.status != 404 {
			t.Errorf("%s in the ended session: %d %s", tool, got.status, got.body)
		}
		if got := r.post(call("1", tool), "Mcp-Session-Id", kept); got.status != 200 {
			t.Errorf("%s in another: %d %s", tool, got.status, got.body)
		}
	}
	if first.open() != 1 || second.open() != 1 {
		t.Errorf("%d and %d sessions are open, want one each", first.open(), second.open())
	}
}
