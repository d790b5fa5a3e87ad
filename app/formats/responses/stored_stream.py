"""The stream of a response that has ended, made from what is stored of it: its events are no longer kept.

Each item comes whole, with one delta for each of its texts.
"""

from collections.abc import Iterator
from typing import Any

from app.formats.responses.events import write_event
from app.formats.responses.response import FAILED, choose_end_type, describe_failure

_IN_PROGRESS: dict[str, Any] = {
    "status": "in_progress",
    "output": [],
    "error": None,
    "incomplete_details": None,
    "usage": None,
}


def write_stored_stream(response: dict[str, Any], last_number: int | None, starting_after: int | None) -> bytes:
    """Return the frames of the stream.

    `last_number` is the sequence number of the last event of the original stream, if there was one. A client that read
    part of that, up to `starting_after`, gets only the last event, which has the whole Response, with the event `error`
    before it if it failed, or nothing if it has read that too.
    """
    end = _list_end_events(response)
    if last_number is not None and starting_after is not None:
        numbered = enumerate(end, last_number + 1 - len(end))
        return b"".join(_write(event, number) for number, event in numbered if number > starting_after)
    started = response | _IN_PROGRESS | {"completed_at": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{kind}", "response": started} for kind in ("created", "in_progress")
    ]
    for index, item in enumerate(response["output"]):
        events += ({**event, "output_index": index} for event in _list_item_events(item))
    events += end
    first = 0 if starting_after is None else starting_after + 1
    return b"".join(_write(event, number) for number, event in enumerate(events) if number >= first)


def _list_end_events(response: dict[str, Any]) -> list[dict[str, Any]]:
    kind = choose_end_type(response)
    failure = [{"type": "error", **describe_failure(response)}] if kind == FAILED else []
    return [*failure, {"type": kind, "response": response}]


def _write(event: dict[str, Any], number: int) -> bytes:
    return write_event({"type": event["type"], "sequence_number": number, **event})


def _list_item_events(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {"item_id": item.get("id")}
    yield {"type": "response.output_item.added", "item": _empty(item)}
    for index, part in enumerate(item.get("summary") or ()):
        place = {**head, "summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        yield from _list_text_events("response.reasoning_summary_text", place, "text", part.get("text", ""))
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
    for index, part in enumerate(item.get("content") or ()):
        yield from _list_part_events({**head, "content_index": index}, part)
    if item.get("type") == "function_call":
        yield from _list_text_events(
            "response.function_call_arguments", head, "arguments", item["arguments"], name=item["name"]
        )
    elif item.get("type") == "custom_tool_call":
        yield from _list_text_events("response.custom_tool_call_input", head, "input", item["input"])
    yield {"type": "response.output_item.done", "item": item}


_TEXTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}
"""The field of each part that has its text."""


def _list_part_events(place: dict[str, Any], part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = part.get("type", "")
    field = _TEXTS.get(kind)
    empty = part if field is None else {**part, field: ""} | ({"logprobs": []} if kind == "output_text" else {})
    yield {"type": "response.content_part.added", **place, "part": empty}
    if field is not None:
        more: dict[str, Any] = {"logprobs": part.get("logprobs") or []} if kind == "output_text" else {}
        yield from _list_text_events(f"response.{kind}", place, field, part.get(field, ""), **more)
    yield {"type": "response.content_part.done", **place, "part": part}


def _list_text_events(kind: str, place: dict[str, Any], field: str, text: str, **more: Any) -> Iterator[dict[str, Any]]:
    if text:
        yield {"type": f"{kind}.delta", **place, "delta": text, **({} if field == "arguments" else more)}
    yield {"type": f"{kind}.done", **place, field: text, **more}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item without the texts that follow."""
    empty: dict[str, Any] = {name: type(item[name])() for name in ("content", "summary") if name in item}
    if item.get("type") == "function_call":
        empty["arguments"] = ""
    elif item.get("type") == "custom_tool_call":
        empty["input"] = ""
    if item.get("content") or item.get("summary"):
        item = {name: value for name, value in item.items() if name != "encrypted_content"}
    return item | empty | ({"status": "in_progress"} if "status" in item else {})
