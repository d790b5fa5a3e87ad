"""Where the gateway and the independent reader disagree on a recorded reply."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.frame_reader import Json, ReceivedReply
from tests.reply_pipeline import Recorded
from tests.streams.reader import Expected
from tests.streams.recordings import status_of


def recorded(path: Path, parts: list[bytes]) -> Recorded:
    """The reply as the server sent it."""
    return Recorded(parts, status_of(path), {"content-type": content_type(path)})


def content_type(path: Path) -> str:
    return "text/event-stream" if path.suffix == ".sse" else "application/json"


def disagreements(expected: Expected, received: ReceivedReply) -> list[str]:
    """What differs, in a line each; no text of the reply."""
    return [
        *_texts(expected, received),
        *_calls(expected, received),
        *_end(expected, received),
    ]


def _texts(expected: Expected, received: ReceivedReply) -> Iterator[str]:
    for field, want in (("reasoning_content", expected.reasoning), ("content", expected.content)):
        got = "".join(message.get(field, "") for message in received.messages)
        if got.strip() != want.strip():
            yield f"{field}: {len(want.strip())} characters read, {len(got.strip())} told"


def _calls(expected: Expected, received: ReceivedReply) -> Iterator[str]:
    calls = [message["function_call"] for message in received.messages if "function_call" in message]
    got = [(call["name"], _value(call["arguments"])) for call in calls]
    want = [(name, _value(arguments)) for name, arguments in expected.calls]
    if got != want:
        yield f"calls: {[name for name, _ in want]} read, {[name for name, _ in got]} told"


def _end(expected: Expected, received: ReceivedReply) -> Iterator[str]:
    if expected.error != (received.error is not None):
        yield f"error: {expected.error} read, {received.error} told"
    elif not expected.error:
        if expected.finish_reason != received.finish_reason:
            yield f"finish reason: {expected.finish_reason} read, {received.finish_reason} told"
        if not _same_usage(expected.usage, received.usage):
            yield "usage"


def _same_usage(want: Json | None, got: Json | None) -> bool:
    """Nothing of what was sent is missing or changed. The gateway adds numbers, also to details, and moves a cost that
    is an object to `cost_details`."""
    if want is None or got is None:
        return want is got
    if isinstance(want.get("cost"), dict):
        want = {**want, "cost_details": want["cost"]}
        del want["cost"]
    return _contains(got, want)


def _contains(got: Any, want: Any) -> bool:
    if isinstance(got, dict) and isinstance(want, dict):
        return all(name in got and _contains(got[name], value) for name, value in want.items())
    return bool(got == want)


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
