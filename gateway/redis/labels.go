package redis

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// clearedField is the field of when labels were cleared; no label has this name.
const clearedField = "!"

// The labels of a caller are a hash: each field is a label, with the time of the server in milliseconds when it
// was set, its code and its name.
var (
	// labelsGet returns the time and the fields of ARGV, empty for none.
	labelsGet = redis.NewScript(`
local t = redis.call('TIME')
local out = {string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))}
for i, held in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV))) do out[i + 1] = held or '' end
return out
`)
	// ARGV: the time to live in milliseconds, and for each label its name, its age in milliseconds and its text.
	labelsSet = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV, 3 do
  local at, held = now - ARGV[i + 1], string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '', '^(%d+) ')
  if not held or tonumber(held) < at then redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f', at) .. ' ' .. ARGV[i + 2]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
`)
	// ARGV: the time to live in milliseconds, and the text of the field of the clearing. The reply has the names.
	labelsClear = redis.NewScript(`
local had = redis.call('HKEYS', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '` + clearedField + `', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return had
`)
)

// Labels returns for each name how long ago a label of a caller was set, by the clock of the server,
// [math.MaxInt64] for one that was not, and the time that the last ClearLabels had, 0 for none. It is one
// call, and fails like Allow.
func (r *Redis) Labels(ctx context.Context, caller string, names []string) (ages []time.Duration, cleared int64, err error) {
	key := labelsKey(r.prefix, caller)
	args := []any{clearedField}
	for _, name := range names {
		args = append(args, name)
	}
	var answer []string
	var now int64
	err = r.call(ctx, key, func(ctx context.Context) (err error) {
		if answer, err = labelsGet.Run(ctx, r.client, []string{key}, args...).StringSlice(); err != nil {
			return err
		}
		if len(answer) != len(names)+2 {
			return errAnswer
		}
		now, err = strconv.ParseInt(answer[0], 10, 64)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if text := answer[1]; text != "" {
		if at, ok := r.authentic(text, "labels cleared", caller); ok {
			cleared, _ = strconv.ParseInt(at, 10, 64)
		}
	}
	for i, name := range names {
		age := time.Duration(math.MaxInt64)
		if millis, text, ok := strings.Cut(answer[i+2], " "); ok {
			at, err := strconv.ParseInt(millis, 10, 64)
			if held, ok := r.authentic(text, "label", caller); ok && held == name && err == nil {
				age = time.Duration(max(min(now-at, maxAge), -maxAge)) * time.Millisecond
			}
		}
		ages = append(ages, age)
	}
	return ages, cleared, nil
}

// maxAge bounds the ages of labels in milliseconds.
const maxAge = int64(math.MaxInt64 / time.Millisecond)

// SetLabels adds labels to a caller that were set some time ago, less than 0 for later, and keeps all of its
// labels for ttl. Where a label was set later, that time stays. It fails like Allow.
func (r *Redis) SetLabels(ctx context.Context, caller string, names []string, ages []time.Duration, ttl time.Duration) error {
	key := labelsKey(r.prefix, caller)
	args := []any{millis(ttl)}
	for i, name := range names {
		args = append(args, name, millis(ages[i]), r.code("label", caller, name)+" "+name)
	}
	return r.call(ctx, key, func(ctx context.Context) error {
		return labelsSet.Run(ctx, r.client, []string{key}, args...).Err()
	})
}

// ClearLabels removes the labels of a caller at a time of the caller's clock in milliseconds, which is kept for
// ttl, and returns their names, with those that no replica has set. It fails like Allow.
func (r *Redis) ClearLabels(ctx context.Context, caller string, at int64, ttl time.Duration) (names []string, err error) {
	key := labelsKey(r.prefix, caller)
	text := strconv.FormatInt(at, 10)
	err = r.call(ctx, key, func(ctx context.Context) (err error) {
		names, err = labelsClear.Run(ctx, r.client, []string{key}, millis(ttl), r.code("labels cleared", caller, text)+" "+text).StringSlice()
		return err
	})
	return names, err
}

// labelsKey returns the key of the labels of a caller, of whom it has a digest.
func labelsKey(prefix, caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return prefix + "{labels:" + base64.RawURLEncoding.EncodeToString(sum[:16]) + "}"
}
