"""Two gateways on one Redis: one call and equal replies, whichever client disconnects and whichever gateway stops."""

import asyncio

import pytest
from app.calls.call import LOST, LOST_WITH_TOOLS
from app.chat.events import Failed, Fault, TextDelta, TurnEnd
from app.errors import UpstreamFailed

from tests.calls.shared.coordinators import (
    QUICK,
    REPLY,
    Model,
    ReplyReader,
    gateway,
    is_lost,
    listen,
    play,
    sleep,
    until,
    wake,
)
from tests.calls.shared.reply_strategies import flat
from tests.redis_server import RedisServer, clustered, running_redis

WHOLE = flat(REPLY)


def test_identical_requests_at_two_gateways_are_one_call(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            first, led, id = await one.claim_or_follow("q", model.lead)
            reader = listen(first)
            model.calls[0].push(2)
            second, led_too, same = await two.claim_or_follow("q", model.lead)
            late = listen(second)
            model.calls[0].push()
            assert await late.end() == await reader.end() == WHOLE
            assert reader.batches == REPLY and [one for one in late.batches if one] == [one for one in REPLY if one]
            assert (led, led_too) == (True, False) and id == same and len(model.calls) == 1
            first.close()
            second.close()

    play(scene())


def test_a_follower_gets_what_came_before_at_once_and_goes_on_live(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            listen((await one.claim_or_follow("q", model.lead))[0])
            model.calls[0].push(2)
            late = listen((await two.claim_or_follow("q", model.lead))[0])
            await late.reach(len(flat(REPLY[:2])))
            assert not late.over
            model.calls[0].push(2)
            await late.reach(len(flat(REPLY[:4])))
            model.calls[0].push()
            assert await late.end() == WHOLE

    play(scene())


def test_a_request_right_after_a_normal_end_needs_no_call(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model(own=True)
            await listen((await one.claim_or_follow("q", model.lead))[0]).end()
            await until(lambda: not len(one.writer))
            late, led, _ = await two.claim_or_follow("q", model.lead)
            assert await listen(late).end() == WHOLE
            assert not led and len(model.calls) == 1

    play(scene())


def test_a_later_request_does_not_join_a_failed_reply(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            fault = Fault("overloaded", "later", True)
            model = Model([[TextDelta("a")], [Failed(fault)]])
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            together = listen((await two.claim_or_follow("q", model.lead))[0])
            model.calls[0].push()
            assert await together.end() == await reader.end() == [TextDelta("a"), Failed(fault)]
            await until(lambda: not len(one.writer))
            _, led, _ = await two.claim_or_follow("q", model.lead)
            assert led

    play(scene())


def test_followers_get_the_reason_why_their_leader_was_refused(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model, other = Model(), Model()
            model.answers.clear()
            model.refusal = UpstreamFailed(Fault("invalid_request", "no such option", False, 400))
            leading = asyncio.create_task(one.claim_or_follow("q", model.lead))
            await model.asked.wait()
            following = asyncio.create_task(two.claim_or_follow("q", other.lead))
            await until(lambda: len(two.tailer))
            model.answers.set()
            with pytest.raises(UpstreamFailed) as led:
                await leading
            with pytest.raises(UpstreamFailed) as followed:
                await following
            assert followed.value.fault == led.value.fault == model.refusal.fault
            assert not other.asked.is_set()

    play(scene())


def test_followers_learn_that_a_fallback_answers(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            model.fallback_model = "other"
            await one.claim_or_follow("q", model.lead)
            await two.claim_or_follow("q", model.lead)
            assert [call.log.fallback_model for call in (*one.calls, *two.calls)] == ["other", "other"]
            assert len(model.calls) == 1
            model.calls[0].push()

    play(scene())


def test_a_caller_who_disconnects_does_not_affect_callers_of_other_gateways(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as one, gateway(shared_redis.url, QUICK) as two:
            model = Model()
            first, _, _ = await one.claim_or_follow("q", model.lead)
            listen(first)
            late = listen((await two.claim_or_follow("q", model.lead))[0])
            first.close()
            # Its gateway goes on asking whether a client reads, and the reply keeps its own timeouts.
            await until(lambda: model.calls[0].ticks > 1)
            model.calls[0].push()
            assert await late.end() == WHOLE
            assert len(model.calls) == 1

    play(scene())


def test_a_call_without_readers_is_aborted(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as one, gateway(shared_redis.url, QUICK) as two:
            model = Model()
            first, _, _ = await one.claim_or_follow("q", model.lead)
            listen(first)
            second, _, _ = await two.claim_or_follow("q", model.lead)
            listen(second)
            first.close()
            second.close()
            await model.calls[0].closed.wait()
            _, led, _ = await two.claim_or_follow("q", model.lead)
            assert led and len(model.calls) == 2

    play(scene())


def test_a_call_goes_on_for_others_when_its_caller_leaves_before_it_began(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model, other = Model(own=True), Model()
            model.answers.clear()
            leading = asyncio.create_task(one.claim_or_follow("q", model.lead))
            await model.asked.wait()
            following = asyncio.create_task(two.claim_or_follow("q", other.lead))
            await until(lambda: len(two.tailer))
            leading.cancel()
            await asyncio.wait([leading])
            model.answers.set()
            reply, led, _ = await following
            assert await listen(reply).end() == WHOLE
            assert not led and not other.calls and len(model.calls) == 1

    play(scene())


def test_a_call_that_did_not_begin_is_aborted_with_its_only_caller(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one:
            model = Model()
            model.answers.clear()
            leading = asyncio.create_task(one.claim_or_follow("q", model.lead))
            await model.asked.wait()
            leading.cancel()
            await asyncio.wait([leading])
            await until(lambda: one.calls[0].ended and not len(one.writer))
            assert not model.calls

    play(scene())


def test_the_followers_of_a_gateway_that_shuts_down_fail_at_once(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, lease_seconds=30) as two:
            model, other = Model(), Model(own=True)
            async with gateway(shared_redis.url, lease_seconds=30) as one:
                listen((await one.claim_or_follow("q", model.lead))[0])
                late = listen((await two.claim_or_follow("q", other.lead))[0])
                model.calls[0].push(3)
                await late.reach(len(flat(REPLY[:3])))
            assert await late.end() == [*flat(REPLY[:3]), Failed(LOST)]
            assert not other.calls

    play(scene())


def test_a_reply_that_is_lost_after_it_ran_tools_must_not_be_asked_for_again(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, lease_seconds=30) as two:
            model, other = Model(), Model(own=True)
            async with gateway(shared_redis.url, lease_seconds=30) as one:
                listen((await one.claim_or_follow("q", model.lead))[0])
                late = listen((await two.claim_or_follow("q", other.lead))[0])
                model.calls[0].left.insert(0, [TurnEnd("tool_calls")])
                model.calls[0].push(1)
                await late.reach(1)
            assert await late.end() == [TurnEnd("tool_calls"), Failed(LOST_WITH_TOOLS)]

    play(scene())


def test_all_followers_of_a_dead_leader_get_a_failure(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with (
            gateway(shared_redis.url, QUICK) as one,
            gateway(shared_redis.url, QUICK) as two,
            gateway(shared_redis.url, QUICK) as six,
        ):
            model, other = Model(), Model(own=True)
            listen((await one.claim_or_follow("q", model.lead))[0])
            reader = [
                listen((await two.claim_or_follow("q", other.lead))[0]),
                listen((await six.claim_or_follow("q", other.lead))[0]),
            ]
            model.calls[0].push(4)
            await reader[0].reach(len(flat(REPLY[:4])))
            sleep(one)
            assert [await each.end() for each in reader] == [[*flat(REPLY[:4]), Failed(LOST)]] * 2
            assert not other.calls

    play(scene())


def test_followers_share_a_new_call_if_the_leader_dies_before_the_reply_has_begun(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with (
            gateway(shared_redis.url, QUICK) as one,
            gateway(shared_redis.url, QUICK) as two,
            gateway(shared_redis.url, QUICK) as six,
        ):
            model, other = Model(), Model(own=True)
            model.answers.clear()
            leading = asyncio.create_task(one.claim_or_follow("q", model.lead))
            await model.asked.wait()
            following = [asyncio.create_task(each.claim_or_follow("q", other.lead)) for each in (two, six)]
            await until(lambda: len(two.tailer) and len(six.tailer))
            sleep(one)
            opened = [await each for each in following]
            assert [await listen(reply).end() for reply, _, _ in opened] == [WHOLE, WHOLE]
            assert sorted(led for _, led, _ in opened) == [False, True] and len(other.calls) == 1
            leading.cancel()
            await asyncio.wait([leading])

    play(scene())


@pytest.mark.parametrize("seconds", [1.3 * QUICK, 3 * QUICK])
def test_followers_wait_for_a_leader_that_pauses_as_long_as_its_lease(
    shared_redis: RedisServer, seconds: float
) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as one, gateway(shared_redis.url, QUICK) as two:
            model, other = Model(), Model()
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            late = listen((await two.claim_or_follow("q", other.lead))[0])
            model.calls[0].push(2)
            await late.reach(len(flat(REPLY[:2])))
            sleep(one)
            await asyncio.sleep(seconds)
            wake(one)
            model.calls[0].push()
            await until(lambda: not len(one.writer))
            assert await reader.end() == WHOLE
            assert await late.end() == (WHOLE if seconds < 2 * QUICK else [*flat(REPLY[:2]), Failed(LOST)])
            assert not other.asked.is_set()

    play(scene())


def test_a_reply_is_resumed_at_another_gateway(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            reply, _, id = await one.claim_private(model.lead)
            listen(reply)
            model.calls[0].push(3)
            resumed = await two.follow(id)
            assert resumed
            late = listen(resumed)
            reply.close()
            await late.reach(len(flat(REPLY[:3])))
            model.calls[0].push()
            assert await late.end() == WHOLE
            again = await two.follow(id)
            assert again and await listen(again).end() == WHOLE
            assert await two.follow("q.0123") is None and await two.follow("") is None

    play(scene())


def test_a_resumed_reply_fails_if_its_leader_dies(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as one, gateway(shared_redis.url, QUICK) as two:
            model = Model()
            reply, _, id = await one.claim_private(model.lead)
            listen(reply)
            resumed = await two.follow(id)
            assert resumed
            late = listen(resumed)
            sleep(one)
            assert await late.end() == [Failed(LOST)]

    play(scene())


def test_a_slow_client_pauses_the_server_only_while_no_gateway_follows(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url, QUICK) as one, gateway(shared_redis.url, QUICK) as two:
            model = Model()
            reply, _, _ = await one.claim_or_follow("q", model.lead)
            listen(reply)
            reply.pause()
            paused = [model.calls[0].paused]
            model.calls[0].changed.clear()
            late = listen((await two.claim_or_follow("q", model.lead))[0])
            await model.calls[0].changed.wait()
            paused.append(model.calls[0].paused)
            assert paused == [True, False]
            model.calls[0].push()
            assert await late.end() == WHOLE

    play(scene())


def test_a_follower_that_pauses_reads_on_later(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            reply, _, _ = await two.claim_or_follow("q", model.lead)
            late = ReplyReader()
            reply.pause()
            reply.start(late)
            model.calls[0].push()
            assert await reader.end() == WHOLE
            assert not late.batches
            reply.resume()
            assert await late.end() == WHOLE

    play(scene())


def test_a_defect_of_the_leaders_is_a_fault_for_its_followers(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            model = Model()
            reader = listen((await one.claim_or_follow("q", model.lead))[0])
            late = listen((await two.claim_or_follow("q", model.lead))[0])
            model.calls[0].crash(ZeroDivisionError())
            (last,) = await late.end()
            assert isinstance(last, Failed) and isinstance(reader.error, ZeroDivisionError)

    play(scene())


def test_notes_are_read_at_every_gateway_until_they_expire(shared_redis: RedisServer) -> None:
    async def scene() -> None:
        async with gateway(shared_redis.url) as one, gateway(shared_redis.url) as two:
            await one.coordinator.put_record("chat-1", b"\x00\xff", 60)
            assert await two.coordinator.get_record("chat-1") == b"\x00\xff"
            assert await two.coordinator.get_record("chat-2") is None
            with shared_redis.client() as client:
                assert 0 < client.pttl("parley:note:chat-1") <= 60000

    play(scene())


def test_gateways_share_a_cluster_as_they_share_a_server() -> None:
    async def scene(url: str) -> None:
        async with gateway(url) as two:
            model, other = Model(), Model(own=True)
            async with gateway(url) as one:
                reader = listen((await one.claim_or_follow("q", model.lead))[0])
                late = listen((await two.claim_or_follow("q", other.lead))[0])
                more, led, _ = await two.claim_or_follow("another", model.lead)
                listen(more)
                assert led
                model.calls[0].push(3)
                await late.reach(len(flat(REPLY[:3])))
            model.calls[0].push()
            assert is_lost(await late.end(), WHOLE)
            assert await reader.end() == WHOLE
            assert not other.calls
            await two.coordinator.put_record("chat-1", b"x", 60)
            assert await two.coordinator.get_record("chat-1") == b"x"

    with running_redis("--cluster-enabled", "yes") as server:
        clustered(server)
        play(scene(server.url.replace("redis:", "redis+cluster:").removesuffix("/0")))
