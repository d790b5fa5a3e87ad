"""Which requests the cache is used for that say nothing of it: by the face that they come to and by `cache.apply`."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.live.caching_gateway import Asker, Json, caching
from tests.live.gateway import DONE, end, eventually, say
from tests.live.raw_client import calling, checked
from tests.live.resuming_client import resumed
from tests.live.resuming_client import split_frames as frames_of
from tests.redis_server import store_url
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

CHAT, OPENAI = "/v1/chat", "/v1/chat/completions"
ANSWER = Reply([say("a"), end(), DONE], chunked=True)


@pytest.fixture(params=["memory:", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    return store_url(request)


def plain(path: str, **params: Any) -> Json:
    """A request with these parameters where its face has them."""
    return {"path": path, "stream": False, **(params if path == OPENAI else {"generate_cfg": params})}


async def labels(gateway: Asker, *requests: Json, headers: Json | None = None) -> list[str]:
    return [(await gateway.ask(headers=headers, **request)).label for request in requests]


TWICE = {"hit": ["miss", "hit"], "bypass": ["bypass", "bypass"]}


@pytest.mark.parametrize(
    ("apply", "path", "params", "want"),
    [
        ("auto", CHAT, {}, "hit"),
        ("auto", CHAT, {"temperature": 1.0}, "hit"),
        ("auto", OPENAI, {}, "bypass"),
        ("auto", OPENAI, {"temperature": 0.7}, "bypass"),
        ("auto", OPENAI, {"temperature": 0}, "hit"),
        ("auto", OPENAI, {"temperature": 0.0}, "hit"),
        ("auto", OPENAI, {"seed": 0}, "hit"),
        ("auto", OPENAI, {"seed": 7, "temperature": 1}, "hit"),
        ("always", CHAT, {}, "hit"),
        ("always", OPENAI, {}, "hit"),
        ("deterministic", CHAT, {}, "bypass"),
        ("deterministic", CHAT, {"temperature": 0}, "hit"),
        ("deterministic", CHAT, {"extra_body": {"seed": 1}}, "hit"),
        ("deterministic", OPENAI, {}, "bypass"),
        ("deterministic", OPENAI, {"seed": 1}, "hit"),
        ("on_request", CHAT, {}, "bypass"),
        ("on_request", CHAT, {"temperature": 0}, "bypass"),
        ("on_request", OPENAI, {"temperature": 0, "seed": 1}, "bypass"),
    ],
)
async def test_the_cache_is_used_where_the_rule_says_so(apply: str, path: str, params: Json, want: str) -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream, apply=apply) as gateway:
        assert await labels(gateway, *[plain(path, **params)] * 2) == TWICE[want]
        assert gateway.calls == (1 if want == "hit" else 2)


@pytest.mark.parametrize(
    ("defaults", "params", "want"),
    [
        ({"temperature": 0}, {}, "hit"),
        ({"seed": 3}, {}, "hit"),
        ({"temperature": 0}, {"temperature": 0.5}, "bypass"),
        ({"temperature": 0.5}, {"temperature": 0}, "hit"),
    ],
)
async def test_the_defaults_of_a_model_count(defaults: Json, params: Json, want: str) -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream, model={"defaults": defaults}) as gateway:
        assert await labels(gateway, *[plain(OPENAI, **params)] * 2) == TWICE[want]


async def test_a_seed_that_the_server_is_not_sent_does_not_count() -> None:
    async with ScriptedServer(ANSWER) as upstream:
        async with caching(upstream, model={"profile": {"lacks": ["seed"]}}) as gateway:
            assert await labels(gateway, *[plain(OPENAI, seed=1)] * 2) == TWICE["bypass"]


async def test_a_seed_counts_under_the_name_that_its_server_has_for_it() -> None:
    async with ScriptedServer(ANSWER) as upstream:
        async with caching(upstream, model={"profile": {"renamed": {"seed": "random_seed"}}}) as gateway:
            assert await labels(gateway, *[plain(OPENAI, seed=1)] * 2) == TWICE["hit"]


BY_BODY: list[Json] = [{"cache": {}}, {"cache": {"mode": "on"}}, {"cache": {"ttl_seconds": 60}}]
BY_HEADER: list[Json] = [{"x-parley-cache": "on"}, {"X-Parley-Cache": "On"}, {"cache-control": "max-age=60"}]
ASKED: list[tuple[Json, Json]] = [(body, {}) for body in BY_BODY] + [({}, headers) for headers in BY_HEADER]


@pytest.mark.parametrize(("body", "headers"), ASKED)
@pytest.mark.parametrize(
    ("apply", "path"), [("auto", OPENAI), ("deterministic", OPENAI), ("deterministic", CHAT), ("on_request", CHAT)]
)
async def test_a_request_that_asks_for_the_cache_gets_it(apply: str, path: str, body: Json, headers: Json) -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream, apply=apply) as gateway:
        request = plain(path) | body
        assert await labels(gateway, request, request, headers=headers) == ["miss", "hit"]


@pytest.mark.parametrize("headers", [{"cache-control": "no-cache"}, {"cache-control": "no-store"}])
async def test_a_header_that_wants_a_new_reply_does_not_ask_for_the_cache(headers: Json) -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream, apply="on_request") as gateway:
        assert await labels(gateway, plain(CHAT), plain(OPENAI), headers=headers) == ["bypass", "bypass"]
        assert await gateway.entries() == 0


async def test_a_refreshed_reply_is_found_by_a_request_for_the_cache() -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream) as gateway:
        modes = ["on", "refresh", "on", "only", "off"]
        asked = [plain(OPENAI) | {"cache": {"mode": mode}} for mode in modes]
        assert await labels(gateway, *asked) == ["miss", "refresh", "hit", "hit", "bypass"]


@pytest.mark.parametrize(("mode", "label"), [("off", "bypass"), ("refresh", "refresh"), ("only", "hit"), ("ON", "hit")])
async def test_every_mode_can_be_set_in_the_header(mode: str, label: str) -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream) as gateway:
        await gateway.ask(stream=False)
        assert await labels(gateway, plain(CHAT), headers={"x-parley-cache": mode}) == [label]


@pytest.mark.parametrize("path", [CHAT, OPENAI])
async def test_a_mode_in_the_header_that_is_none_is_refused(path: str) -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream) as gateway:
        refused = await gateway.ask(**plain(path), headers={"x-parley-cache": "yes"})
        error = refused.json["error"]
        status = 422 if path == CHAT else 400
        assert (refused.status, error["param"], gateway.calls) == (status, "x-parley-cache", 0)
        assert "must be one of on, off, refresh, only" in error["message"]


async def test_five_samples_of_one_prompt_at_once_are_five_calls(url: str) -> None:
    gate = asyncio.Event()
    gated = Reply([say("a"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(gated) as upstream, caching(upstream, url=url) as gateway:
        asking = [asyncio.ensure_future(gateway.ask(**plain(OPENAI))) for _ in range(5)]
        await upstream.request(5)
        gate.set()
        answers = await asyncio.gather(*asking)
        assert [answer.label for answer in answers] == ["bypass"] * 5
        assert await gateway.entries() == 0


async def test_equal_requests_that_are_deterministic_share_one_call(url: str) -> None:
    gate = asyncio.Event()
    gated = Reply([say("a"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(gated) as upstream, caching(upstream, url=url) as gateway:
        asking = [asyncio.ensure_future(gateway.ask(**plain(OPENAI, temperature=0))) for _ in range(5)]
        await eventually(lambda: len(gateway.gateway.context.replies.active) == 5)
        gate.set()
        answers = await asyncio.gather(*asking)
        assert sorted(answer.label for answer in answers) == ["miss", *["shared"] * 4]
        assert gateway.calls == 1


async def test_a_sample_never_joins_the_call_of_the_other_endpoint(url: str) -> None:
    gate = asyncio.Event()
    gated = Reply([say("a"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(gated) as upstream, caching(upstream, url=url) as gateway:
        first = asyncio.ensure_future(gateway.ask(**plain(CHAT)))
        await upstream.request()
        second = asyncio.ensure_future(gateway.ask(**plain(OPENAI)))
        await upstream.request(2)
        gate.set()
        assert [answer.label for answer in await asyncio.gather(first, second)] == ["miss", "bypass"]


async def test_gateways_that_share_a_redis_share_only_what_the_rule_allows(shared_redis: Any) -> None:
    gate = asyncio.Event()
    gated = Reply([say("a"), gate, end(), DONE], chunked=True)
    async with ScriptedServer(gated) as upstream, AsyncExitStack() as stack:
        pair = [await stack.enter_async_context(caching(upstream, url=shared_redis.url)) for _ in range(2)]
        sampling = [asyncio.ensure_future(one.ask(**plain(OPENAI))) for one in pair]
        await upstream.request(2)
        steady = [asyncio.ensure_future(one.ask(**plain(OPENAI, seed=1))) for one in pair]
        await eventually(lambda: sum(len(one.gateway.context.replies.active) for one in pair) == 4)
        await upstream.request(3)
        gate.set()
        assert [answer.label for answer in await asyncio.gather(*sampling)] == ["bypass", "bypass"]
        assert sorted(answer.label for answer in await asyncio.gather(*steady)) == ["miss", "shared"]
        assert len(upstream.requests) == 3


async def test_a_reply_that_bypassed_the_cache_is_resumed(url: str) -> None:
    async with ScriptedServer(ANSWER) as upstream, caching(upstream, url=url) as gateway:
        for request in ({"path": OPENAI}, {"path": CHAT, "cache": {"mode": "off"}}):
            answer = await gateway.ask(stream=True, **request)
            assert answer.label == "bypass"
            split_frames = frames_of(answer.body)
            id_ = answer.headers["x-parley-response-id"]
            assert await resumed(gateway.gateway, id_, 1) == split_frames[1:]


async def test_a_bypassed_reply_is_resumed_while_it_comes(url: str) -> None:
    gate = asyncio.Event()
    gated = Reply([say("a"), gate, say("b"), end(), DONE], chunked=True)
    async with ScriptedServer(gated) as upstream, caching(upstream, url=url, apply="on_request") as gateway:
        async with calling(gateway.gateway.address) as lost, calling(gateway.gateway.address) as second:
            await lost.ask()
            await lost.head()
            id_ = lost.headers["x-parley-response-id"]
            await second.say(f"GET /v1/chat/{id_}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            assert await second.head() == 200
            gate.set()
            frames = checked(await second.rest())
            assert json.dumps([frame.data for frame in frames]).count('"delta"') == 2
        assert gateway.calls == 1
