"""Requests that are made to bring a gateway down are refused, and do not affect others."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from app.config.settings import Settings
from app.steps.truncation.truncate import truncate

from tests.attachments.documents import sample_documents
from tests.live.gateway import DONE, Gateway, end, say, serving_with
from tests.live.raw_client import Caller, calling
from tests.scripted_server import Reply, ScriptedServer
from tests.web_server import Site, drip, endless

pytestmark = pytest.mark.anyio

MANY = 40
"""Ordinary requests that are made at least while a bomb is worked on."""
ENOUGH_SECONDS = 0.5
"""19 of 20 ordinary requests take less, on the slowest machine."""
PAUSE_SECONDS = 0.01
"""Between two ordinary requests; without it they would take a whole core from the bomb."""
REPLY = Reply([say("Hello"), end(), DONE], chunked=True)
UNPACKED_BYTES = 16 << 20
DEEP_HTML = b"<html><body>" + b"<div>" * 400_000


def settings(url: str) -> Settings:
    models = {
        "m": {"upstreams": ["plain"]},
        "reader": {"upstreams": ["plain"], "profile": {"media": []}},
        "eyes": {"upstreams": ["plain"], "profile": {"inline_media": ["image"], "max_image_pixels": 1_000_000}},
    }
    return Settings.model_validate(
        {
            "server": {"port": 0, "log_level": "error", "commit_seconds": 60},
            "upstreams": {"plain": {"base_url": f"{url}/v1"}},
            "models": models,
            "fetch": {"allow": ["127.0.0.1/32"], "max_bytes": 8 << 20, "max_seconds": 3},
            "documents": {"cpu_seconds": 2, "wall_seconds": 5, "max_unpacked_bytes": UNPACKED_BYTES},
        }
    )


@asynccontextmanager
async def served() -> AsyncIterator[Gateway]:
    async with ScriptedServer(REPLY) as upstream, serving_with(settings(upstream.url)) as gateway:
        yield gateway


def asking(model: str, kind: str, url: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": [{"text": "What is it?"}, {kind: url}]}]}


def data(content: bytes, media_type: str = "") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


async def seconds_of_others(caller: Caller, bomb: "asyncio.Future[Any]", at_least: int = MANY) -> list[float]:
    """How long ordinary requests take, one after the other, while the bomb is worked on and until there are many."""
    found: list[float] = []
    while not bomb.done() or len(found) < at_least:
        started = time.monotonic()
        status, body = await caller.reply(model="m")
        assert status == 200 and b"response.completed" in body
        found.append(time.monotonic() - started)
        await asyncio.sleep(PAUSE_SECONDS)
    return found


async def thrown(gateway: Gateway, request: dict[str, Any]) -> tuple[int, dict[str, Any], list[float]]:
    """(the bomb's status, its error, the seconds of the others)."""
    async with calling(gateway.address) as sender, calling(gateway.address) as other:
        await other.reply(model="m")
        bomb = asyncio.create_task(sender.reply(request))
        others = await seconds_of_others(other, bomb)
        status, body = await bomb
    return status, json.loads(body)["error"], others


def nearly_all(seconds: list[float]) -> float:
    """The time in which 19 of 20 were done."""
    return sorted(seconds)[int(len(seconds) * 0.95) - 1]


BOMBS: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "a DOCX of which a part unpacks to too much": (
        lambda: asking("reader", "file", data(sample_documents.zip_bomb("word/document.xml", 2 * UNPACKED_BYTES))),
        "unpacks to more than",
    ),
    "a PDF with 30,000 pages": (
        lambda: asking("reader", "file", data(sample_documents.long_pdf(30_000), "application/pdf")),
        "has 30000 pages",
    ),
    "a PNG of 50,000 x 50,000": (
        lambda: asking("eyes", "image", data(sample_documents.huge_png(50_000, 50_000), "image/png")),
        "has 50000 x 50000 pixels",
    ),
}


