"""Redis is down, full or slow, and gateways are killed: each reply is complete, or says that it is not."""

import asyncio
import contextlib
import random
import time
from functools import partial

import pytest
from app.calls.call import LOST
from app.calls.shared.call_store import CallKeys, CallStore, WriteRequest
from app.calls.shared.follower import Follower
from app.calls.shared.lease import MAX_WAITING_BYTES
from app.calls.shared.records import Record
from app.chat.events import Event, Failed, TextDelta
from app.errors import StoreDown
from app.redis.connection import RedisConnection

import redis
from tests.calls.shared.coordinators import (
    QUICK,
    REPLY,
    Model,
    ReplyReader,
    SharingGateway,
    gateway,
    is_lost,
    listen,
    play,
    sleep,
    until,
)
from tests.calls.shared.publishing_process import long_reply
from tests.calls.shared.reply_strategies import DONE, flat
from tests.fork_server import forked
from tests.redis_server import RedisServer

WHOLE = flat(REPLY)
SEEDS = 50
ADDED_SECONDS = 1.0


def test_a_leader_that_dies_at_any_moment_leaves_its_followers_a_whole_reply_or_a_failure(
    shared_redis: RedisServer,
) -> None:
    async def one_death(seed: int, follower: SharingGateway) -> None:
        pick = random.Random(seed)
        batches = long_reply(seed)
        model, other = Model(batches), Model(batches, own=True)
        async with gateway(shared_redis.url, QUICK) as leader:
            reader = listen((await leader.claim_or_follow(f"q{seed}", model.lead))[0])
            model.calls[0].push(pick.randint(0, 20))
            if pick.random() < 0.5:
                await asyncio.sleep(pick.random() / 20)
            reply, _, _ = await follower.claim_or_follow(f"q{seed}", other.lead)
            late = listen(reply)
            model.calls[0].push(pick.randint(0, 20))
            await asyncio.sleep(pick.random() / 20)
            if pick.random() < 0.8:
                sleep(leader)
        received = await late.end()
        assert received == flat(batches) or is_lost(received, flat(batches))
        model.calls[0].push()
        assert await reader.end() == flat(batches)
        reply.close()

    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as follower:
            await asyncio.gather(*(one_death(seed, follower) for seed in range(SEEDS)))

    play(scene())


@pytest.mark.parametrize("seed", range(3))
def test_the_followers_of_a_killed_process_get_a_failure(shared_redis: RedisServer, seed: int) -> None:
    """Each of its flights is at a moment of its own."""

    async def followed(follower: SharingGateway, at: int) -> tuple[ReplyReader, Model]:
        model = Model(long_reply(at), own=True)
        return listen((await follower.claim_or_follow(f"q{at}", model.lead))[0]), model

    async def scene() -> None:
        command = [*forked("tests.calls.shared.publishing_process"), shared_redis.url, str(SEEDS)]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout
        try:
            for _ in range(SEEDS):
                await process.stdout.readline()
            async with gateway(shared_redis.url, QUICK) as follower:
                callers = await asyncio.gather(*(followed(follower, at) for at in range(SEEDS)))
                await callers[0][0].reach(random.Random(seed).randint(1, 30))
                process.kill()
                lost = 0
                for at, (reader, model) in enumerate(callers):
                    received, whole = await reader.end(), flat(long_reply(at))
                    assert received == whole or is_lost(received, whole)
                    assert not model.calls
                    lost += received != whole
                assert lost > SEEDS / 2
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    play(scene())


@pytest.mark.parametrize("how", ["pause", "kill"])
def test_an_outage_of_redis_during_a_call_fails_only_the_replies_of_followers(own_redis: RedisServer, how: str) -> None:
    async def scene() -> None:
        async with (
            gateway(own_redis.url, QUICK, RedisConnection) as one,
            gateway(own_redis.url, QUICK, RedisConnection) as two,
        ):
            model, other = Model(), Model(own=True)
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            late = listen((await two.claim_or_follow("q", other.lead))[0])
            model.calls[0].push(2)
            await late.reach(len(flat(REPLY[:2])))
            own_redis.pause() if how == "pause" else own_redis.kill()
            began = time.monotonic()
            model.calls[0].push()
            assert reader.over and time.monotonic() - began < ADDED_SECONDS
            assert reader.batches == REPLY
            assert is_lost(await late.end(), WHOLE)
            assert not other.calls
            if how == "pause":
                own_redis.go_on()

    play(scene())


