"""All recorded replies of real servers through the gateway, compared with the independent reader."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import httpx
import pytest
from app.config.settings import Settings

from tests.cuts import finely, random_cuts, whole
from tests.effort import LONG
from tests.frame_reader import ReceivedReply
from tests.reply_pipeline import read_reply, replay
from tests.scripted_server import Reply
from tests.streams.agreement import content_type, disagreements, recorded
from tests.streams.reader import Expected, read, read_body
from tests.streams.recordings import RECORDINGS, needs_recordings, some_recordings, status_of
from tests.uvicorn_gateway import ByModel, ask, serving

PARTS = 4
"""The recordings are tried in so many tests, which can run beside each other."""
OVER_SOCKETS = len(RECORDINGS) if LONG else 50


def at_random(body: bytes) -> list[bytes]:
    return random_cuts(body, len(body), 50)


def _fine_cuts(number: int) -> Sequence[Callable[[bytes], list[bytes]]]:
    """One of the two for each recording in turn; both with `FUZZ=long`."""
    return (finely, at_random) if LONG else ((finely, at_random)[number % 2],)


def silent(reply: ReceivedReply) -> bool:
    """A reply that ends well and is empty."""
    return not reply.messages and reply.finish_reason in ("stop", "tool_calls")


def differences(expected: Expected, reply: ReceivedReply) -> list[str]:
    return disagreements(expected, reply) + (["silent"] if silent(reply) else [])


@needs_recordings
@pytest.mark.parametrize("part", range(PARTS))
def test_every_recording_gives_what_the_independent_reader_reads(part: int) -> None:
    async def found() -> dict[str, list[str]]:
        differing: dict[str, list[str]] = {}
        for number, path in enumerate(RECORDINGS[part::PARTS]):
            expected, body = read(path), path.read_bytes()
            for cut in (whole, *_fine_cuts(number)):
                differing[f"{name_of(path)}, cut {cut.__name__}"] = await _found(path, expected, cut(body))
        return differing

    assert wrong(asyncio.run(found())) == {}


@needs_recordings
def test_a_recording_that_is_cut_off_anywhere_ends_as_the_reader_says() -> None:
    async def found() -> dict[str, list[str]]:
        places = random.Random(2)
        failures: dict[str, list[str]] = {}
        for path in RECORDINGS:
            body = path.read_bytes()
            start = body[: places.randrange(len(body))]
            if path.suffix == ".sse":
                failures[f"{name_of(path)} after {len(start)} bytes"] = await _found(path, read_body(start), [start])
        return failures

    assert wrong(asyncio.run(found())) == {}


async def _found(path: Path, expected: Expected, parts: list[bytes]) -> list[str]:
    batches = await replay(recorded(path, parts))
    return [line for mode in ("delta", "whole") for line in differences(expected, read_reply(batches, mode))]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def wrong(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: lines for name, lines in found.items() if lines}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def scripted() -> AsyncIterator[tuple[ByModel, httpx.AsyncClient]]:
    async with ByModel() as upstream:
        settings = {"upstreams": {"scripted": {"base_url": upstream.url}}, "passthrough": "scripted"}
        async with serving(Settings.model_validate({**settings, "server": {"log_level": "error"}})) as client:
            yield upstream, client


@needs_recordings
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["delta", "whole"])
async def test_recordings_over_sockets_give_what_the_independent_reader_reads(
    scripted: tuple[ByModel, httpx.AsyncClient], mode: str
) -> None:
    upstream, client = scripted
    found: dict[str, list[str]] = {}
    for path in some_recordings(OVER_SOCKETS):
        upstream.scripts["m"] = Reply(
            at_random(path.read_bytes()), status_of(path), {"content-type": content_type(path)}
        )
        status, reply = await ask(client, mode, model="m")
        assert (status == 200) or (status != 500 and reply.error is not None)
        found[name_of(path)] = differences(read(path), reply)
    assert wrong(found) == {}
