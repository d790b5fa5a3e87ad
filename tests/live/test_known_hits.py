"""Replies of real servers are sent from the cache as the first time, over sockets."""

import random
from typing import Any

import pytest

from tests.cache.cacheable import case_is_kept, recording_is_kept
from tests.conformance.cases import body_chunks, load_cases
from tests.cuts import random_cuts
from tests.effort import LONG
from tests.live.caches import Clock, StorageMaker
from tests.live.caching_gateway import Asker, Json, caching
from tests.live.reply_variants import WAYS, alike, normalize_events
from tests.scripted_server import Reply
from tests.streams.agreement import content_type
from tests.streams.reader import read
from tests.streams.recordings import RECORDINGS, needs_recordings, some_recordings, status_of
from tests.uvicorn_gateway import ByModel

pytestmark = pytest.mark.anyio

COUNT = len(RECORDINGS) if LONG else 40
PARTS = 4
"""The cases and the recordings are tried in so many tests, which can run beside each other."""
CASES = [case for case in load_cases() if case["upstream_kind"] != "error"][:: 1 if LONG else 3]


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.25)


def _maker() -> StorageMaker:
    return StorageMaker(linger_seconds=0.0, clock=Clock())


async def differences(gateway: Asker, seed: int, count: int, kept: bool, **asked: Any) -> list[str]:
    """The ways, among `count` of all, in which a hit is sent otherwise than the reply itself. In all of them, in one
    process: tests/cache/test_recorded.py."""
    first, *others = random.Random(seed).sample(WAYS, count)
    live, again = await first.ask(gateway, **asked), await first.ask(gateway, **asked)
    if (live.label, again.label) != ("miss", "hit" if kept else "miss"):
        return [f"{live.label}, {again.label}"]
    found = [first.name] if kept and normalize_events(live) != normalize_events(again) else []
    for way in others if kept else ():
        live = await way.ask(gateway, **asked, cache={"mode": "off"})
        hit = await way.ask(gateway, **asked)
        if (hit.label, alike(normalize_events(hit))) != ("hit", alike(normalize_events(live))):
            found.append(way.name)
    return found


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_case_that_is_stored_is_sent_as_the_first_time(part: int) -> None:
    wrong: dict[str, list[str]] = {}
    cases = CASES[part::PARTS]
    models = {case["id"]: {"profile": case["profile"]} for case in cases}
    async with ByModel() as upstream, caching(upstream, models=models, open_storage=_maker()) as gateway:
        for seed, case in enumerate(cases):
            upstream.scripts[case["id"]] = _scripted(case)
            functions = [offer(tool) for tool in case["request"].get("tools", [])]
            asked = {"model": case["id"], **({"functions": functions} if functions else {})}
            if found := await differences(gateway, seed, 2, case_is_kept(case), **asked):
                wrong[case["id"]] = found
    assert wrong == {}


def offer(tool: str | Json) -> Json:
    """Return the function of a case, which has a name alone or the whole function."""
    return {"name": tool} if isinstance(tool, str) else tool


def _scripted(case: Json) -> Reply:
    abrupt = case["upstream_end"] == "abrupt"
    return Reply(body_chunks(case), case["upstream_status"], case["upstream_headers"], abrupt=abrupt)


@needs_recordings
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_recording_that_is_stored_is_sent_as_the_first_time(part: int) -> None:
    wrong: dict[str, list[str]] = {}
    recordings = some_recordings(COUNT)[part::PARTS]
    models: Json = {f"{path.parent.name}/{path.name}": {} for path in recordings}
    async with ByModel() as upstream, caching(upstream, models=models, open_storage=_maker()) as gateway:
        for seed, (name, path) in enumerate(zip(models, recordings, strict=True)):
            parts = random_cuts(path.read_bytes(), seed, 5)
            upstream.scripts[name] = Reply(parts, status_of(path), {"content-type": content_type(path)})
            if found := await differences(gateway, seed, 2, recording_is_kept(read(path)), model=name):
                wrong[name] = found
    assert wrong == {}
