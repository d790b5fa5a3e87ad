"""Every recorded reply that is stored is sent again byte for byte, in every format; one that ended badly is not."""

import asyncio
import random
from pathlib import Path

from app.chat.events import Event
from app.profiles import Profile

from tests.cache.cacheable import case_is_kept, recording_is_kept
from tests.cache.entries import built
from tests.cache.replies_of_modes import WAYS, differences, some_ways, timed
from tests.conformance.cases import Json, body_chunks, load_cases
from tests.cuts import random_cuts
from tests.each_case import each_case
from tests.reply_pipeline import Recorded, replay
from tests.streams.agreement import recorded
from tests.streams.reader import read, read_body
from tests.streams.recordings import RECORDINGS, needs_recordings

CASES = load_cases()


async def _case(case: Json) -> list[list[Event]]:
    broken = case["upstream_end"] == "abrupt"
    reply = Recorded(body_chunks(case), case["upstream_status"], case["upstream_headers"], broken)
    return await replay(reply, Profile.model_validate(case["profile"]), case["request"].get("tools", ()))


@each_case("case", CASES, ids=lambda case: case["id"])
def test_a_case_that_ends_normally_is_replayed_byte_for_byte_and_no_other_is_stored(case: Json) -> None:
    async def scenario() -> None:
        batches = await _case(case)
        kept = built(timed(batches)).is_cacheable(length=False)
        assert kept is case_is_kept(case)
        if kept or built(timed(batches)).is_cacheable(length=True):
            assert await differences(batches, WAYS) == []

    asyncio.run(scenario())


def test_the_cases_hold_replies_of_every_end() -> None:
    ends = {case["expect"]["finish_reason"] for case in CASES}
    assert ends == {"stop", "tool_calls", "length", "content_filter", "error"}


@needs_recordings
def test_every_recording_that_ends_normally_is_replayed_byte_for_byte_and_no_other_is_stored() -> None:
    bodies = [(path, path.read_bytes()) for path in RECORDINGS]

    async def scenario() -> list[str]:
        return [line for number, (path, body) in enumerate(bodies) for line in await _recorded(path, body, number)]

    assert asyncio.run(scenario()) == []


async def _recorded(path: Path, body: bytes, number: int) -> list[str]:
    """The events of each recording are compared, and what one format makes of them in one mode."""
    batches = await replay(recorded(path, random_cuts(body, len(body), 50)))
    kept = built(timed(batches)).is_cacheable(length=False)
    wrong = [] if kept is recording_is_kept(read(path)) else [f"kept: {kept}"]
    if kept:
        wrong += await differences(batches, some_ways(number))
    return [f"{path.parent.name}/{path.name}: {line}" for line in wrong]


@needs_recordings
def test_no_recording_that_was_cut_off_before_its_end_is_kept() -> None:
    async def scenario() -> list[str]:
        places = random.Random(5)
        wrong: list[str] = []
        for path in RECORDINGS:
            body = path.read_bytes()
            start = body[: places.randrange(len(body))]
            if path.suffix == ".sse" and read_body(start).error:
                batches = await replay(recorded(path, [start]))
                wrong += [path.name] if built(timed(batches)).is_cacheable(length=True) else []
        return wrong

    assert asyncio.run(scenario()) == []
