"""The counters of limits in Redis, for several processes and gateways.

One script checks and counts all limits of a request in one step, by the clock of Redis. All keys share a hash tag, so
that they are on one node of a cluster. The number in the tag is the version of what the keys hold.

    parley:{limits-1}:<owner>:requests_per_minute   hash: `i` the minute, `c` and `p` what it and the one before hold
    parley:{limits-1}:<owner>:tokens_per_minute     the same
    parley:{limits-1}:<owner>:spend_per_day         hash: `i` the day, `c` the sum; per_month the same
    parley:{limits-1}:<owner>:concurrent_streams    sorted set: the leases of replies in progress by their expiry

A reply in progress is a lease that its gateway renews, so that those of a killed gateway expire. If Redis was gone for
longer than a lease lasts, it is counted again from the next renewal on.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

from app.limits.stores import StoreUnavailable, Taken
from app.limits.values import Kind, Rule
from app.limits.windows import Count, period
from app.redis.connection import RedisConnection, RedisRejected, RedisUnavailable, Script

PREFIX = "parley:{limits-1}:"
LEASE_SECONDS = 30.0
LEASES_AT_ONCE = 1000
RELEASE_SECONDS = 1.0
"""How long after a request without an answer its lease is removed: by then Redis has it, or is down."""
_Row: TypeAlias = tuple[str, str]
"""A key of replies in progress, and a lease in it."""
_CODES: dict[Kind, str] = {
    "requests_per_minute": "w",
    "tokens_per_minute": "t",
    "concurrent_streams": "l",
    "spend_per_day": "s",
    "spend_per_month": "s",
}

_COMMON = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local minute = math.floor(now_ms / 60000)
local elapsed = (now_ms % 60000) / 60000

local function read_window(key)
    local stored = redis.call('HMGET', key, 'i', 'c', 'p')
    local i, c, p = tonumber(stored[1] or 0), tonumber(stored[2] or 0), tonumber(stored[3] or 0)
    if i == minute then return c, p end
    return 0, i == minute - 1 and c or 0
end

local function write_window(key, c, p)
    redis.call('HSET', key, 'i', minute, 'c', c, 'p', p)
    redis.call('PEXPIRE', key, 130000)
end
"""

TAKE = Script(
    _COMMON
    + """
-- keys: one for each rule; arguments: lease, its duration (milliseconds), then for each rule: kind (w, t: window,
-- l: leases, s: spending), limit, amount, number of the day or month
-- Returns whether the request is admitted, the time (milliseconds), then for each rule: current, previous.
local admitted, answer = 1, {0, now_ms}
local counts = {}
for n, key in ipairs(KEYS) do
    local a = 2 + (n - 1) * 4
    local kind, limit, amount = ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    local c, p = 0, 0
    if kind == 'l' then
        redis.call('ZREMRANGEBYSCORE', key, '-inf', now_ms)
        c = redis.call('ZCARD', key)
        if c + amount > limit then admitted = 0 end
    elseif kind == 's' then
        local stored = redis.call('HMGET', key, 'i', 'c')
        if stored[1] == ARGV[a + 4] then c = tonumber(stored[2]) end
        if c >= limit then admitted = 0 end
    else
        c, p = read_window(key)
        if p * (1 - elapsed) + c + amount > limit then admitted = 0 end
    end
    counts[n] = {c, p}
end
answer[1] = admitted
for n, key in ipairs(KEYS) do
    local a = 2 + (n - 1) * 4
    local kind, amount = ARGV[a + 1], tonumber(ARGV[a + 3])
    local c, p = counts[n][1], counts[n][2]
    if admitted == 1 and amount > 0 then
        c = c + amount
        if kind == 'l' then
            redis.call('ZADD', key, now_ms + ARGV[2], ARGV[1])
            redis.call('PEXPIRE', key, ARGV[2] * 2)
        else
            write_window(key, c, p)
        end
    end
    answer[#answer + 1] = c
    answer[#answer + 1] = p
end
return answer
"""
)

GIVE_BACK = Script(
    _COMMON
    + """
-- keys: one for each rule; arguments: lease, minute in which tokens were taken, tokens, cost, then for each rule: kind,
-- number of the day or month
local taken_in, tokens = tonumber(ARGV[2]), tonumber(ARGV[3])
for n, key in ipairs(KEYS) do
    local kind, number = ARGV[3 + n * 2], ARGV[4 + n * 2]
    if kind == 'l' then
        redis.call('ZREM', key, ARGV[1])
    elseif kind == 's' and ARGV[4] ~= '0' then
        if redis.call('HGET', key, 'i') ~= number then redis.call('HSET', key, 'i', number, 'c', 0) end
        redis.call('HINCRBY', key, 'c', ARGV[4])
        redis.call('PEXPIRE', key, 32 * 86400000)
    elseif kind == 't' and tokens ~= 0 then
        local c, p = read_window(key)
        if tokens > 0 then
            c = c + tokens
        elseif taken_in == minute then
            c = math.max(0, c + tokens)
        elseif taken_in == minute - 1 then
            p = math.max(0, p + tokens)
        end
        write_window(key, c, p)
    end
end
return 1
"""
)

RELEASE = Script(
    """
-- keys: one for each lease; arguments: leases
for n, key in ipairs(KEYS) do redis.call('ZREM', key, ARGV[n]) end
return 1
"""
)

