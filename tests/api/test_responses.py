"""The two responses: a stream of frames, and one JSON body."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from app.api.reply_response import EventStreamResponse, JsonResponse, ReplyResponse, ResponseLimits
from app.api.response_writer import SendQueue
from app.calls.log import ReplyLog
from app.chat.events import Event, Failed, Fault, Finish, TextDelta
from app.chat.stream import Origin
from app.errors import Busy, Internal
from app.formats.base import ReplyInfo, ReplyMode
from app.formats.qwen import QWEN
from app.responses_api.background import NoClient
from msgspec.structs import replace

INFO = ReplyInfo("chat-1", "req-1", "m", 1)
LIMITS = ResponseLimits(heartbeat_seconds=2, commit_seconds=5, stall_seconds=60)
FAILED = Failed(Fault("overloaded", "full", transient=True, status=503))


def sent_by(kind: type[EventStreamResponse] | type[JsonResponse], act: Callable[[Any], None]) -> tuple[int, bytes]:
    """Status and body of a response to which `act` happens."""
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    async def run() -> None:
        mode: ReplyMode = "whole" if kind is JsonResponse else "delta"
        act(kind(SendQueue(send), INFO, QWEN, mode, LIMITS))

    asyncio.run(run())
    heads = [message for message in messages if message["type"] == "http.response.start"]
    assert len(heads) == 1
    assert sum(not message.get("more_body", True) for message in messages) <= 1
    return heads[0]["status"], b"".join(message.get("body", b"") for message in messages)


def feed(*reads: list[Event]) -> Callable[[ReplyResponse], None]:
    def act(response: ReplyResponse) -> None:
        for events in reads:
            response.on_events(events)

    return act


def test_a_failure_alone_is_a_status_of_either_response() -> None:
    for kind in (EventStreamResponse, JsonResponse):
        status, body = sent_by(kind, feed([FAILED]))
        assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")


def test_a_failure_after_an_event_is_the_last_frame_of_a_stream_and_a_status_of_a_json_response() -> None:
    status, body = sent_by(EventStreamResponse, feed([TextDelta("a")], [FAILED]))
    assert status == 200 and b"event: response.failed" in body
    status, body = sent_by(JsonResponse, feed([TextDelta("a")], [FAILED]))
    assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")


def test_a_sign_of_life_opens_a_stream_and_sends_nothing_of_a_json_response() -> None:
    status, body = sent_by(EventStreamResponse, feed([], [FAILED]))
    assert status == 200 and b"event: response.failed" in body
    status, body = sent_by(JsonResponse, feed([], [FAILED]))
    assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")


@pytest.mark.parametrize("kind", [EventStreamResponse, JsonResponse])
def test_after_the_end_nothing_more_is_sent(kind: type[EventStreamResponse] | type[JsonResponse]) -> None:
    end: list[Event] = [TextDelta("a"), Finish("stop", None)]

    def act(response: ReplyResponse) -> None:
        feed(end, end)(response)
        response.fail(Busy("late"))
        response.tick(1e9)

    assert sent_by(kind, act) == sent_by(kind, feed(end))


def test_a_stream_is_opened_at_the_commit_deadline_and_a_json_response_is_not() -> None:
    def act(response: ReplyResponse) -> None:
        response.tick(asyncio.get_running_loop().time() + 6)
        response.fail(Busy("full"))

    assert sent_by(EventStreamResponse, act)[0] == 200
    assert sent_by(JsonResponse, act)[0] == 503


def test_what_is_found_out_after_a_stream_was_opened_is_in_its_last_frame() -> None:
    def act(response: ReplyResponse) -> None:
        response.tick(asyncio.get_running_loop().time() + 6)
        response.add_warnings(["the picture was not sent"])
        response.set_origin(Origin("hit", 7))
        feed([TextDelta("a"), Finish("stop", None)])(response)

    _, body = sent_by(EventStreamResponse, act)
    frames = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    assert [frame["type"] for frame in frames].count("response.started") == 1
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert frames[-1]["warnings"] == ["the picture was not sent"] and frames[-1]["cached"] is True


class Broken:
    """A stage with a defect."""

    def __init__(self, info: ReplyInfo, mode: ReplyMode) -> None:
        pass

    def feed(self, events: list[Event]) -> list[Event]:
        raise RuntimeError("a defect")


class Recorded:
    """Records what a receiver is given."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.crash: Exception | None = None

    def on_events(self, events: list[Event]) -> None:
        self.events += events

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        for events in batches:
            self.events += events

    def on_crash(self, error: Exception) -> None:
        self.crash = error


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.anyio
async def test_a_defect_in_the_stage_of_a_format_ends_that_response_and_no_other(count: int) -> None:
    log, other = ReplyLog(), Recorded()
    broken = EventStreamResponse(NoClient(), INFO, replace(QWEN, reply_stage=Broken), "delta", LIMITS)
    broken.start(log.add_reader())
    log.add_reader().start(other)
    events: list[Event] = [TextDelta("a") for _ in range(count)]
    log.append(0.0, [[event] for event in events])
    log.notify()
    assert isinstance(broken.error, Internal) and broken.done.done()
    assert other.events == events


@pytest.mark.anyio
async def test_events_pass_through_the_stages_that_were_added_before_that_of_the_format() -> None:
    passed: list[tuple[str, list[Event]]] = []

    class Named:
        def __init__(self, name: str) -> None:
            self._name = name

        def feed(self, events: list[Event]) -> list[Event]:
            passed.append((self._name, events))
            return events

    response = EventStreamResponse(
        NoClient(), INFO, replace(QWEN, reply_stage=lambda info, mode: Named("format")), "delta", LIMITS
    )
    response.add_first_stage(Named("added"))
    events: list[Event] = [TextDelta("a")]
    response.on_events(events)
    response.on_batches([events, [Finish("stop")]])
    assert [name for name, _ in passed] == ["added", "format"] * 3
    assert response.finished
