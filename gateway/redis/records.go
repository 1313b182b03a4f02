package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxFields bounds the fields of one record.
const maxFields = 260

// fieldPrefix distinguishes the fields of callers from the field born, the creation time
// of the record, and from the field end, which is the only field of a record that has
// ended.
const fieldPrefix = "f:"

// The scripts of records. Each uses one key and is atomic. A record is a hash that
// expires; a record that has ended contains only the field end, and accepts no other.
var (
	// The reply is empty for no record, end for a record that has ended, otherwise the
	// creation time. The time to live is written only after half of it has passed.
	recordTouch = redis.NewScript(`
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return '' end
local ttl, born = ARGV[1], redis.call('HGET', KEYS[1], 'born')
if not born then ttl, born = ARGV[2], 'end' end
if left < tonumber(ttl) / 2 then redis.call('PEXPIRE', KEYS[1], ttl) end
return born
`)
	// The reply is {0} for a record that has ended, otherwise {1, the value of the
	// field}. A full record stores no further field: the reply is then the given text.
	recordClaim = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], 'end') == 1 then return {0} end
local there = redis.call('HGET', KEYS[1], ARGV[1])
if there then return {1, there} end
if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[4]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  if redis.call('HLEN', KEYS[1]) == 1 then
    local now = redis.call('TIME')
    redis.call('HSET', KEYS[1], 'born', now[1] .. '.' .. now[2])
  end
end
return {1, ARGV[2]}
`)
	recordSet = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], 'end') == 1 then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if redis.call('HLEN', KEYS[1]) == 1 then
  local now = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'born', now[1] .. '.' .. now[2])
end
return 1
`)
	recordDrop = redis.NewScript(`
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
return 0
`)
	recordEnd = redis.NewScript(`
local all = redis.call('HGETALL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'end', '1')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return all
`)
)

// Records stores small maps of texts for all replicas that share the store. A record
// expires, has at most 260 fields, and can be ended permanently. Each call is atomic in
// the server. It fails like Allow: within the operation timeout, and at once during the
// short circuit of the server. Names must not be chosen by a client. It is safe for
// concurrent use.
type Records struct{ r *Redis }

// Records returns the records of the store.
func (r *Redis) Records() Records { return Records{r} }

// Touch returns the creation time of a record, empty if there is none, and whether it has
// ended, and extends its life: by at least half of ttl, or of endedTTL when it has ended.
func (s Records) Touch(ctx context.Context, name string, ttl, endedTTL time.Duration) (born string, isEnded bool, err error) {
	key := recordKey(s.r.prefix, name)
	err = s.r.call(ctx, key, func(ctx context.Context) (err error) {
		born, err = recordTouch.Run(ctx, s.r.client, []string{key}, millis(ttl), millis(endedTTL)).Text()
		return err
	})
	if err != nil || born == "end" {
		return "", err == nil, err
	}
	return born, false, nil
}

// Field returns one field; ok is false when there is none.
func (s Records) Field(ctx context.Context, name, field string) (text string, ok bool, err error) {
	key := recordKey(s.r.prefix, name)
	err = s.r.call(ctx, key, func(ctx context.Context) (err error) {
		text, err = s.r.client.HGet(ctx, key, fieldPrefix+field).Result()
		ok = err == nil
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return text, ok, err
}

// Fields returns all fields; none when there is no record or it has ended.
func (s Records) Fields(ctx context.Context, name string) (fields map[string]string, err error) {
	key := recordKey(s.r.prefix, name)
	err = s.r.call(ctx, key, func(ctx context.Context) error {
		all, err := s.r.client.HGetAll(ctx, key).Result()
		fields = make(map[string]string, len(all))
		for name, text := range all {
			addField(fields, name, text)
		}
		return err
	})
	return fields, err
}

// Claim sets a field that is absent, and returns the value that the field then has: the
// existing one, or text. In a record that has ended nothing is set.
func (s Records) Claim(ctx context.Context, name, field, text string, ttl time.Duration) (holds string, isEnded bool, err error) {
	key := recordKey(s.r.prefix, name)
	err = s.r.call(ctx, key, func(ctx context.Context) error {
		answer, err := recordClaim.Run(ctx, s.r.client, []string{key}, fieldPrefix+field, text, millis(ttl), maxFields+1).Slice()
		if err != nil {
			return err
		}
		if len(answer) == 1 {
			isEnded = true
			return nil
		}
		var ok bool
		if len(answer) == 2 {
			holds, ok = answer[1].(string)
		}
		if !ok {
			return errAnswer
		}
		return nil
	})
	return holds, isEnded, err
}

// Set sets a field and replaces its value, unless the record has ended.
func (s Records) Set(ctx context.Context, name, field, text string, ttl time.Duration) error {
	key := recordKey(s.r.prefix, name)
	return s.r.call(ctx, key, func(ctx context.Context) error {
		return recordSet.Run(ctx, s.r.client, []string{key}, fieldPrefix+field, text, millis(ttl), maxFields+1).Err()
	})
}

// Drop removes a field if its value is text.
func (s Records) Drop(ctx context.Context, name, field, text string) error {
	key := recordKey(s.r.prefix, name)
	return s.r.call(ctx, key, func(ctx context.Context) error {
		return recordDrop.Run(ctx, s.r.client, []string{key}, fieldPrefix+field, text).Err()
	})
}

// End ends a record for the time ttl, whether or not it exists, and returns its fields.
func (s Records) End(ctx context.Context, name string, ttl time.Duration) (fields map[string]string, err error) {
	key := recordKey(s.r.prefix, name)
	err = s.r.call(ctx, key, func(ctx context.Context) error {
		all, err := recordEnd.Run(ctx, s.r.client, []string{key}, millis(ttl)).StringSlice()
		fields = make(map[string]string, len(all)/2)
		for i := 0; i+1 < len(all); i += 2 {
			addField(fields, all[i], all[i+1])
		}
		return err
	})
	return fields, err
}

// addField adds a field under the name that callers use for it.
func addField(to map[string]string, name, text string) {
	if field, ok := strings.CutPrefix(name, fieldPrefix); ok {
		to[field] = text
	}
}

// recordKey returns the key of a record in the store, with its hash slot in braces like
// the keys of buckets and texts.
func recordKey(prefix, name string) string { return prefix + "{record:" + name + "}" }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
