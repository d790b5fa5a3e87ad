"""A reply as a caller receives it: live, and again from its stored bytes."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.api.reply_response import EventStreamResponse, JsonResponse, ResponseLimits
from app.api.response_writer import SendQueue
from app.calls.entry import Batch, StoredEntry, dump, load
from app.calls.stored_log import StoredLog
from app.chat.events import Event
from app.chat.stream import Receiver, Reply
from app.formats import FORMATS
from app.formats.base import Format, ReplyInfo, ReplyMode

from tests.effort import LONG

INFO = ReplyInfo(response_id="chat-1", request_id="req-1", model="m", created=1, warnings=("one",))
MODES: tuple[ReplyMode, ...] = ("delta", "snapshot", "whole")


class Live:
    """A reply whose reads come one by one."""

    fallback_model: str | None = None

    def __init__(self, batches: Sequence[list[Event]]) -> None:
        self._batches = batches

    def start(self, receiver: Receiver) -> None:
        for batch in self._batches:
            receiver.on_events(batch)

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def tick(self, now: float) -> None: ...

    def close(self) -> None: ...


def timed(batches: Sequence[list[Event]]) -> list[Batch]:
    return [Batch(place * 0.01, events) for place, events in enumerate(batches)]


async def send_reply(reply: Reply, form: Format, mode: ReplyMode) -> tuple[dict[str, Any], bytes]:
    """Head and body."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    limits = ResponseLimits(heartbeat_seconds=15, commit_seconds=5, stall_seconds=60)
    kind = JsonResponse if mode == "whole" else EventStreamResponse
    response = kind(SendQueue(send), INFO, form, mode, limits)
    response.start(reply)
    await response.done
    assert response.error is None
    head, *pieces = sent
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    return head, b"".join(piece["body"] for piece in pieces)


async def differences(batches: Sequence[list[Event]], ways: Iterable[tuple[Format, ReplyMode]]) -> list[str]:
    """Where the stored events are not the live ones, and the ways in which a hit is sent otherwise than live."""
    entry = StoredEntry(1.0, timed(batches))
    kept = load(dump(entry))
    return ([] if kept == entry else ["the events"]) + [
        f"{form.name} {mode}"
        for form, mode in ways
        if await send_reply(Live(batches), form, mode) != await send_reply(_replayed(kept), form, mode)
    ]


def _replayed(entry: StoredEntry) -> Reply:
    return StoredLog(entry, cached=False).add_reader()


WAYS = [(form, mode) for form in FORMATS.values() for mode in MODES]
"""Every format in every mode."""


def some_ways(number: int) -> list[tuple[Format, ReplyMode]]:
    """A format in one mode: another for each number, all in turn. With `FUZZ=long`, all of them."""
    return WAYS if LONG else [WAYS[number % len(WAYS)]]
