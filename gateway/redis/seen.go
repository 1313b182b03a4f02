package redis

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The URIs that a caller has seen are a hash for each caller: each field is a digest, with
// the time and the upstream that returned it. ARGV: the time to live in milliseconds, the
// limit, the upstream, and the digests. A full hash is deleted and started again.
var seenPut = redis.NewScript(`
local t = redis.call('TIME')
local now, ttl, max = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('HLEN', KEYS[1]) + (#ARGV - 3) / 2 > max then redis.call('DEL', KEYS[1]) end
for i = 4, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  local at, upstream = string.match(held or '', '^(%d+) %S+ (.*)$')
  if not at or upstream == ARGV[3] or at + ttl <= now then
    redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f', now) .. ' ' .. ARGV[i + 1] .. ' ' .. ARGV[3])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
`)

// seenGet returns the upstream of a digest, empty for none. ARGV: the time to live in
// milliseconds, and the digest.
var seenGet = redis.NewScript(`
local t = redis.call('TIME')
local at, upstream = string.match(redis.call('HGET', KEYS[1], ARGV[2]) or '', '^(%d+) (.*)$')
if at and at + ARGV[1] > t[1] * 1000 + math.floor(t[2] / 1000) then return upstream end
return ''
`)

// PutSeen stores the upstream that returned URIs, given as digests, to a caller, for all
// replicas that share the store, except for URIs that another upstream has returned to the
// caller within ttl. At most max are stored for a caller. It fails like Allow.
func (r *Redis) PutSeen(ctx context.Context, caller string, uris []string, upstream string, ttl time.Duration, max int) error {
	key := seenKey(r.prefix, caller)
	args := []any{millis(ttl), max, upstream}
	for _, uri := range uris {
		args = append(args, uri, r.code("seen", caller, uri, upstream))
	}
	return r.call(ctx, key, func(ctx context.Context) error {
		return seenPut.Run(ctx, r.client, []string{key}, args...).Err()
	})
}

// Seen returns the upstream that PutSeen stored for a URI of a caller; ok is false when
// there is none. It fails like Allow.
func (r *Redis) Seen(ctx context.Context, caller, uri string, ttl time.Duration) (upstream string, ok bool, err error) {
	key := seenKey(r.prefix, caller)
	err = r.call(ctx, key, func(ctx context.Context) (err error) {
		upstream, err = seenGet.Run(ctx, r.client, []string{key}, millis(ttl), uri).Text()
		return err
	})
	if err != nil || upstream == "" {
		return "", false, err
	}
	text := upstream
	if upstream, ok = r.authentic(text, "seen", caller, uri); !ok {
		err = r.call(ctx, key, func(ctx context.Context) error { // the next replica that sees the URI stores it again
			return r.client.HDel(ctx, key, uri).Err()
		})
	}
	return strings.Clone(upstream), ok, err
}

func seenKey(prefix, caller string) string { return prefix + "{seen:" + caller + "}" }
