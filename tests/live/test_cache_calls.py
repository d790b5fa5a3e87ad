"""Who shares a call and a reply with whom, and how each of them fares, seen from outside."""

import asyncio

import pytest

from tests.live.caches import cache_for
from tests.live.caching_gateway import ByQuestion, Json, caching, question
from tests.live.gateway import DONE, end, eventually, say
from tests.live.old_and_new_replies import NEW, OLD, ask_label_and_text
from tests.live.raw_client import calling, checked
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

ALICE, BOB = {"authorization": "Bearer a"}, {"authorization": "Bearer b"}


async def test_callers_who_are_kept_apart_never_get_each_others_replies(later: bool) -> None:
    async with (
        ScriptedServer(OLD, NEW, OLD) as upstream,
        caching(upstream, scope="caller", open_storage=cache_for(later)) as gateway,
    ):
        outcomes = []
        for headers in (ALICE, BOB, None, ALICE, BOB, None):
            outcomes.append(await ask_label_and_text(gateway, headers=headers))
            if later:
                await gateway.stored()
    assert [label for label, _ in outcomes] == ["miss"] * 3 + ["hit"] * 3
    assert [text for _, text in outcomes] == ["old", "new", "old"] * 2


@pytest.mark.parametrize(("scope", "calls"), [("caller", 2), ("shared", 1)])
async def test_callers_share_a_call_only_where_they_share_replies(scope: str, calls: int) -> None:
    gate = asyncio.Event()
    gated = Reply([say("a"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(gated) as upstream, caching(upstream, scope=scope) as gateway:
        first = asyncio.ensure_future(gateway.ask(headers=ALICE))
        await upstream.request()
        others = [asyncio.ensure_future(gateway.ask(headers=headers)) for headers in (BOB, ALICE)]
        await upstream.request(calls)
        await eventually(lambda: len(gateway.gateway.context.replies.active) == 3)
        gate.set()
        answers = await asyncio.gather(first, *others)
        assert [answer.label for answer in answers] == ["miss", "miss" if scope == "caller" else "shared", "shared"]
        assert gateway.calls == calls


async def test_equal_requests_in_every_reply_mode_are_one_call() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([say("a"), gate, say("b"), end(), DONE], chunked=True)) as upstream:
        async with caching(upstream) as gateway:
            ways: list[Json] = [{}, {"stream_mode": "snapshot"}, {"stream": False}, {"reply_format": "openai"}]
            ways.append({"path": "/v1/chat/completions", "cache": {"mode": "on"}})
            asking = [asyncio.ensure_future(gateway.ask(**way)) for way in ways]
            await eventually(lambda: len(gateway.gateway.context.replies.active) == len(ways))
            gate.set()
            answers = await asyncio.gather(*asking)
            assert sorted(answer.label for answer in answers) == ["miss", *["shared"] * 4]
            assert gateway.calls == 1
            assert not any(b'"cached":true' in answer.body for answer in answers)


async def test_the_first_caller_may_leave_and_later_ones_get_the_whole_reply() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([say("a"), gate, say("b"), end(), DONE], chunked=True)) as upstream:
        async with caching(upstream) as gateway:
            async with calling(gateway.gateway.address) as second:
                async with calling(gateway.gateway.address) as first:
                    await first.ask()
                    await first.head()
                    await first.write()
                    await second.ask()
                    await second.head()
                    assert second.headers["x-parley-cache"] == "shared"
                await eventually(lambda: len(gateway.gateway.context.replies.active) == 1)
                assert not upstream.connections[0].closed.is_set()
                gate.set()
                events = checked(await second.rest())
                assert [frame.data["delta"]["content"] for frame in events if frame.type == "message.delta"] == [
                    "a",
                    "b",
                ]
            assert (await gateway.ask()).label == "hit"


async def test_a_call_that_fails_its_first_caller_is_made_again_for_the_second() -> None:
    hold = asyncio.Event()
    busy = Reply([b"{}"], status=503, headers={"content-length": "2"}, hold=hold)
    async with ScriptedServer(busy, OLD) as upstream, caching(upstream) as gateway:
        asking = [asyncio.ensure_future(gateway.ask()) for _ in range(3)]
        await eventually(lambda: len(gateway.gateway.context.replies.active) == 3)
        hold.set()
        answers = await asyncio.gather(*asking)
        assert sorted(answer.status for answer in answers) == [200, 200, 503]
        assert gateway.calls == 2


async def test_a_call_that_breaks_off_fails_its_readers_and_no_later_caller() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([say("a"), gate], chunked=True, abrupt=True), OLD) as upstream:
        async with caching(upstream) as gateway:
            asking = [asyncio.ensure_future(gateway.ask()) for _ in range(3)]
            await eventually(lambda: len(gateway.gateway.context.replies.active) == 3)
            gate.set()
            answers = await asyncio.gather(*asking)
            assert [answer.frames[-1].type for answer in answers] == ["response.failed"] * 3
            assert await ask_label_and_text(gateway) == ("miss", "old")


async def test_a_slow_caller_delays_no_other() -> None:
    script = [say("x" * 20_000)] * 200
    async with ScriptedServer(Reply([*script, end(), DONE], chunked=True)) as upstream, caching(upstream) as gateway:
        async with calling(gateway.gateway.address, receive_bytes=8192) as slow:
            await slow.ask()
            await upstream.request()
            quick = await gateway.ask()
            assert quick.label == "shared"
            assert quick.frames[-1].type == "response.completed"
            assert len(gateway.gateway.context.replies.active) == 1, "the slow one is still at it"


async def test_a_hundred_requests_of_ten_questions_at_once_are_ten_calls() -> None:
    gate = asyncio.Event()
    scripts = {str(number): Reply([say(str(number)), gate, end(), DONE], chunked=True) for number in range(10)}
    async with ByQuestion(scripts) as upstream, caching(upstream) as gateway:
        asking = [
            asyncio.ensure_future(gateway.ask(messages=question(str(one % 10)), stream=False)) for one in range(100)
        ]
        await eventually(lambda: len(gateway.gateway.context.replies.active) == 100)
        gate.set()
        answers = await asyncio.gather(*asking)
        assert [answer.json["messages"][0]["content"] for answer in answers] == [str(one % 10) for one in range(100)]
        assert gateway.calls == 10
