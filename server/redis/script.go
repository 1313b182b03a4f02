package redis

import "github.com/redis/go-redis/v9"

// takeSource is one request on one window, atomic in Redis and with its clock. The
// window is the list of the times of the requests that it has accepted, oldest first, in
// microseconds. One that is as old as the window is long has left. Refused requests are
// not in the list. Where the clock steps back, as after a failover to another machine,
// what is counted moves with it: nobody is locked out for the size of the step.
//
// KEYS[1] is the window, ARGV[1] how many requests it holds, ARGV[2] its length in
// microseconds. The answer is {1 or 0, requests in the window, age of the oldest}.
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
