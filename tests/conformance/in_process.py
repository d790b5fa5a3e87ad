"""How a case goes through the gateway without sockets: which, cut how, and told how."""

from collections.abc import Iterator

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


async def differences(case: Json) -> list[str]:
    """What any cut or any way of telling makes of the case but what it expects."""
    found = []
    for name, parts in cuttings(case):
        tellings = await _tell(case, parts)
        found += [f"{name}: {difference}" for difference in compare(case, tellings["whole"].as_case())]
        found += [f"{name}: {mode} differs from whole" for mode, one in tellings.items() if one != tellings["whole"]]
    return found