@pytest.mark.parametrize("how", ["pause", "kill"])
def test_with_redis_down_every_gateway_makes_its_own_call_at_once(own_redis: RedisServer, how: str) -> None:
    async def scene() -> None:
        async with gateway(own_redis.url, QUICK, RedisConnection) as one:
            await one.coordinator.put_record("warm", b"", 1)
            own_redis.pause() if how == "pause" else own_redis.kill()
            model = Model(own=True)
            for _ in range(5):
                began = time.monotonic()
                reply, led, id = await one.claim_or_follow("q", model.lead)
                assert time.monotonic() - began < ADDED_SECONDS
                assert led and not id
                assert await listen(reply).end() == WHOLE
            for operation in (
                one.coordinator.get_record("warm"),
                one.coordinator.is_running("q.1"),
                one.follow("q.1"),
            ):
                with pytest.raises(StoreDown, match="try again later"):  # an outage is no absence
                    await operation
            if how == "pause":
                own_redis.go_on()

    play(scene())


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_claim_whose_answer_came_too_late_delays_no_equal_request(
    own_redis: RedisServer, how: str, resumable: bool
) -> None:
    """Without a release the second gateway would follow the first for as long as the claim lasts."""

    async def scene() -> None:
        async with (
            gateway(own_redis.url, 30, RedisConnection) as one,
            gateway(own_redis.url, 30, RedisConnection) as two,
        ):
            await one.coordinator.put_record("warm", b"", 1)
            own_redis.pause()
            call = one.add_call("q", Model(own=True).lead)
            if resumable:
                call.keep_for_resume()
            if how == "timeout":
                assert await listen(await call.open()).end() == WHOLE
            else:
                for _ in range(20):
                    await asyncio.sleep(0)
                call.abort()
            own_redis.go_on()
            with own_redis.client() as client:
                await until(lambda: client.exists(CallKeys("q", "").pointer) or client.keys("*:q:*"))
            model = Model(own=True)
            async with asyncio.timeout(10):
                reply, _, _ = await two.claim_or_follow("q", model.lead)
                assert await listen(reply).end() == WHOLE
            assert len(model.calls) == 1

    play(scene())


def test_a_short_absence_of_redis_loses_nothing(own_redis: RedisServer) -> None:
    async def scene() -> None:
        async with (
            gateway(own_redis.url, 10, RedisConnection) as one,
            gateway(own_redis.url, 10, RedisConnection) as two,
        ):
            model, other = Model(), Model()
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            late = listen((await two.claim_or_follow("q", other.lead))[0])
            model.calls[0].push(2)
            # A caller that received nothing yet does not wait for a Redis that is down, but asks the model server.
            await until(lambda: any(late.batches))
            own_redis.pause()
            await until(lambda: one.link.is_open)
            model.calls[0].push()
            assert reader.batches == REPLY
            own_redis.go_on()
            assert await late.end() == WHOLE
            assert not other.calls

    play(scene())


@pytest.mark.parametrize("gone", ["everything", "the stream", "the state"])
def test_followers_get_a_failure_when_redis_loses_a_call(shared_redis: RedisServer, gone: str) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as one, gateway(shared_redis.url, QUICK) as two:
            model, other = Model(), Model(own=True)
            reply, _, id = await one.claim_or_follow("q", model.lead)
            reader, late = listen(reply), listen((await two.claim_or_follow("q", other.lead))[0])
            model.calls[0].push(2)
            await late.reach(len(flat(REPLY[:2])))
            names = CallKeys.from_id(id)
            with shared_redis.client() as client:
                if gone == "everything":
                    client.flushall()
                else:
                    client.delete(names.stream if gone == "the stream" else names.state)
            model.calls[0].push()
            assert reader.batches == REPLY
            assert is_lost(await late.end(), WHOLE)
            assert not other.calls

    play(scene())


def _has_more_than(count: int, client: redis.Redis, stream: str) -> bool:
    return int(client.xlen(stream)) > count