async def test_html_that_is_nested_400000_deep_is_read_while_others_keep_their_pace() -> None:
    async with served() as gateway:
        async with calling(gateway.address) as sender, calling(gateway.address) as other:
            await other.reply(model="m")
            bomb = asyncio.create_task(sender.reply(asking("reader", "file", data(DEEP_HTML, "text/html"))))
            others = await seconds_of_others(other, bomb)
            status, _ = await bomb
    assert status == 200
    assert sorted(others)[len(others) * 19 // 20] < ENOUGH_SECONDS


@pytest.mark.parametrize("name", BOMBS)
async def test_a_bomb_in_the_request_is_refused_while_others_keep_their_pace(name: str) -> None:
    make, why = BOMBS[name]
    request = make()
    async with served() as gateway:
        status, error, others = await thrown(gateway, request)
    kind = next(iter(request["messages"][0]["content"][1]))
    assert (status, error["code"], error["param"]) == (422, "invalid_request", f"messages[0].content[1].{kind}")
    assert why in error["message"]
    assert nearly_all(others) < ENOUGH_SECONDS


async def test_a_huge_conversation_is_cut_while_others_keep_their_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    cutting: list[int] = []

    def noted(*args: Any) -> Any:
        cutting.append(threading.get_ident())
        return truncate(*args)

    monkeypatch.setattr("app.steps.pipeline.truncate", noted)
    messages = [{"role": "user", "content": "word " * (2 << 20)}]
    async with served() as gateway, calling(gateway.address) as sender, calling(gateway.address) as other:
        await other.reply(model="m")
        cut = {"model": "m", "messages": messages, "generate_cfg": {"max_input_tokens": 1000}}
        bomb = asyncio.create_task(sender.reply(cut))
        others = await seconds_of_others(other, bomb, at_least=1)
        status, body = await bomb
    assert status == 200 and b"messages[0] shortened" in body
    assert cutting and threading.get_ident() not in cutting
    assert nearly_all(others) < ENOUGH_SECONDS


async def test_an_endless_answer_is_left_at_the_limit_while_others_keep_their_pace() -> None:
    async with Site({"/endless": endless}) as site, served() as gateway:
        status, error, others = await thrown(gateway, asking("eyes", "image", site.url("/endless", "127.0.0.1")))
        await asyncio.wait_for(site.gone.wait(), 5)
    assert (status, error["code"], error["param"]) == (413, "too_large", "messages[0].content[1].image")
    assert nearly_all(others) < ENOUGH_SECONDS


async def test_a_slow_answer_delays_only_its_own_request() -> None:
    async with Site({"/slow": drip}) as site, served() as gateway:
        async with calling(gateway.address) as sender, calling(gateway.address) as other:
            bomb = asyncio.create_task(sender.reply(asking("eyes", "image", site.url("/slow", "127.0.0.1"))))
            for _ in range(MANY):
                assert (await other.reply(model="m"))[0] == 200
            assert not bomb.done()
            status, body = await bomb
            await asyncio.wait_for(site.gone.wait(), 5)
    error = json.loads(body)["error"]
    assert (status, error["code"], error["param"]) == (422, "media_unavailable", "messages[0].content[1].image")


async def test_all_bombs_at_once_are_refused_while_others_keep_their_pace() -> None:
    """More than there are places to read them: those who wait for one are no burden either."""
    requests = [make() for make, _ in BOMBS.values()] * 2
    async with served() as gateway, calling(gateway.address) as other:
        await other.reply(model="m")
        bombs = asyncio.gather(*(_refused(gateway, request) for request in requests))
        others = await seconds_of_others(other, bombs)
        assert set(await bombs) == {422}
    assert nearly_all(others) < ENOUGH_SECONDS


async def _refused(gateway: Gateway, request: dict[str, Any]) -> int:
    async with calling(gateway.address) as caller:
        return (await caller.reply(request))[0]
