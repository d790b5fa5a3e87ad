"""An independent reading of a recorded reply: slow, whole-file, and plain enough to be believed.

It follows the rules in `tests/conformance/README.md` and shares no line with the gateway. Text is joined over all
segments, so a comparison needs no segment rules: join the reasoning of all messages, join their content, and compare
both stripped, because content that is whitespace as a whole may have been dropped.
"""

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.streams.calls import Calls, is_json

Json = dict[str, Any]

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ANSWER_OPEN, ANSWER_CLOSE = "<response>", "</response>"
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
THOUGHTS = ("thinking", "reasoning")
TEXTS = ("text", "thinking", "reasoning", "summary", "content")
TOTAL = re.compile(r"tokens$|_eval_count|^eval_count|TokenCount")
"""The names of numbers of tokens."""
LENGTH = {"length", "max_new_tokens", "max_tokens", "model_context_window_exceeded"}
FILTER = {"content_filter", "sensitive", "recitation", "safety"}
FAILED = {"error", "network_error", "abort", "server_error", "failed", "timeout", "interrupted"}
FAILED |= {"malformed_function_call", "unexpected_tool_call"}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a recorded reply holds."""

    reasoning: str
    content: str
    calls: list[tuple[str, str]]
    """Name and arguments text of each call."""
    finish_reason: str | None
    """By rule 7; None when the reply failed."""
    usage: Json | None
    """Of each number the last one that says something; None without a number of tokens."""
    error: bool
    """The reply must be reported as an error."""
    complete: bool
    """A finish reason was seen; or [DONE] or a whole JSON reply, with any part of a reply."""


@dataclass
class Reading:
    """What has been read of one reply."""

    structured: str = ""
    text: str = ""
    spoken: str = ""
    """The transcript."""
    calls: Calls = field(default_factory=Calls)
    own: int = 0
    """The index of the choice that is the reply."""
    others: dict[tuple[int, int], Calls] = field(default_factory=dict)
    """The calls of the other choices, by index and by place among those of the same index."""
    reason: str | None = None
    usage: Json | None = None
    done: bool = False
    failed: bool = False


@functools.cache
def read(path: Path) -> Expected:
    """Read one recorded file, an event stream or a JSON body. Several tests read each of them."""
    return read_body(path.read_bytes())


def read_body(body: bytes) -> Expected:
    """Read one reply: what it is, is seen from its first character."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    reading = Reading()
    if is_json(text):
        document = json.loads(text)
        reading.own = _find_own([document])
        _take_object(reading, document, whole=True)
        reading.done = not reading.failed
    else:
        events = [*_events(text.replace("\r\n", "\n").replace("\r", "\n"))]
        reading.own = _find_own([json.loads(data) for _, data in events if is_json(data)])
        _take_events(reading, events)
    return _conclude(reading)


def _find_own(documents: list[Any]) -> int:
    """The index of the choice that is the reply: 0, or the first that comes if there is no choice 0."""
    choices = [
        choice for document in documents if isinstance(document, dict) for choice in _items(document.get("choices"))
    ]
    indices = [choice.get("index") or 0 for choice in choices]
    return 0 if 0 in indices or not indices else int(indices[0])


def _take_events(reading: Reading, events: list[tuple[str, str]]) -> None:
    for name, data in events:
        if data.strip() == "[DONE]":
            reading.done = True
            return
        finished = reading.reason is not None
        try:
            document = json.loads(data)
        except ValueError:
            document = None  # which is an error as well
        if name == "error":
            reading.failed = True
        else:
            _take_object(reading, document, whole=False)
        if reading.failed:
            reading.failed = not finished
            return


def _events(text: str) -> Iterator[tuple[str, str]]:
    """Event name and data of each event; several documents in one event count as several events."""
    for block in text.split("\n\n"):
        fields = [line.partition(":") for line in block.split("\n")]
        names = [value.strip() for key, _, value in fields if key == "event"]
        lines = [value.removeprefix(" ") for key, _, value in fields if key == "data"]
        yield from (("error", value) for key, _, value in fields if key == "error")
        yield from (("", line) for line in block.split("\n") if line.startswith("{") and is_json(line))
        joined = "\n".join(lines)
        if joined.strip():
            several = len(lines) > 1 and not is_json(joined)
            yield from ((names[-1] if names else "", data) for data in (lines if several else [joined]))


def _take_object(reading: Reading, document: Any, whole: bool) -> None:
    if not isinstance(document, dict) or _is_error(document) or (whole and not document.get("choices")):
        reading.failed = True
        return
    places = [document, document.get("x_groq") or {}]
    met: list[int] = []
    for choice in _items(document.get("choices")):
        index = choice.get("index") or 0
        if index == reading.own and index not in met:
            _take_choice(reading, choice, whole)
            places.insert(1, choice)
        else:
            calls = reading.others.setdefault((index, met.count(index)), Calls())
            fragments = (choice.get("message") or choice.get("delta") or {}).get("tool_calls") or []
            (calls.add_whole if choice.get("message") else calls.add_delta)(fragments)
        met.append(index)
    told: Json = next((place["usage"] for place in places if place.get("usage")), {})
    reading.usage = _later(reading.usage or {}, told)


def _is_error(document: Json) -> bool:
    status = (document.get("base_resp") or {}).get("status_code")
    if document.get("error") or document.get("object") == "error" or status:
        return True
    words = document.get("message") or document.get("msg")
    failed = document.get("detail") or document.get("errors") or document.get("success") is False
    return not document.get("choices") and bool(
        failed or document.get("status") == "error" or (words and document.get("code"))
    )