def test_a_call_whose_beginning_is_lost_is_not_joined(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model, other = Model(), Model(own=True)
            reply, _, id = await one.claim_or_follow("q", model.lead)
            listen(reply)
            for at in range(1, 4):
                model.calls[0].push(1)
                with shared_redis.client() as client:
                    await until(partial(_has_more_than, at, client, CallKeys.from_id(id).stream))
            with shared_redis.client() as client:
                client.xdel(CallKeys.from_id(id).stream, "2-0")
            late = listen((await two.claim_or_follow("q", other.lead))[0])
            assert await late.end() == WHOLE
            assert len(other.calls) == 1

    play(scene())


def test_a_late_answer_of_redis_repeats_no_event(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model, other = Model(), Model()
            asked = asyncio.Event()
            history = two.coordinator._calls.read_history

            async def late_once(keys: CallKeys, after: int) -> list[tuple[int, Record | None]]:
                two.coordinator._calls.read_history = history  # type: ignore[method-assign]
                await asked.wait()
                return await history(keys, after)

            two.coordinator._calls.read_history = late_once  # type: ignore[method-assign]
            await one.claim_or_follow("q", model.lead)
            joining = asyncio.create_task(two.claim_or_follow("q", other.lead))
            await until(lambda: len(two.tailer))
            (follower,) = two.tailer.followers
            model.calls[0].push(3)
            await until(lambda: follower.last_record > 1)
            asked.set()
            reader = listen((await joining)[0])
            model.calls[0].push()
            assert await reader.end() == WHOLE
            assert not other.calls

    play(scene())


def test_a_follower_that_paused_reads_the_rest_after_the_end(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model, other = Model(), Model(own=True)
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            slow, _, _ = await two.claim_or_follow("q", other.lead)
            (follower,) = two.tailer.followers
            assert isinstance(follower, Follower)
            late = listen(slow)
            slow.pause()
            model.calls[0].push()
            await reader.end()
            await until(lambda: not len(one.writer))
            slow.resume()
            follower.on_state("leaderless")
            assert await late.end() == WHOLE
            assert not other.calls

    play(scene())


def test_a_model_much_faster_than_redis_is_not_shared_to_its_end(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as one, gateway(shared_redis.url, QUICK) as two:
            text = "x" * (MAX_WAITING_BYTES // 4)
            word: list[Event] = [TextDelta(text)]
            batches: list[list[Event]] = [*[word] * 5, [DONE]]
            model, other = Model(batches), Model(batches, own=True)
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            late = listen((await two.claim_or_follow("q", other.lead))[0])
            # All at once: nothing can be written in between.
            model.calls[0].push()
            assert reader.batches == batches
            assert sum(len(event.text) for event in reader.events if isinstance(event, TextDelta)) > MAX_WAITING_BYTES
            async with asyncio.timeout(20):
                while not late.over:
                    await late.more()
            assert late.events[-1] == Failed(LOST) and not other.calls

    play(scene())


def test_a_record_whose_answer_was_lost_is_written_once(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        link = RedisConnection(shared_redis.url)
        ledger = CallStore(link)
        names = CallKeys.new("q")
        assert await ledger.claim(names) is None
        for place, record in ((1, b"a"), (1, b"a"), (2, b"b"), (2, b"b"), (1, b"a")):
            (answer,) = await ledger.write([WriteRequest(names, place, record)])
            assert answer.code == 1
        (gap,) = await ledger.write([WriteRequest(names, 4, b"d")])
        assert gap.code == 0
        with shared_redis.client() as client:
            assert [fields[b"r"] for _, fields in client.xrange(names.stream)] == [b"a", b"b"]
        await link.aclose()

    play(scene())


def test_a_call_has_one_leader(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        link = RedisConnection(shared_redis.url)
        ledger = CallStore(link)
        names, other = CallKeys.new("q"), CallKeys.new("p")
        assert await ledger.claim(names) is None
        assert await ledger.claim(CallKeys.new("q")) == names.number
        assert await ledger.watch([names]) == ["led"]
        await ledger.write([WriteRequest(names, 1, b"a", "release")])
        assert await ledger.watch([names]) == ["leaderless"]
        assert await ledger.claim(CallKeys.new("q")) is None
        assert await ledger.claim(other) is None
        with shared_redis.client() as client:
            client.hincrby(other.state, "fence", 1)  # as a gateway of version 0.1 that takes the call over
        refused, _ = await ledger.write([WriteRequest(other, 1, b"old"), WriteRequest(names, 2, b"end", "end", 1000)])
        assert refused.code == 0
        assert await ledger.watch([names, CallKeys.new("q")]) == ["ended", "missing"]
        with shared_redis.client() as client:
            assert [fields[b"r"] for _, fields in client.xrange(names.stream)] == [b"a", b"end"]
            assert all(client.pttl(key) > 0 for key in client.keys("parley:*"))
        await link.aclose()

    play(scene())


def test_a_hundred_calls_use_few_connections_and_leave_none(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        with shared_redis.client() as client:
            before = len(client.client_list())
            async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
                models = [Model() for _ in range(100)]
                led = await asyncio.gather(
                    *(one.claim_or_follow(f"q{at}", model.lead) for at, model in enumerate(models))
                )
                reader = [listen(reply) for reply, _, _ in led]
                joined = await asyncio.gather(
                    *(two.claim_or_follow(f"q{at}", model.lead) for at, model in enumerate(models))
                )
                late: list[ReplyReader] = [listen(reply) for reply, _, _ in joined]
                for model in models:
                    model.calls[0].push()
                assert all([await each.end() == WHOLE for each in reader + late])
                assert [len(model.calls) for model in models] == [1] * 100
                assert len(client.client_list()) - before < 30
                assert not len(two.tailer)
            await until(lambda: len(client.client_list()) == before)

    play(scene())
