package redis

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// clearedField is the field of when all labels were cleared; no label has this name.
const clearedField = "!"

// clearedMark begins the value of the field of a label that was cleared alone.
const clearedMark = "- "

// The labels of a caller are a hash: each field is a label, with the time of the server in milliseconds when it
// was set, its code and its name; or clearedMark, with the code, its name and when it was cleared. Beside the
// hashes of a slot is their epoch, a text that is lost when the server loses all that it has.
var (
	// KEYS: the labels, the epoch. ARGV: an epoch for a server without one, and fields. The reply has the time, the
	// epoch, and the fields, empty for none.
	labelsGet = redis.NewScript(`
local t = redis.call('TIME')
redis.call('SETNX', KEYS[2], ARGV[1])
local out = {string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)), redis.call('GET', KEYS[2])}
for i, held in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV, 2))) do out[i + 2] = held or '' end
return out
`)
	// KEYS: the labels, the epoch. ARGV: an epoch, the time to live in milliseconds, and for each label its name, its
	// age in milliseconds and its text. The reply is the epoch.
	labelsSet = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('SETNX', KEYS[2], ARGV[1])
for i = 3, #ARGV, 3 do
  local at, held = now - ARGV[i + 1], string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '', '^(%d+) ')
  if not held or tonumber(held) < at then redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f', at) .. ' ' .. ARGV[i + 2]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('GET', KEYS[2])
`)
	// ARGV: the time to live in milliseconds, and fields with texts. All labels are removed if the first field is
	// that of all, else those of the fields. The reply has the names of the labels that were removed.
	labelsClear = redis.NewScript(`
