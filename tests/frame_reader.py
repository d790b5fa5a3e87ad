"""A reply as its client reads it, from any of three modes: deltas, snapshots, one JSON body.

Every reader checks what its way promises: numbered frames that repeat their type, text that only grows, nothing after
the end.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
PAYLOADS = ("reasoning_content", "content")


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply in the words of the conformance cases."""

    messages: list[Json]
    finish_reason: str
    usage: Json | None
    error: Json | None

    def as_case(self) -> Json:
        """What `compare` takes."""
        names = ("messages", "finish_reason", "usage", "error")
        return {name: getattr(self, name) for name in names}


def frames(data: bytes) -> list[Json]:
    """The data of each frame. A frame's three lines agree with each other, and frames are numbered from 1."""
    found: list[Json] = []
    for block in data.decode().removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            continue
        number, name, line = block.split("\n")
        fields = json.loads(line.removeprefix("data: "))
        found.append(fields)
        assert number == f"id: {fields['seq']}" == f"id: {len(found)}"
        assert name == f"event: {fields['type']}"
    return found


def of_deltas(data: bytes) -> ReceivedReply:
    """A stream of what is new: the deltas of every completed message add up to it."""
    opening, *middle, end = frames(data)
    assert opening["type"] == "response.started"
    messages: list[Json] = []
    completed: set[int] = set()
    for frame in middle:
        match frame["type"]:
            case "message.started":
                assert frame["index"] == len(messages)
                messages.append(_begun(frame))
            case "message.delta":
                assert frame["index"] not in completed
                _grow(messages[frame["index"]], frame["delta"])
            case "message.completed":
                assert _shorn(frame["message"]) == messages[frame["index"]]
                messages[frame["index"]] = frame["message"]
                completed.add(frame["index"])
            case other:
                raise AssertionError(f"a frame {other} in the middle of a reply")
    if end["type"] == "response.completed":
        assert len(completed) == len(messages)
    return _ended(messages, end)


def of_snapshots(data: bytes) -> ReceivedReply:
    """A stream of whole lists: each begins as the one before it."""
    opening, *middle, end = frames(data)
    assert opening["type"] == "response.started"
    messages: list[Json] = []
    for frame in middle:
        assert frame["type"] == "messages"
        assert _begins_as(frame["messages"], messages)
        messages = frame["messages"]
    return _ended(messages, end)


def of_whole(data: bytes) -> ReceivedReply:
    """One JSON body; an error may have messages beside it."""
    body = json.loads(data)
    kind = "response.failed" if "error" in body else "response.completed"
    return _ended(body.get("messages", []), {"type": kind, **body})


READERS: dict[str, Callable[[bytes], ReceivedReply]] = {"delta": of_deltas, "snapshot": of_snapshots, "whole": of_whole}


def _begun(frame: Json) -> Json:
    message: Json = frame["message"]
    empty: Json = {} if "function_call" in message else {frame["kind"]: ""}
    return {**message, "content": "", **empty}


def _grow(message: Json, delta: Json) -> None:
    (field,) = delta
    if field == "function_call":
        call = message["function_call"]
        message["function_call"] = {**call, "arguments": call["arguments"] + delta[field]["arguments"]}
    else:
        message[field] += delta[field]


def _shorn(message: Json) -> Json:
    """Without what is only known at the end."""
    extra = {"function_id": message["extra"]["function_id"]} if "function_call" in message else None
    return {key: value for key, value in message.items() if key != "extra"} | ({"extra": extra} if extra else {})


def _begins_as(later: list[Json], earlier: list[Json]) -> bool:
    return len(later) >= len(earlier) and all(
        _payload(new).startswith(_payload(old)) for old, new in zip(earlier, later, strict=False)
    )


def _payload(message: Json) -> str:
    call = message.get("function_call")
    return str(call["name"] + call["arguments"] if call else message.get("reasoning_content") or message["content"])


def _ended(messages: list[Json], end: Json) -> ReceivedReply:
    plain = [_one_payload(message) for message in messages]
    if end["type"] == "response.completed":
        return ReceivedReply(plain, end["finish_reason"], end["usage"], None)
    assert end["type"] == "response.failed", end
    error = end["error"]
    return ReceivedReply(plain, "error", None, _in_words_of_a_case(error, bool(plain)))


def _one_payload(message: Json) -> Json:
    """A message of a case has one payload; ours have an empty content beside the others."""
    if message.get("content") == "" and ("reasoning_content" in message or "function_call" in message):
        return {key: value for key, value in message.items() if key != "content"}
    return message


def _in_words_of_a_case(error: Json, emitted: bool) -> Json:
    upstream = error["upstream"]
    return {
        "kind": error["code"],
        "transient": error["retryable"],
        "retry_safe": error["retryable"] and not emitted,
        "status": upstream["status"],
        "message": error["message"],
        "retry_after_s": error.get("retry_after_seconds"),
    }
