"""Every case of the corpus through the gateway without sockets, cut in every way and told in every way."""

import asyncio
from collections.abc import Iterator

import pytest
from app.profiles import Profile

from tests.conformance.compare import Json, body_chunks, compare, load_cases
from tests.cuts import bytewise, random_cuts, whole
from tests.replay import Recorded, replay, told
from tests.told import Told

NOT_YET = {"Q-018", *(f"Q-{number:03d}" for number in range(80, 98))}
"""Calls and channels in the text of the content: the gateway does not read these yet."""

CASES = [case for case in load_cases() if case["id"] not in NOT_YET]


def known_profile(case: Json) -> Json:
    """The case's profile, as far as the gateway knows its fields."""
    return {name: value for name, value in case["profile"].items() if name in Profile.model_fields}


def cuttings(case: Json) -> Iterator[tuple[str, list[bytes]]]:
    """As recorded, whole, byte by byte, and at random places."""
    recorded = body_chunks(case)
    body = b"".join(recorded)
    yield "recorded", recorded
    yield "whole", whole(body)
    yield "bytewise", bytewise(body)
    for seed in range(20):
        yield f"random {seed}", random_cuts(body, seed, 1 + seed)


async def _tell(case: Json, parts: list[bytes]) -> dict[str, Told]:
    broken = case["upstream_end"] == "abrupt"
    recorded = Recorded(parts, case["upstream_status"], case["upstream_headers"], broken)
    batches = await replay(recorded, Profile.model_validate(known_profile(case)))
    return {mode: told(batches, mode) for mode in ("delta", "snapshot", "whole")}


async def _differences(case: Json) -> list[str]:
    found = []
    for name, parts in cuttings(case):
        tellings = await _tell(case, parts)
        found += [f"{name}: {difference}" for difference in compare(case, tellings["whole"].as_case())]
        found += [f"{name}: {mode} differs from whole" for mode, one in tellings.items() if one != tellings["whole"]]
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_any_cut_of_a_body_and_any_way_of_telling_give_what_the_case_expects(case: Json) -> None:
    assert asyncio.run(_differences(case)) == []