local had, all, named = {}, ARGV[2] == '` + clearedField + `', {}
for i = 2, #ARGV, 2 do named[ARGV[i]] = true end
local held = redis.call('HGETALL', KEYS[1])
for i = 1, #held, 2 do
  if held[i] ~= '` + clearedField + `' and (all or named[held[i]]) then
    if string.match(held[i + 1], '^%d') then had[#had + 1] = held[i] end
    redis.call('HDEL', KEYS[1], held[i])
  end
end
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return had
`)
)

// labelSlots are the slots of a cluster that have labels: each has an epoch of its own.
const labelSlots = 16

// Labels returns for each name how long ago a label of a caller was set, by the clock of the server,
// [math.MaxInt64] for one that was not, and the time that the last ClearLabels of the label had, 0 for none. lost
// counts how often the store has lost what it had, as far as this process knows. It is one call, and fails like
// Allow.
func (r *Redis) Labels(ctx context.Context, caller string, names []string) (ages []time.Duration, cleared []int64, lost uint64, err error) {
	slot, key := r.labelsKey(caller)
	answer, lost, err := r.labels(ctx, slot, key, names)
	if err != nil {
		return nil, nil, 0, err
	}
	now, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return nil, nil, 0, errAnswer
	}
	all := r.labelCleared(answer[2], caller, "")
	for i, name := range names {
		age, text := time.Duration(math.MaxInt64), answer[i+3]
		if mark, isMark := strings.CutPrefix(text, clearedMark); isMark {
			cleared = append(cleared, max(all, r.labelCleared(mark, caller, name)))
		} else {
			cleared = append(cleared, all)
			if millis, text, ok := strings.Cut(text, " "); ok {
				at, err := strconv.ParseInt(millis, 10, 64)
				if held, ok := r.authentic(text, "label", caller); ok && held == name && err == nil {
					age = time.Duration(max(min(now-at, maxAge), -maxAge)) * time.Millisecond
				}
			}
		}
		ages = append(ages, age)
	}
	return ages, cleared, lost, nil
}

// labels is the call of Labels, and returns the reply of its script.
func (r *Redis) labels(ctx context.Context, slot, key string, names []string) (answer []string, lost uint64, err error) {
	args := []any{rand.Text(), clearedField}
	for _, name := range names {
		args = append(args, name)
	}
	err = r.call(ctx, key, func(ctx context.Context) (err error) {
		answer, err = labelsGet.Run(ctx, r.client, []string{key, slot + "epoch"}, args...).StringSlice()
		if err == nil && len(answer) != len(names)+3 {
			err = errAnswer
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return answer, r.labelEpochs.see(slot, answer[1]), nil
}

// LabelsLost returns what Labels returns as lost, after it has looked at all slots.
func (r *Redis) LabelsLost(ctx context.Context) (lost uint64, err error) {
	for i := range labelSlots {
		slot := r.labelSlot(i)
		if _, lost, err = r.labels(ctx, slot, slot, nil); err != nil || r.cluster == nil {
			break
		}
	}
	return lost, err
}

// labelCleared returns when a label was cleared by a text of ClearLabels, 0 for none.
func (r *Redis) labelCleared(text, caller, name string) (at int64) {
	if text == "" {
		return 0
	}
	if value, ok := r.authentic(text, "labels cleared", caller, name); ok {
		at, _ = strconv.ParseInt(value, 10, 64)
	}
	return at
}

// epochs are the epochs of slots that a process has seen.
type epochs struct {
	mu   sync.Mutex
	seen map[string]string
	lost uint64
}

// see returns how often an epoch was another one than before.
func (e *epochs) see(slot, epoch string) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was, known := e.seen[slot]; was != epoch {
		if known {
			e.lost++
		} else if e.seen == nil {
			e.seen = map[string]string{}
		}
		e.seen[slot] = strings.Clone(epoch)
	}
	return e.lost
}

// maxAge bounds the ages of labels in milliseconds.
const maxAge = int64(math.MaxInt64 / time.Millisecond)

// SetLabels adds labels to a caller that were set some time ago, less than 0 for later, and keeps all of its
// labels for ttl. Where a label was set later, that time stays. It fails like Allow.
func (r *Redis) SetLabels(ctx context.Context, caller string, names []string, ages []time.Duration, ttl time.Duration) error {
	slot, key := r.labelsKey(caller)
	args := []any{rand.Text(), millis(ttl)}
	for i, name := range names {
		args = append(args, name, millis(ages[i]), r.code("label", caller, name)+" "+name)
	}
	return r.call(ctx, key, func(ctx context.Context) error {
		epoch, err := labelsSet.Run(ctx, r.client, []string{key, slot + "epoch"}, args...).Text()
		if err == nil {
			r.labelEpochs.see(slot, epoch)
		}
		return err
	})
}

// ClearLabels removes some labels of a caller, all for no names, at a time of the caller's clock in milliseconds,
// which is kept for ttl, and returns the names of those that it had. It fails like Allow.
func (r *Redis) ClearLabels(ctx context.Context, caller string, names []string, at int64, ttl time.Duration) (had []string, err error) {
	_, key := r.labelsKey(caller)
	text := strconv.FormatInt(at, 10)
	args := []any{millis(ttl)}
	for _, name := range names {
		args = append(args, name, clearedMark+r.code("labels cleared", caller, name, text)+" "+text)
	}
	if len(names) == 0 {
		args = append(args, clearedField, r.code("labels cleared", caller, "", text)+" "+text)
	}
	err = r.call(ctx, key, func(ctx context.Context) (err error) {
		had, err = labelsClear.Run(ctx, r.client, []string{key}, args...).StringSlice()
		return err
	})
	return had, err
}

// labelsKey returns the key of the labels of a caller, of whom it has a digest, and its slot.
func (r *Redis) labelsKey(caller string) (slot, key string) {
	sum := sha256.Sum256([]byte(caller))
	slot = r.labelSlot(int(sum[31] % labelSlots))
	return slot, slot + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// labelSlot returns the beginning of the keys of a slot. A single server has one slot.
func (r *Redis) labelSlot(i int) string {
	if r.cluster == nil {
		i = 0
	}
	return r.prefix + "{labels:" + strconv.Itoa(i) + "}"
}
