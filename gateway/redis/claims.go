package redis

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Limits of one map of claims and of one call.
const (
	// maxClaims bounds the fields of a map. Claims beyond it are not stored, and each replica decides about them
	// locally.
	maxClaims = 1_000_000
	// claimBatch bounds the claims of one call, so that a call does not block the server for longer than the timeout of
	// rate-limit calls.
	claimBatch = 200
	// claimScan is the number of fields that one call reads.
	claimScan = 500
	// claimsTTL is the time after which a map expires that no replica uses.
	claimsTTL = 30 * 24 * time.Hour
	// holderTTL is the time for which a holder stays valid after the last call of a replica that is configured with it.
	holderTTL = 2 * time.Minute
)

// The scripts of claims. A map of claims is one hash with the fields: c: and the name of a field, whose value is the
// holder; h: and a holder, whose value is the time until which the holder is valid; born and count, which together are
// the version.
var (
	// ARGV: the time to live of the map and of a holder in milliseconds, the version that the claims require or an
	// empty text, the limit, the number of own holders and the own holders, and for each claim the field and the index
	// of its holder, the code of both, and the value that the claim replaces whoever wrote it, or an empty text. The
	// reply is the version before and after, and the value of each field, empty if the map is full; or only the version
	// before, if it differs from the required one. A value is a code, a space and a holder.
	//
	// A field keeps its holder, unless the holder has the same name as the claiming holder, has the name of none of the
	// own holders, or is no longer valid.
	claimsClaim = redis.NewScript(`
local key, t = KEYS[1], redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local born, count = redis.call('HGET', key, 'born'), redis.call('HGET', key, 'count') or '0'
local before = born and born .. '.' .. count or ''
if ARGV[3] ~= '' and ARGV[3] ~= before then return {before} end
if not born then
  born = t[1] .. '-' .. t[2]
  redis.call('HSET', key, 'born', born)
end
local function name(holder) return string.match(holder, '^%S* (.*)$') or holder end
local n, own = tonumber(ARGV[5]), {}
for i = 6, 5 + n do
  own[name(ARGV[i])] = true
  redis.call('HSET', key, 'h:' .. ARGV[i], string.format('%.0f', now + ARGV[2]))
end
local out, size, changed = {before, ''}, redis.call('HLEN', key), false
for i = 6 + n, #ARGV, 4 do
  local field, holder = 'c:' .. ARGV[i], ARGV[5 + ARGV[i + 1]]
  local value, held = ARGV[i + 2] .. ' ' .. holder, redis.call('HGET', key, field)
  local free = not held
  if held and held ~= value then
    local by = string.match(held, '^%S* (.*)$') or held
    local counts = tonumber(redis.call('HGET', key, 'h:' .. by) or '0') >= now
    free = name(by) == name(holder) or not own[name(by)] or not counts or held == ARGV[i + 3]
  end
  if free and (held or size < tonumber(ARGV[4])) then
    if not held then size = size + 1 end
    redis.call('HSET', key, field, value)
    held, changed = value, true
  end
  out[#out + 1] = held or ''
end
if changed then count = redis.call('HINCRBY', key, 'count', 1) end
redis.call('PEXPIRE', key, ARGV[1])
out[2] = born .. '.' .. count
return out
`)
	// ARGV: for each field to release its name and the name of its holder.
	claimsDrop = redis.NewScript(`
local key, n = KEYS[1], 0
for i = 1, #ARGV, 2 do
  local held = redis.call('HGET', key, 'c:' .. ARGV[i])
  if held and (string.match(held, '^%S* %S* (.*)$') or held) == ARGV[i + 1] then n = n + redis.call('HDEL', key, 'c:' .. ARGV[i]) end
end
if n > 0 then redis.call('HINCRBY', key, 'count', 1) end
return n
`)
)

// Claims are fields that each belong to the holder that claimed them first, across all replicas that share the store. A
// holder is a text without spaces, a space and a name. Each call is atomic in the server, and fails like Allow. The
// name must not be chosen by a client. It is safe for concurrent use.
type Claims struct {
	r   *Redis
	key string
}

// Claims returns the claims of a name. The claims of a nil Redis must not be used.
func (r *Redis) Claims(name string) *Claims {
	return &Claims{r: r, key: r.prefix + "{claims:" + name + "}"}
}

