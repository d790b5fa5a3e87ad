"""What Redis does for the commons, each in one step that nobody can come between.

All keys of all flights share one hash tag, so that they live on one node of a cluster and one XREAD can follow them
all. The number in the tag is the version of the events.

    parley:{commons-1}:<question>                  the number of the flight to join; lives as long as its lease
    parley:{commons-1}:<question>:listen           somebody follows elsewhere
    parley:{commons-1}:<question>:<number>         fence, state (live, ended, given up)
    parley:{commons-1}:<question>:<number>:lease   somebody leads
    parley:{commons-1}:<question>:<number>:stream  records, numbered from 1 without gaps
    parley:{commons-1}:notices                     replies that were cancelled
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError

from app.cache.redis.breaker import Client


class Script:
    def __init__(self, text: str) -> None:
        self._text = text
        self._sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, redis: Client, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> Any:
        try:
            return await redis.evalsha(self._sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return await redis.eval(self._text, len(keys), *keys, *arguments)


CLAIM = Script("""
-- keys: pointer, listen, state, lease; arguments: number of the new flight, lease, keep, listen (milliseconds)
local held = redis.call('GET', KEYS[1])
if held then
    redis.call('SET', KEYS[2], 1, 'PX', ARGV[4])
    return held
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[3], 'fence', 1, 'state', 'live')
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('SET', KEYS[4], 1, 'PX', ARGV[2])
return false
""")

WRITE = Script("""
-- For each flight, keys: pointer, listen, state, lease, stream; arguments: number of the flight, fence, number of the
-- record, record, what then ('', ended, leave, left), glow. Before them: lease, keep (milliseconds).
-- Answers: code (0 lost, 1 written, 2 left), whether others listen.
local lease_ms, keep_ms = ARGV[1], ARGV[2]

local function top(stream)
    local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
    return last[1] and tonumber(string.match(last[1][1], '^(%d+)')) or 0
end

local function let_go(pointer, lease, number, glow)
    redis.call('DEL', lease)
    if redis.call('GET', pointer) == number then
        if tonumber(glow) > 0 then redis.call('PEXPIRE', pointer, glow) else redis.call('DEL', pointer) end
    end
end

local function renew(pointer, lease, number, fence)
    redis.call('SET', lease, fence, 'PX', lease_ms)
    local held = redis.call('GET', pointer)
    if not held or held == number then redis.call('SET', pointer, number, 'PX', lease_ms) end
end

local function write(pointer, listen, state, lease, stream, number, fence, place, record, after, glow)
    local known = redis.call('HMGET', state, 'fence', 'state')
    if known[1] ~= fence or known[2] ~= 'live' then return {0, 0} end
    local others = redis.call('EXISTS', listen)
    if record ~= '' then
        local last = top(stream)
        if last + 1 < tonumber(place) then
            redis.call('DEL', state, lease)
            return {0, others}
        end
        -- Else it was written when its answer did not come.
        if last + 1 == tonumber(place) then redis.call('XADD', stream, place .. '-0', 'r', record) end
    end
    redis.call('PEXPIRE', stream, keep_ms)
    redis.call('PEXPIRE', state, keep_ms)
    if after == 'ended' then
        redis.call('HSET', state, 'state', 'ended')
        let_go(pointer, lease, number, glow)
    elseif after == 'left' then
        let_go(pointer, lease, number, 0)
    elseif after == 'leave' and others == 0 then
        redis.call('HSET', state, 'state', 'given up')
        let_go(pointer, lease, number, 0)
        return {2, 0}
    else
        renew(pointer, lease, number, fence)
    end
    return {1, others}
end

local answers = {}
for i = 0, #KEYS / 5 - 1 do
    local k, a = i * 5, i * 6 + 2
    answers[i + 1] = write(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5],
        ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5], ARGV[a + 6])
end
return answers
""")

TAKE_OVER = Script("""
-- keys: pointer, state, lease; arguments: number of the flight, lease, keep (milliseconds)
-- Answers the new fence; 0: somebody leads; -1: there is nothing to lead any more.
if redis.call('HGET', KEYS[2], 'state') ~= 'live' then return -1 end
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local fence = redis.call('HINCRBY', KEYS[2], 'fence', 1)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[3], fence, 'PX', ARGV[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')
return fence
""")

WATCH = Script("""
-- For each flight, keys: listen, state, lease; argument: listen (milliseconds)
-- Answers: gone, led, unled, ended, given up.
local answers = {}
for i = 0, #KEYS / 3 - 1 do
    local state = redis.call('HGET', KEYS[i * 3 + 2], 'state')
    if state == 'live' then
        redis.call('SET', KEYS[i * 3 + 1], 1, 'PX', ARGV[1])
        state = redis.call('EXISTS', KEYS[i * 3 + 3]) == 1 and 'led' or 'unled'
    end
    answers[i + 1] = state or 'gone'
end
return answers
""")