def _take_choice(reading: Reading, choice: Json, whole: bool) -> None:
    if choice.get("error"):
        reading.failed = True
    delta, message = choice.get("delta"), choice.get("message")
    delta = delta[0] if isinstance(delta, list) else delta
    if delta is None and message is None:
        answers = [one for one in choice.get("messages") or [] if one["role"] == "assistant"]
        message = answers[-1] if answers else None
        delta = None if answers else {"content": choice.get("text")}
    if (delta or message or {}).get("role") == "tool":
        reading.calls.drop((delta or message or {}).get("tool_call_id"))
        return
    if message and (whole or delta is None):
        if not (reading.text or reading.spoken or reading.structured or reading.calls.opened):
            _take_message(reading, message, whole=True)
    elif delta:
        _take_message(reading, delta, whole=False)
    reason = choice.get("finish_reason")
    if reason is not None and (reason or whole):
        native = str(choice.get("native_finish_reason"))
        counts = reason == "stop" and _parts(native) & (LENGTH | FILTER | FAILED)
        reading.reason = reading.reason or (native if counts else reason)


def _take_message(reading: Reading, message: Json, whole: bool) -> None:
    reasoning, content = _reasoning(message), ""
    for kind, text in _content_parts(message.get("content")):
        reasoning += text if kind == "thinking" else ""
        content += text if kind == "text" else ""
    refusal = message.get("refusal") or ""
    content += refusal if isinstance(refusal, str) else json.dumps(refusal)
    reading.spoken += (message.get("audio") or {}).get("transcript") or ""
    if reasoning.strip() or content.strip():
        reading.calls.interrupt()
    reading.structured += reasoning
    reading.text += content
    fragments = _items(message.get("tool_calls"))
    legacy = message.get("function_call") or {}
    if legacy.get("name") or legacy.get("arguments"):
        fragments = [*fragments, {"index": 0, "function": legacy}]
    (reading.calls.add_whole if whole else reading.calls.add_delta)(fragments)


def _later(known: Any, told: Any) -> Any:
    """What comes later, but for nulls and zeros, which say nothing."""
    if isinstance(known, dict) and isinstance(told, dict):
        return known | {name: _later(known.get(name), value) for name, value in told.items()}
    return known if known is not None and (told is None or told == 0) else told


def _items(value: Any) -> list[Json]:
    """A list, or the object or objects in its place."""
    if isinstance(value, dict):
        return list(value.values()) if "0" in value else [value]
    return value or []


def _reasoning(message: Json) -> str:
    fields = [message.get(name) for name in REASONING_FIELDS]
    fields += [(message.get("provider_specific_fields") or {}).get("reasoning_content")]
    fields += [message.get("reasoning_details"), message.get("thinking_blocks")]
    return next((text for text in map(_texts, fields) if text), "")


def _texts(value: Any) -> str:
    """The texts in a value of reasoning."""
    if isinstance(value, dict):
        return next((_texts(value[name]) for name in TEXTS if value.get(name)), "")
    return "".join(map(_texts, value)) if isinstance(value, list) else value or ""


def _content_parts(content: Any) -> Iterator[tuple[str, str]]:
    parts = content if isinstance(content, list) else [content]
    if content is None or isinstance(content, str):
        yield "text", content or ""
    elif any(isinstance(part, dict) and "type" in part and {*part} & {*TEXTS} for part in parts):
        yield from (("thinking" if part["type"] in THOUGHTS else "text", _texts(part)) for part in parts)
    else:
        yield "text", json.dumps(content, ensure_ascii=False)


def _conclude(reading: Reading) -> Expected:
    reasoning, content = _split_think(reading.structured, reading.text)
    if not content.startswith(reading.spoken):
        content = "" if reading.spoken.startswith(content) else content
        content += reading.spoken
    opened = reading.calls.opened or any(calls.opened for calls in reading.others.values())
    complete = reading.reason is not None or (
        reading.done and bool(reading.structured or reading.text or reading.spoken or opened)
    )
    error = reading.failed or not complete or bool(_parts(reading.reason or "") & FAILED)
    calls = reading.calls.in_order(closed=not error)
    if not reading.calls.opened:
        calls = [call for _, other in sorted(reading.others.items()) for call in other.in_order(closed=not error)]
    return Expected(
        reasoning=_whole_characters(reasoning),
        content=_whole_characters(content),
        calls=calls,
        finish_reason=None if error else _finish(reading.reason or "", bool(calls)),
        usage=reading.usage if any(TOTAL.search(name) for name in reading.usage or ()) else None,
        error=error,
        complete=complete,
    )


def _split_think(structured: str, text: str) -> tuple[str, str]:
    if structured:
        text = text if not text.lstrip().startswith(THINK_CLOSE) else text.lstrip().removeprefix(THINK_CLOSE)
    if structured.strip() or not text.lstrip().startswith(THINK_OPEN):
        return structured, text
    thought, _, answer = text.lstrip().removeprefix(THINK_OPEN).partition(THINK_CLOSE)
    if answer.lstrip().startswith(ANSWER_OPEN):
        answer = answer.lstrip().removeprefix(ANSWER_OPEN).replace(ANSWER_CLOSE, "", 1)
    return thought, answer


def _parts(word: str) -> set[str]:
    """The words around the colons of a finish reason."""
    return {part.strip().lower() for part in word.split(":")}


def _finish(reason: str, has_calls: bool) -> str:
    if _parts(reason) & LENGTH:
        return "length"
    if _parts(reason) & FILTER:
        return "content_filter"
    return "tool_calls" if has_calls else "stop"


def _whole_characters(text: str) -> str:
    """The text with halves of surrogate pairs joined, and lone ones replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
