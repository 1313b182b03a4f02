package ratelimit

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Keep keeps a short text under a name for ttl, in the place of what was there,
// for all replicas that share the store. It is for the few facts beside buckets
// that replicas must agree on, and fails like Allow: within the operation
// time-out, and at once while the server is known to fail. The name must not be
// one that a stranger can choose.
func (r *Redis) Keep(ctx context.Context, name, text string, ttl time.Duration) error {
	key := keptKey(r.prefix, name)
	return r.call(ctx, key, func(ctx context.Context) error {
		return r.client.Set(ctx, key, text, ttl).Err()
	})
}

// Kept returns what Keep kept; ok is false when there is nothing, or no longer.
func (r *Redis) Kept(ctx context.Context, name string) (text string, ok bool, err error) {
	key := keptKey(r.prefix, name)
	err = r.call(ctx, key, func(ctx context.Context) (err error) {
		text, err = r.client.Get(ctx, key).Result()
		ok = err == nil
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return text, ok, err
}

// keptKey is the name of a kept text in the store. Buckets have no colon between
// their braces.
func keptKey(prefix, name string) string { return prefix + "{kept:" + name + "}" }
