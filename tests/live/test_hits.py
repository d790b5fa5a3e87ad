"""A reply from the cache is sent, in every format and mode, as the model's own was: event by event."""

import asyncio
from pathlib import Path

import pytest

from tests.effort import LONG
from tests.live.cached_scripts import USAGE, call, url_of
from tests.live.caches import Clock, StorageMaker
from tests.live.caching_gateway import Asker, ByQuestion, caching, question
from tests.live.gateway import DONE, chunk, end, say
from tests.live.reply_variants import WAYS, alike, normalize_events
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio


def think(text: str) -> bytes:
    return chunk({"reasoning_content": text})


def more(index: int, arguments: str) -> bytes:
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


UNNAMED = chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": '{"x": "é"}'}}]})
RICH = {
    "text": [say("Hel"), say("lo\n\n"), say("wörld 🌍"), end(), USAGE, DONE],
    "a thought, a text and two calls at once": [
        *(think("Let me "), think("see."), say("I "), say("look."), call('{"a"'), call("", 1)),
        *(more(0, ": [1, "), more(1, "{}"), more(0, "2]}"), end("tool_calls"), USAGE, DONE),
    ],
    "several segments": [think("A"), say("b"), think("C"), say("d"), say("e"), think("F"), end(), USAGE, DONE],
    "a call without an id, and no usage": [say("So:"), UNNAMED, end("tool_calls"), DONE],
    "an end in a word of its own": [say("a"), end("eos"), USAGE, DONE],
    "several events in one read": [say("a") + say("b") + think("c"), b": alive\n\n", end() + USAGE + DONE],
}
ONE_BODY = b"""{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
"content": "Hi",
"reasoning_content": "Hm", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments":
"{}"}}]}}], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}"""
SCRIPTS = {name: Reply(script, chunked=True) for name, script in RICH.items()}
SCRIPTS["no stream"] = Reply([ONE_BODY], headers={"content-type": "application/json"})
FEWER = 3 if LONG else 6
"""Of so many ways to ask, one fills the cache for all others."""


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.25)


async def test_a_hit_has_the_events_of_the_reply_itself(later: bool, tmp_path: Path) -> None:
    store = "sqlite" if later else "memory:"
    maker = StorageMaker(linger_seconds=0.0 if later else 1.0, clock=Clock())
    async with (
        ByQuestion({**SCRIPTS}) as upstream,
        caching(upstream, url=url_of(store, tmp_path), open_storage=maker) as gateway,
    ):
        for way in WAYS:
            for name in SCRIPTS:
                upstream.scripts[f"{way.name}: {name}"] = SCRIPTS[name]
                asked = question(f"{way.name}: {name}")
                live = await way.ask(gateway, messages=asked)
                if later:
                    await gateway.stored()
                hit = await way.ask(gateway, messages=asked)
                assert (live.status, live.label, hit.status, hit.label) == (200, "miss", 200, "hit")
                assert normalize_events(hit) == normalize_events(live), (way.name, name)
        assert gateway.calls == len(WAYS) * len(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_what_one_format_had_kept_is_a_hit_in_every_other(name: str) -> None:
    maker = StorageMaker(linger_seconds=0.0, clock=Clock())
    async with ScriptedServer(SCRIPTS[name]) as upstream, caching(upstream, open_storage=maker) as gateway:
        live = {way.name: alike(normalize_events(await way.ask(gateway, cache={"mode": "off"}))) for way in WAYS}
        writers = WAYS[list(SCRIPTS).index(name) % FEWER :: FEWER]
        for writer in writers:
            assert (await writer.ask(gateway)).label == "miss"
            await gateway.stored()
            for reader in WAYS:
                hit = await reader.ask(gateway)
                assert hit.label == "hit"
                assert alike(normalize_events(hit)) == live[reader.name], (writer.name, reader.name)
            assert await gateway.gateway.context.cache.purge() == 1
        assert gateway.calls == len(WAYS) + len(writers)


async def test_a_hit_on_a_reply_that_the_format_cannot_hold_ends_like_the_reply_itself() -> None:
    """Anthropic's input is not nested so deeply. Other formats take such arguments, so the reply is kept."""
    deep = [say("I look."), call('{"a":' + "[" * 250), more(0, "]" * 250), more(0, "}"), end("tool_calls"), USAGE, DONE]
    ways = [way for way in WAYS if way.name.startswith("anthropic")]
    async with ScriptedServer(Reply(deep, chunked=True)) as upstream, caching(upstream) as gateway:
        live = {way.name: await way.ask(gateway, cache={"mode": "off"}) for way in ways}
        assert (await gateway.ask()).label == "miss"
        await gateway.stored()
        for way in ways:
            hit = await asyncio.wait_for(way.ask(gateway), 4)
            assert hit.label == "hit"
            assert hit.status == live[way.name].status
            assert alike(normalize_events(hit)) == alike(normalize_events(live[way.name]))
            expected = b"the model called a tool with arguments that are not JSON"
            assert (expected if way.name.endswith("whole") else b"the arguments of 'f' are not JSON") in hit.body
        assert gateway.calls == len(ways) + 1


async def test_the_rich_replies_are_rich() -> None:
    """What these tests compare is there at all."""
    async with ByQuestion(SCRIPTS) as upstream, caching(upstream) as gateway:
        kinds = {name: [kind for kind in await _kinds(gateway, name)] for name in SCRIPTS}
    assert kinds == {
        "text": ["content"],
        "a thought, a text and two calls at once": ["reasoning_content", "content", "function_call", "function_call"],
        "several segments": ["reasoning_content", "content"] * 2 + ["reasoning_content"],
        "a call without an id, and no usage": ["content", "function_call"],
        "an end in a word of its own": ["content"],
        "several events in one read": ["content", "reasoning_content"],
        "no stream": ["reasoning_content", "content", "function_call"],
    }


async def _kinds(gateway: Asker, name: str) -> list[str]:
    messages = (await gateway.ask(messages=question(name), stream=False)).json["messages"]
    fields = ("reasoning_content", "function_call", "content")
    return [next(field for field in fields if message.get(field)) for message in messages]
