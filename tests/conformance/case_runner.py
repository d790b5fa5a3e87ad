"""How a case goes through the gateway without sockets: which case, how it is cut, and in which format and mode."""

from collections.abc import Iterable, Iterator

from app.chat.events import Event
from app.profiles import Profile

from tests.conformance.cases import Json, body_chunks, compare, load_cases
from tests.cuts import bytewise, random_cuts, whole
from tests.effort import LONG
from tests.frame_reader import ReceivedReply
from tests.reply_pipeline import Recorded, read_reply, replay

CASES = load_cases()


def cuttings(case: Json) -> Iterator[tuple[str, list[bytes]]]:
    """As recorded, whole, byte by byte, and at random places; at more of them with `FUZZ=long`."""
    recorded = body_chunks(case)
    body = b"".join(recorded)
    yield "recorded", recorded
    yield "whole", whole(body)
    yield "bytewise", bytewise(body)
    for seed in range(20 if LONG else 4):
        yield f"random {seed}", random_cuts(body, seed, 1 + 5 * seed)


async def replay_case(case: Json, parts: list[bytes] | None = None) -> list[list[Event]]:
    """The events of every read, for these parts of the body instead of the recorded ones."""
    broken = case["upstream_end"] == "abrupt"
    recorded = Recorded(
        body_chunks(case) if parts is None else parts, case["upstream_status"], case["upstream_headers"], broken
    )
    return await replay(recorded, Profile.model_validate(case["profile"]), case["request"].get("tools", ()))


async def _read_in_each_mode(case: Json, parts: list[bytes]) -> dict[str, ReceivedReply]:
    batches = await replay_case(case, parts)
    return {mode: read_reply(batches, mode) for mode in ("delta", "snapshot", "whole")}


async def differences(case: Json, cuttings: Iterable[tuple[str, list[bytes]]]) -> list[str]:
    """What any of these cuts or any way of telling makes of the case but what it expects."""
    found = []
    for name, parts in cuttings:
        replies = await _read_in_each_mode(case, parts)
        found += [f"{name}: {difference}" for difference in compare(case, replies["whole"].as_case())]
        found += [f"{name}: {mode} differs from whole" for mode, one in replies.items() if one != replies["whole"]]
    return found
