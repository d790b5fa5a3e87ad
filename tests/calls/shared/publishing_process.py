"""A gateway in a process of its own: it leads many flights, each at its own pace, until it is killed.

python -m tests.calls.shared.publishing_process <redis url> <flights>
"""

import asyncio
import random
import sys

from app.chat.events import Event, ReasoningDelta, TextDelta, ToolCallDelta

from tests.calls.shared.coordinators import QUICK, Model, SharingGateway, gateway, listen
from tests.calls.shared.reply_strategies import DONE

STEP_SECONDS = 0.08


def long_reply(seed: int) -> list[list[Event]]:
    """A thought, a text and two calls, in many small batches."""
    pick = random.Random(seed)

    def piece() -> str:
        return pick.choice("abcdefgh") * pick.randint(1, 3)

    thought: list[Event] = [ReasoningDelta(piece()) for _ in range(pick.randint(1, 20))]
    text: list[Event] = [TextDelta(piece()) for _ in range(pick.randint(1, 20))]
    calls: list[Event] = [ToolCallDelta(at, "", f"call_{at}", "f") for at in range(2)]
    calls += [ToolCallDelta(pick.randint(0, 1), piece()) for _ in range(20)]
    events = [*thought, *text, *calls, DONE]
    return [[event] for event in events]


async def main(url: str, call_count: int) -> None:
    async with gateway(url, QUICK) as commons:
        await asyncio.gather(*(lead(commons, seed) for seed in range(call_count)))


async def lead(commons: SharingGateway, seed: int) -> None:
    pace = random.Random(seed)
    model = Model(long_reply(seed))
    reply, _, _ = await commons.claim_or_follow(f"q{seed}", model.lead)
    reader = listen(reply)
    print(seed, flush=True)
    while not reader.over:
        model.calls[0].push(1)
        await asyncio.sleep(pace.random() * STEP_SECONDS)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
