"""A reply that is not whole is never sent a second time; a whole one is requested once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cached_scripts import USAGE, call, url_of
from tests.live.caches import KnownStore, StorageMaker, cache_for
from tests.live.caching_gateway import ByQuestion, caching, question
from tests.live.gateway import DONE, chunk, end, eventually, say
from tests.live.raw_client import calling
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

STORES = ["memory:", "sqlite"]
HELLO = [say("Hel"), say("lo"), end(), USAGE, DONE]
THOUGHT = chunk({"reasoning_content": "Hm"})
LENGTH = {"content-length": "2"}


CALLS = [THOUGHT, call('{"a": 1}'), call("{}", 1), end("tool_calls"), USAGE, DONE]


def cuts(name: str, script: list[bytes]) -> Iterator[tuple[str, Reply]]:
    """The connection ends behind each piece before the finish reason, and in the middle of each."""
    for place in range(len(script) - 2):
        half = script[place][: len(script[place]) // 2]
        yield f"{name}: reset before {place}", Reply(script[:place], chunked=True, abrupt=True)
        yield f"{name}: reset within {place}", Reply([*script[:place], half], chunked=True, abrupt=True)
        yield f"{name}: end before {place}", Reply(script[:place])
        yield f"{name}: end within {place}", Reply([*script[:place], half])


ERROR = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
BAD = {
    # First: on a connection that was used before, such a request is sent again.
    "no head": Reply([], status=None, abrupt=True),
    **dict(cuts("text", HELLO[:-1])),
    **dict(cuts("calls", CALLS[:-1])),
    "error amid the stream": Reply([say("a"), ERROR, DONE]),
    "error at once": Reply([ERROR]),
    "500": Reply([b"{}"], status=500, headers=LENGTH),
    "429": Reply([b"{}"], status=429, headers=LENGTH),
    "content_filter": Reply([say("a"), end("content_filter"), DONE]),
    "length": Reply([say("a"), end("length"), DONE]),
    "broken arguments": Reply([call('{"a": '), end("tool_calls"), DONE]),
    "broken arguments of the second": Reply([call("{}"), call("{", 1), end("tool_calls"), DONE]),
    "nothing said": Reply([end(), DONE]),
    "no stream but half an object": Reply([b'{"choices": [{"mess'], headers={"content-type": "application/json"}),
}
GOOD = {
    "stop": Reply(HELLO, chunked=True),
    "tool_calls": Reply(CALLS, chunked=True),
    "an end without a reason": Reply([*HELLO[:2], DONE]),
    "finish reason and then the end": Reply(HELLO[:3]),
    "finish reason and then a reset": Reply(HELLO[:3], chunked=True, abrupt=True),
}


@pytest.mark.parametrize("store", STORES)
async def test_an_incomplete_reply_is_never_sent_again(store: str, tmp_path: Path) -> None:
    labels: dict[str, list[str]] = {}
    async with ByQuestion(BAD) as upstream, caching(upstream, url=url_of(store, tmp_path)) as gateway:
        for name in BAD:
            answers = [await gateway.ask(messages=question(name), stream=stream) for stream in (True, False, True)]
            assert not [answer for answer in answers if "age" in answer.headers]
            labels[name] = [answer.label for answer in answers]
        assert labels == dict.fromkeys(BAD, ["miss"] * 3)
        assert gateway.calls == 3 * len(BAD)
        assert await gateway.entries() == 0


@pytest.mark.parametrize("store", STORES)
async def test_a_complete_reply_is_requested_once(store: str, later: bool, tmp_path: Path) -> None:
    scripts = {f"{name}, {stream}": reply for name, reply in GOOD.items() for stream in (True, False)}
    async with (
        ByQuestion(scripts) as upstream,
        caching(upstream, url=url_of(store, tmp_path), open_storage=cache_for(later)) as gateway,
    ):
        for name in scripts:
            answers = []
            for _ in range(3):
                answers.append(await gateway.ask(messages=question(name), stream=name.endswith("True")))
                if later:
                    await gateway.stored()
            assert [answer.label for answer in answers] == ["miss", "hit", "hit"], name
            assert [answer.headers.get("age") for answer in answers] == [None, "0", "0"]
            assert [answer.first.get("age") for answer in answers] == [None, 0, 0]
            assert [answer.first["cached"] for answer in answers] == [False, True, True]
        assert gateway.calls == len(scripts)
        assert await gateway.entries() == len(scripts)


@pytest.mark.parametrize("stream", [True, False])
async def test_the_usage_of_a_hit_is_that_of_the_first_time_and_marked(stream: bool) -> None:
    async with ScriptedServer(GOOD["stop"]) as upstream, caching(upstream) as gateway:
        live, again = [(await gateway.ask(stream=stream)).last["usage"] for _ in range(2)]
    assert live["total_tokens"] == 5
    assert "cached" not in live
    assert again == {**live, "cached": True}


async def test_a_reply_that_its_caller_left_is_no_reply() -> None:
    async with ScriptedServer(Reply([say("Hel"), asyncio.Event(), say("lo"), end(), DONE])) as upstream:
        async with caching(upstream) as gateway:
            for number in range(3):
                async with calling(gateway.gateway.address) as caller:
                    await caller.ask()
                    await caller.head()
                    assert caller.headers["x-parley-cache"] == "miss"
                    await caller.write()
                await eventually(upstream.connections[number].closed.is_set)
            assert await gateway.entries() == 0


async def test_a_reply_that_goes_on_without_its_caller_is_one() -> None:
    gate = asyncio.Event()
    async with ScriptedServer(Reply([say("Hel"), gate, *HELLO[1:]])) as upstream, caching(upstream) as gateway:
        async with calling(gateway.gateway.address) as caller:
            await caller.ask(cancel_on_disconnect=False)
            await caller.head()
            await caller.write()
        await eventually(lambda: not gateway.gateway.context.replies.active)
        gate.set()
        await eventually(lambda: not gateway.gateway.context.cache.calls)
        assert await gateway.entries() == 1
        assert (await gateway.ask()).label == "hit"


async def test_what_ended_at_the_token_limit_is_kept_where_that_is_wanted(later: bool) -> None:
    async with (
        ScriptedServer(BAD["length"]) as upstream,
        caching(upstream, store_length=True, open_storage=cache_for(later)) as gateway,
    ):
        assert (await gateway.ask()).label == "miss"
        if later:
            await gateway.stored()
        assert (await gateway.ask()).last["finish_reason"] == "length"
        assert (gateway.calls, await gateway.labels(1)) == (1, ["hit"])


async def test_a_damaged_entry_is_a_miss_and_is_replaced() -> None:
    store = KnownStore()
    maker = StorageMaker(linger_seconds=0.0, store=store)
    async with ScriptedServer(GOOD["stop"]) as upstream, caching(upstream, open_storage=maker) as gateway:
        await gateway.ask()
        await gateway.stored()
        await store.change_last(lambda value: value[:-1] + bytes([value[-1] ^ 1]))
        assert (await gateway.ask()).label == "miss"
        await gateway.stored()
        assert (await gateway.ask()).label == "hit"
