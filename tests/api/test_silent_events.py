"""Events of which a format says nothing, such as the arguments of calls, do not silence the heartbeat."""

import asyncio
from typing import Any

from app.api.reply_response import EventStreamResponse, ResponseLimits
from app.api.response_writer import SendQueue
from app.chat.events import TextDelta, ToolCallDelta
from app.formats.autogen import AUTOGEN
from app.formats.base import HEARTBEAT, ReplyInfo

INFO = ReplyInfo("chat-1", "req-1", "m", 1)


async def _send_events(*events: Any) -> list[bytes]:
    """The bodies sent while one event comes between any two ticks of the clock, a second apart."""
    bodies: list[bytes] = []

    async def send(message: dict[str, Any]) -> None:
        bodies.append(message.get("body", b""))

    limits = ResponseLimits(heartbeat_seconds=2, commit_seconds=5, stall_seconds=60)
    response = EventStreamResponse(SendQueue(send), INFO, AUTOGEN, "delta", limits)
    start = asyncio.get_running_loop().time()
    for second, event in enumerate(events):
        response.on_events([event])
        response.tick(start + second)
    return bodies


def test_heartbeats_go_on_while_arguments_come() -> None:
    bodies = asyncio.run(_send_events(ToolCallDelta(0, "{", "c", "f"), *(ToolCallDelta(0, " ") for _ in range(8))))
    assert bodies.count(HEARTBEAT) >= 3


def test_there_is_no_heartbeat_while_text_comes() -> None:
    bodies = asyncio.run(_send_events(*(TextDelta("x") for _ in range(8))))
    assert HEARTBEAT not in bodies
