//go:build unix

package redis

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway/redis/redistest"
)

// Somebody who can write to Redis, or a gateway with another session key, does not move names, URIs
// or tasks to another upstream: such records are ignored and logged, and a claim replaces them.
func TestForgedRecordsAreIgnored(t *testing.T) {
	server := redistest.Start(t)
	var logs bytes.Buffer
	open := func(key string) *Redis {
		r := openRedis(t, redisConfig(server.URL()))
		if err := r.Authenticate([]byte(key)); err != nil {
			t.Fatal(err)
		}
		r.log = slog.New(slog.NewTextHandler(&logs, nil))
		return r
	}
	ctx := t.Context()
	one, stranger := open("key"), open("another key")
	own := []string{"1 a", "1 b"}
	claims := one.Claims("x")
	claim := func(r *Redis, holder string, want ...string) {
		t.Helper()
		got, _, _, err := r.Claims("x").Claim(ctx, own, []string{"f", "g"}, []string{holder, holder}, "")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("claim of %s: %q, %v, want %q", holder, got, err, want)
		}
	}
	holder := func(want string) {
		t.Helper()
		if fields, _, err := open("key").Claims("x").Load(ctx); err != nil || fields["f"] != want || fields["g"] != "1 a" {
			t.Errorf("%q, %v, want f of %q", fields, err, want)
		}
	}
	claim(one, "1 a", "1 a", "1 a")
	genuine, err := server.Do("HGET", claims.key, "c:g")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"without a code":          "1 b",
		"with a code of nobody":   strings.Repeat("A", 22) + " 1 b",
		"with the code of a name": fmt.Sprint(genuine), // valid for another field only
		"of another upstream":     strings.TrimSuffix(fmt.Sprint(genuine), "1 a") + "1 b",
		"garbage":                 "x",
	} {
		if _, err := server.Do("HSET", claims.key, "c:f", value); err != nil {
			t.Fatal(err)
		}
		holder("")
		claim(one, "1 a", "1 a", "1 a")
		holder("1 a")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	claim(stranger, "1 b", "1 b", "1 b") // with another key it sees no claim
	holderOf, _, err := claims.Load(ctx)
	if err != nil || holderOf["f"] != "" || holderOf["g"] != "" {
		t.Errorf("claims with another key: %q, %v", holderOf, err)
	}

	if err := one.PutSeen(ctx, "alice", []string{"u"}, "a", time.Hour, 10); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := stranger.Seen(ctx, "alice", "u", time.Hour); got != "" || ok || err != nil {
		t.Errorf("a URI with another key: %q %v %v", got, ok, err)
	}
	for _, value := range []string{" b", " " + one.code("seen", "alice", "u", "a") + " b", " " + one.code("seen", "bob", "u", "b") + " b"} {
		if _, err := server.Do("HSET", seenKey(one.prefix, "alice"), "u", fmt.Sprint(time.Now().UnixMilli())+value); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := one.Seen(ctx, "alice", "u", time.Hour); got != "" || ok || err != nil {
			t.Errorf("a forged URI: %q %v %v", got, ok, err)
		}
	}
	if err := one.PutSeen(ctx, "alice", []string{"u"}, "a", time.Hour, 10); err != nil {
		t.Fatal(err)
	}
	if got, ok, _ := one.Seen(ctx, "alice", "u", time.Hour); got != "a" || !ok {
		t.Errorf("after a forged URI: %q %v", got, ok)
	}

	if err := one.Put(ctx, "task", "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := one.Put(ctx, "other", "b", time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, ok, _ := one.Get(ctx, "task"); got != "a" || !ok {
		t.Errorf("a task: %q %v", got, ok)
	}
	other, err := server.Do("GET", textKey(one.prefix, "other"))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"b", fmt.Sprint(other)} {
		if _, err := server.Do("SET", textKey(one.prefix, "task"), value); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := one.Get(ctx, "task"); got != "" || ok || err != nil {
			t.Errorf("a forged task: %q %v %v", got, ok, err)
		}
	}
	if n := strings.Count(logs.String(), "level=WARN"); n == 0 || !strings.Contains(logs.String(), "sessions.key_file") {
		t.Errorf("the log has %d warnings:\n%s", n, logs.String())
	}
}
