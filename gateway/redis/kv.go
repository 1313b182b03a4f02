package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Put stores a short text under a name for ttl, replacing the old value, for all
// replicas that share the store. It is for the few facts other than buckets that
// replicas must agree on. It fails like Allow: within the operation timeout, and at
// once during the short circuit of the server. The name must not be chosen by a client.
func (r *Redis) Put(ctx context.Context, name, text string, ttl time.Duration) error {
	key := textKey(r.prefix, name)
	return r.call(ctx, key, func(ctx context.Context) error {
		return r.client.Set(ctx, key, r.code("text", name, text)+" "+text, ttl).Err()
	})
}

// Get returns the text that Put stored; ok is false when there is none, or it has
// expired.
func (r *Redis) Get(ctx context.Context, name string) (text string, ok bool, err error) {
	key := textKey(r.prefix, name)
	err = r.call(ctx, key, func(ctx context.Context) (err error) {
		text, err = r.client.Get(ctx, key).Result()
		ok = err == nil
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	if ok {
		text, ok = r.authentic(text, "text", name)
	}
	return text, ok, err
}

// textKey returns the key of a text in the store. Keys of buckets have no colon between
// their braces, so that the two never collide.
func textKey(prefix, name string) string { return prefix + "{kept:" + name + "}" }