// Claim assigns each free field to the holder at the same index, and returns the holder of each field, empty if the
// store is full. own are all holders that this replica is configured with. A field is also free when its holder has a
// name that none of own has, or when no replica has been configured with the holder for two minutes; a holder of the
// same name takes the field over. If version is not empty and differs from the map's version, nothing is claimed and
// kept is nil. before and after are the versions of the map; before is empty if there was no map.
func (c *Claims) Claim(ctx context.Context, own, fields, holders []string, version string) (kept []string, before, after string, err error) {
	kept = make([]string, 0, len(fields))
	for first := true; first || len(fields) > 0; first = false {
		n := min(len(fields), claimBatch)
		answer, err := c.claim(ctx, own, fields[:n], holders[:n], version)
		switch {
		case err != nil:
			return nil, "", "", err
		case len(answer) == 1:
			return nil, answer[0], answer[0], nil
		case len(answer) != 2+n:
			return nil, "", "", errAnswer
		}
		switch {
		case first:
			before = answer[0]
		case answer[0] != after && version == "":
			before = "?" // another replica changed the map between two batches
		}
		fields, holders, kept, after = fields[n:], holders[n:], append(kept, answer[2:]...), answer[1]
		if version != "" {
			version = after
		}
	}
	return kept, before, after, nil
}

// claim claims a batch. A value without a valid code is replaced; when that fails, its field has no holder in the answer.
func (c *Claims) claim(ctx context.Context, own, fields, holders []string, version string) (answer []string, err error) {
	answer, err = c.run(ctx, own, fields, holders, nil, version)
	if err != nil || len(answer) != 2+len(fields) {
		return answer, err
	}
	var forged []int
	var replaced, claimed, by []string
	for i, value := range answer[2:] {
		if value == "" { // the map is full
			continue
		}
		holder, ok := c.r.authentic(value, "claim", c.key, fields[i])
		if answer[2+i] = holder; !ok {
			forged, replaced, claimed, by = append(forged, i), append(replaced, value), append(claimed, fields[i]), append(by, holders[i])
		}
	}
	if forged == nil {
		return answer, nil
	}
	again, err := c.run(ctx, own, claimed, by, replaced, "")
	if err != nil || len(again) != 2+len(claimed) {
		return nil, err
	}
	if again[0] == answer[1] {
		answer[1] = again[1]
	}
	for i, at := range forged {
		answer[2+at], _ = c.r.authentic(again[2+i], "claim", c.key, claimed[i])
	}
	return answer, nil
}

// run runs the script that claims. replaced are the values that the claims replace; nil for none.
func (c *Claims) run(ctx context.Context, own, fields, holders, replaced []string, version string) (answer []string, err error) {
	args := []any{millis(claimsTTL), millis(holderTTL), version, maxClaims, len(own)}
	at := make(map[string]string, len(own))
	for i, holder := range own {
		args = append(args, holder)
		at[holder] = strconv.Itoa(i + 1)
	}
	for i, field := range fields {
		old := ""
		if replaced != nil {
			old = replaced[i]
		}
		args = append(args, field, at[holders[i]], c.r.code("claim", c.key, field, holders[i]), old)
	}
	err = c.r.call(ctx, c.key, func(ctx context.Context) (err error) {
		answer, err = claimsClaim.Run(ctx, c.r.client, []string{c.key}, args...).StringSlice()
		return err
	})
	return answer, err
}

// Load returns all fields with their holders, an empty text for one that no replica with the same key has set, and a version that the map has at least: empty for a map that does not
// exist.
func (c *Claims) Load(ctx context.Context) (fields map[string]string, version string, err error) {
	err = c.r.call(ctx, c.key, func(ctx context.Context) error {
		got, err := c.r.client.HMGet(ctx, c.key, "born", "count").Result()
		if err == nil && len(got) == 2 {
			if born, ok := got[0].(string); ok {
				count, ok := got[1].(string)
				if !ok {
					count = "0"
				}
				version = born + "." + count
			}
		}
		return err
	})
	fields = map[string]string{}
	for cursor := uint64(0); err == nil && version != ""; {
		var page []string
		err = c.r.call(ctx, c.key, func(ctx context.Context) (err error) {
			page, cursor, err = c.r.client.HScan(ctx, c.key, cursor, "c:*", claimScan).Result()
			return err
		})
		for i := 0; i+1 < len(page); i += 2 {
			field := strings.TrimPrefix(page[i], "c:")
			fields[field], _ = c.r.authentic(page[i+1], "claim", c.key, field)
		}
		if cursor == 0 {
			break
		}
	}
	return fields, version, err
}

// Drop releases fields, each only if its holder has the name at the same index.
func (c *Claims) Drop(ctx context.Context, fields, names []string) error {
	for len(fields) > 0 {
		n := min(len(fields), claimBatch)
		var args []any
		for i := range n {
			args = append(args, fields[i], names[i])
		}
		fields, names = fields[n:], names[n:]
		err := c.r.call(ctx, c.key, func(ctx context.Context) error {
			return claimsDrop.Run(ctx, c.r.client, []string{c.key}, args...).Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
