"""All recorded replies of real servers through the gateway, compared with the independent reader."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from app.settings import Settings

from tests.cuts import bytewise, random_cuts, whole
from tests.replay import replay, told
from tests.scripted import Reply
from tests.serving import ByModel, ask, serving
from tests.streams.agreement import disagreements, recorded
from tests.streams.reader import read
from tests.streams.recordings import RECORDINGS, needs_recordings
from tests.told import Told

LARGE = 200_000
"""Bytes from which on a body is not cut into single ones."""
OVER_SOCKETS = 200


def finely(body: bytes) -> list[bytes]:
    """Byte by byte, or for a large body in pieces of an odd size."""
    size = 997
    return bytewise(body) if len(body) < LARGE else [body[at : at + size] for at in range(0, len(body), size)]


def at_random(body: bytes) -> list[bytes]:
    return random_cuts(body, len(body), 50)


def silent(told: Told) -> bool:
    """A reply that ends well and says nothing."""
    return not told.messages and told.finish_reason in ("stop", "tool_calls")


def chosen() -> list[Path]:
    """One recording of every provider, and others up to the number wanted."""
    shuffled = random.Random(1).sample(RECORDINGS, len(RECORDINGS))
    one_each = {path.parent.name: path for path in shuffled}
    others = [path for path in shuffled if path not in one_each.values()]
    return [*one_each.values(), *others][:OVER_SOCKETS]


@needs_recordings
@pytest.mark.parametrize("cut", [whole, finely, at_random], ids=lambda cut: cut.__name__)
def test_every_recording_is_told_as_the_reader_reads_it(cut: Callable[[bytes], list[bytes]]) -> None:
    assert asyncio.run(_differences(cut)) == {}


async def _differences(cut: Callable[[bytes], list[bytes]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in RECORDINGS:
        batches = await replay(recorded(path, cut(path.read_bytes())))
        for mode in ("delta", "whole"):
            reply = told(batches, mode)
            differences = disagreements(read(path), reply) + (["silent"] if silent(reply) else [])
            if differences:
                found[f"{path.parent.name}/{path.name} {mode}"] = differences
    return found


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
async def test_recordings_are_told_over_sockets_as_the_reader_reads_them(
    scripted: tuple[ByModel, httpx.AsyncClient], mode: str
) -> None:
    upstream, client = scripted
    found: dict[str, list[str]] = {}
    for path in chosen():
        upstream.scripts["m"] = Reply(at_random(path.read_bytes()))
        status, reply = await ask(client, mode, model="m")
        assert (status == 200) or (status != 500 and reply.error is not None)
        differences = disagreements(read(path), reply) + (["silent"] if silent(reply) else [])
        if differences:
            found[f"{path.parent.name}/{path.name}"] = differences
    assert found == {}
