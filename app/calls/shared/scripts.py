"""The Lua scripts for shared calls. Redis runs each of them as one atomic step.

All keys of all calls share one hash tag, so that they are on one node of a cluster and one XREAD can follow them all.
The number in the tag is the version of the events.

    parley:{commons-1}:<cache key>                  the number of the call to join; expires with its lease
    parley:{commons-1}:<cache key>:listen           exists while another gateway follows the call
    parley:{commons-1}:<cache key>:<number>         state (live, ended, given up); `fence`, which is 1
    parley:{commons-1}:<cache key>:<number>:lease   exists while a gateway leads the call
    parley:{commons-1}:<cache key>:<number>:stream  records, numbered from 1 without gaps
    parley:{commons-1}:notices                      cancelled replies
    parley:{commons-1}:joined                       calls that another gateway has begun to follow

A call that no other gateway follows may have no key but the first: its leader writes the others when one follows.
"""

from app.redis.connection import Script

CLAIM = Script("""
-- keys: pointer, joined
-- arguments: number of the new call, lease, keep, listen (milliseconds), cache key, whether the call can be resumed
-- Returns the number of the call to follow; false when the new call was claimed.
local function begin(number, lease_ms)
    local state = KEYS[1] .. ':' .. number
    if redis.call('EXISTS', state) == 1 then return false end
    redis.call('HSET', state, 'fence', 1, 'state', 'live')
    redis.call('PEXPIRE', state, ARGV[3])
    redis.call('SET', state .. ':lease', 1, 'PX', lease_ms)
    return true
end

local held = redis.call('GET', KEYS[1])
if not held then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    if ARGV[6] == '1' then begin(ARGV[1], ARGV[2]) end
    return false
end
local begun = begin(held, math.max(1, redis.call('PTTL', KEYS[1])))
local listen = KEYS[1] .. ':listen'
-- The followers of an earlier call for the same key may have left `listen`.
if begun or redis.call('EXISTS', listen) == 0 then
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1000, '*', 'id', ARGV[5] .. '.' .. held)
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
redis.call('SET', listen, 1, 'PX', ARGV[4])
return held
""")

WRITE = Script("""
-- For each call, keys: pointer, listen, state, lease, stream; arguments: number of the call, number of the record,
-- record, after ('', end, end_unless_followed, release), joinable_ms. Before them: lease, keep (milliseconds).
-- Returns for each call: code (0 lease lost, 1 written, 2 ended because no gateway follows), whether others follow.
local lease_ms, keep_ms = ARGV[1], ARGV[2]

local function last_number(stream)
    local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
    return last[1] and tonumber(string.match(last[1][1], '^(%d+)')) or 0
end

local function release(pointer, lease, number, joinable_ms)
    redis.call('DEL', lease)
    if redis.call('GET', pointer) == number then
        if tonumber(joinable_ms) > 0 then
            redis.call('PEXPIRE', pointer, joinable_ms)
        else
            redis.call('DEL', pointer)
        end
    end
end

local function renew(pointer, lease, number)
    redis.call('SET', lease, 1, 'PX', lease_ms)
    local held = redis.call('GET', pointer)
    if not held or held == number then redis.call('SET', pointer, number, 'PX', lease_ms) end
end

local function write(pointer, listen, state, lease, stream, number, record_number, record, after, joinable_ms)
    local known = redis.call('HMGET', state, 'fence', 'state')
    if not known[1] and record_number == '1' then
        redis.call('HSET', state, 'fence', 1, 'state', 'live')
        known = {'1', 'live'}
    end
    -- A gateway of version 0.1 counts `fence` up when it takes a call over.
    if known[1] ~= '1' or known[2] ~= 'live' then return {0, 0} end
    local others = redis.call('EXISTS', listen)
    if record ~= '' then
        local last = last_number(stream)
        if last + 1 < tonumber(record_number) then
            redis.call('DEL', state, lease)
            return {0, others}
        end
        -- Otherwise an earlier attempt wrote the record, and only its answer was lost.
        if last + 1 == tonumber(record_number) then redis.call('XADD', stream, record_number .. '-0', 'r', record) end
    end
    redis.call('PEXPIRE', stream, keep_ms)
    redis.call('PEXPIRE', state, keep_ms)
    if after == 'end' then
        redis.call('HSET', state, 'state', 'ended')
        release(pointer, lease, number, joinable_ms)
    elseif after == 'release' then
        release(pointer, lease, number, 0)
    elseif after == 'end_unless_followed' and others == 0 then
        redis.call('HSET', state, 'state', 'given up')
        release(pointer, lease, number, 0)
        return {2, 0}
    else
        renew(pointer, lease, number)
    end
    return {1, others}
end

local answers = {}
for i = 0, #KEYS / 5 - 1 do
    local k, a = i * 5, i * 5 + 2
    answers[i + 1] = write(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5],
        ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5])
end
return answers
""")

WATCH = Script("""
-- For each call, keys: listen, state, lease; before them: joined.
-- Arguments: listen, keep (milliseconds), ids of the calls.
-- Returns the state of each call, as the type `State` in call_store describes it.
local answers = {}
for i = 0, (#KEYS - 1) / 3 - 1 do
    local listen, lease = KEYS[i * 3 + 2], KEYS[i * 3 + 4]
    local state = redis.call('HGET', KEYS[i * 3 + 3], 'state')
    if state == 'live' then
        if redis.call('EXISTS', listen) == 0 then
            redis.call('XADD', KEYS[1], 'MAXLEN', '~', 1000, '*', 'id', ARGV[i + 3])
            redis.call('PEXPIRE', KEYS[1], ARGV[2])
        end
        redis.call('SET', listen, 1, 'PX', ARGV[1])
        state = redis.call('EXISTS', lease) == 1 and 'led' or 'leaderless'
    end
    answers[i + 1] = state or 'missing'
end
return answers
""")
