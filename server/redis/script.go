package redis

import "github.com/redis/go-redis/v9"

// takeSource counts one request in one window, atomically and by the clock of Redis. The
// window is the list of the times of the accepted requests, oldest first, in
// microseconds. A request that is as old as the window is long is no longer in the
// window. Rejected requests are not in the list. When the clock steps back, as after a
// failover to another machine, all times in the list are shifted by the step, so that no
// client is locked out for the size of the step.
//
// KEYS[1] is the window, ARGV[1] the limit of requests, ARGV[2] the length of the window
// in microseconds. The result is {1 or 0, requests in the window, age of the oldest}.
const takeSource = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local key, limit, length = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local last = tonumber(redis.call('LINDEX', key, -1) or now)
if last > now then
  local all, moved = redis.call('LRANGE', key, 0, -1), {}
  redis.call('DEL', key)
  for i, at in ipairs(all) do
    moved[#moved + 1] = string.format('%.0f', tonumber(at) - (last - now))
    if #moved == 1000 or i == #all then
      redis.call('RPUSH', key, unpack(moved))
      moved = {}
    end
  end
end
local oldest = redis.call('LINDEX', key, 0)
while oldest and now - tonumber(oldest) >= length do
  redis.call('LPOP', key)
  oldest = redis.call('LINDEX', key, 0)
end
local count, taken = redis.call('LLEN', key), 0
if count < limit then
  count, taken = redis.call('RPUSH', key, string.format('%.0f', now)), 1
end
redis.call('PEXPIRE', key, math.ceil(length / 1000) + 1000)
return {taken, count, now - tonumber(oldest or now)}
`

var takeScript = redis.NewScript(takeSource)