RENEW = Script(
    """
-- keys: one for each lease; arguments: duration (milliseconds), leases
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
for n, key in ipairs(KEYS) do
    redis.call('ZADD', key, now_ms + ARGV[1], ARGV[n + 1])
    redis.call('PEXPIRE', key, ARGV[1] * 2)
end
return 1
"""
)


class RedisLimitStore:
    """It belongs to one event loop."""

    def __init__(self, redis: RedisConnection, lease_seconds: float = LEASE_SECONDS) -> None:
        self._redis = redis
        self._lease_seconds = lease_seconds
        self._leases: dict[_Row, None] = {}
        """The leases of the replies in progress."""
        self._unanswered: dict[_Row, None] = {}
        """The leases of replies for which Redis did not answer in time."""
        self._renewing: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, rules: Sequence[Rule], tokens: int, lease: str) -> Taken:
        """Count a request of so many tokens if it is within all its limits, else count nothing. `lease` identifies it
        among the replies in progress. Raises StoreUnavailable."""
        rows = [(PREFIX + rule.counter, lease) for rule in rules if rule.kind == "concurrent_streams"]
        was_down = self._redis.is_open
        try:
            taken = await self._take(rules, [rule.amount_of(tokens) for rule in rules], lease)
        except (StoreUnavailable, asyncio.CancelledError):
            if not was_down:
                self._release_later(rows)
            raise
        if taken.admitted:
            self._hold(rows)
        return taken

    async def read(self, rules: Sequence[Rule]) -> Taken:
        """Return what is counted for each rule, and count nothing. Raises StoreUnavailable."""
        return await self._take(rules, [0] * len(rules), "")

    async def _take(self, rules: Sequence[Rule], amounts: Sequence[int], lease: str) -> Taken:
        keys = [PREFIX + rule.counter for rule in rules]
        arguments: list[str | bytes | int] = [lease, self._lease_ms]
        for rule, amount in zip(rules, amounts, strict=True):
            arguments += (_CODES[rule.kind], rule.limit, amount, _period_now(rule))
        try:
            answer = await self._redis.call(lambda redis: TAKE.run(redis, keys, arguments))
        except RedisUnavailable as error:
            raise StoreUnavailable(str(error)) from error
        admitted, now_ms, *numbers = map(int, answer)
        counts = [
            (rule, Count(current, previous))
            for rule, current, previous in zip(rules, numbers[::2], numbers[1::2], strict=True)
        ]
        return Taken(bool(admitted), counts, now_ms // 60_000, now_ms / 1000)

    @property
    def _lease_ms(self) -> int:
        return round(self._lease_seconds * 1000)

    def _hold(self, rows: Sequence[_Row]) -> None:
        self._leases.update(dict.fromkeys(rows))
        if rows and self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        """Renew the leases until there are none."""
        while self._leases:
            await asyncio.sleep(self._lease_seconds / 3)
            for rows in _divide(list(self._leases)):
                held = [row for row in rows if row in self._leases]
                with contextlib.suppress(RedisUnavailable):
                    await self._run(RENEW, held, self._lease_ms)
                    # Of replies that ended meanwhile, Redis may have got the end before the renewal.
                    await self._run(RELEASE, [row for row in held if row not in self._leases])
        self._renewing = None

    def _release_later(self, rows: Sequence[_Row]) -> None:
        """Remove leases that Redis may have got although it did not answer in time."""
        self._unanswered.update(dict.fromkeys(rows))
        if rows and self._releasing is None:
            self._releasing = asyncio.get_running_loop().create_task(self._release())

    async def _release(self) -> None:
        while self._unanswered:
            waiting = list(self._unanswered)
            await asyncio.sleep(RELEASE_SECONDS)
            for rows in _divide(waiting):
                try:
                    await self._run(RELEASE, rows)
                except RedisRejected:
                    pass  # then it has rejected the leases too
                except RedisUnavailable:
                    continue
                for row in rows:
                    del self._unanswered[row]
        self._releasing = None

    async def _run(self, script: Script, rows: Sequence[_Row], *arguments: int) -> None:
        """Run a script of leases. Raises RedisUnavailable."""
        if rows:
            keys, leases = zip(*rows, strict=True)
            await self._redis.call(partial(script.run, keys=keys, arguments=[*arguments, *leases]))

    def give_back(self, rules: Sequence[Rule], lease: str, minute: int, tokens: int, cost: int) -> None:
        """Correct the counts at the end of a request: see `MemoryLimitStore`. Redis gets it a moment later."""
        rules = [rule for rule in rules if rule.kind != "requests_per_minute"]
        keys = [PREFIX + rule.counter for rule in rules]
        for key in keys:
            self._leases.pop((key, lease), None)
        if not rules:
            return
        arguments: list[str | bytes | int] = [lease, minute, tokens, cost]
        for rule in rules:
            arguments += (_CODES[rule.kind], _period_now(rule))
        task = asyncio.get_running_loop().create_task(self._give_back(keys, arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_back(self, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> None:
        """Leases that cannot be removed expire; other corrections are lost while Redis is down."""
        with contextlib.suppress(RedisUnavailable):
            await self._redis.call(lambda redis: GIVE_BACK.run(redis, keys, arguments))

    async def aclose(self) -> None:
        """Wait for the corrections that are on their way. The connection stays open."""
        if self._tasks:
            await asyncio.gather(*self._tasks)
        for task in (self._renewing, self._releasing):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


def _divide(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    return (rows[start : start + LEASES_AT_ONCE] for start in range(0, len(rows), LEASES_AT_ONCE))


def _period_now(rule: Rule) -> int:
    return period(rule.kind, time.time()) if rule.is_spending else 0
