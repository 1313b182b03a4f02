package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/redis/go-redis/v9"
)

// The script is one decision, atomic in the server: bucket.Take in Lua, with the same
// operations on the same doubles in the same order, so that both stores return the same
// results.
//
// A bucket is the string "tokens microseconds". A key of another type, or with another
// content, is an error that begins with BUCKET and is not changed. A key expires some
// time after its bucket is full again, when removing it changes nothing;
// a refusal writes only when that time has changed.
//
// KEYS[1] is the bucket, ARGV[1] the rate, ARGV[2] the burst. The reply is {1, 0}, or {0,
// nanoseconds to wait}.
const (
	// serverClock reads the clock of the server, which all callers share.
	serverClock = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
`
	decision = `
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local longest = 31536000 * 1e9
local function wait(missing)
  local ns = math.ceil(missing / rate * 1e9)
  if ns >= 0 and ns < longest then return ns end
  return longest
end
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' and value.err then
  if string.find(value.err, 'WRONGTYPE', 1, true) then return redis.error_reply('BUCKET the key is of another type') end
  return value
end
local stored, last = burst, now
if value then
  local a, b = string.match(value, '^([%d.e+-]+) (%d+)$')
  stored, last = a and tonumber(a), b and tonumber(b)
  if not stored or not last then return redis.error_reply('BUCKET the key holds something else') end
end
local back = now < last
if back then last = now end
local tokens = stored
if now > last and rate > 0 then tokens = tokens + (now - last) / 1000000 * rate end
if tokens > burst then tokens = burst end
local ok = tokens >= 1 - 1e-9
local left = tokens
if ok then left = tokens - 1 end
local ttl = math.ceil(wait(math.max(burst - left, 0)) / 1000000) + 10000
if ok then
  redis.call('SET', KEYS[1], string.format('%.17g %.0f', left, now), 'PX', string.format('%.0f', ttl))
  return {1, 0}
end
if back then
  redis.call('SET', KEYS[1], string.format('%.17g %.0f', stored, now), 'PX', string.format('%.0f', ttl))
elseif value and redis.call('PTTL', KEYS[1]) + 1000 < ttl then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl))
end
return {0, wait(1 - tokens)}
`
)

// takeScript returns the script with the clock of the server.
func takeScript() *redis.Script { return redis.NewScript(serverClock + decision) }

// badBucket is the prefix of the error for a key that is not a bucket.
const badBucket = "BUCKET"

// bucketKey returns the key of a bucket in a shared store: the prefix and a digest of the
// Key between braces. The key has a fixed length and form for any principal; a client
// cannot choose the hash slot, and the key does not reveal a principal that cannot be
// guessed.
func bucketKey(prefix string, k Key) string {
	buf := make([]byte, 0, 256)
	buf = append(buf, byte(k.Limit))
	for _, s := range [...]string{k.Rule, k.Kind, k.Issuer, k.Principal} {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	sum := sha256.Sum256(buf)
	name := make([]byte, 0, len(prefix)+24)
	name = append(append(name, prefix...), '{')
	name = base64.RawURLEncoding.AppendEncode(name, sum[:16])
	return string(append(name, '}'))
}
