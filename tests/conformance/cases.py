"""How a conformance case is read, and how a result is compared with what the case expects."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
GENERATED = "<generated>"
ERROR_FIELDS = ("kind", "transient", "retry_safe", "status", "retry_after_s")

Json = dict[str, Any]


def load_cases() -> list[Json]:
    """Every case of the folder, in the order of its id."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(CASES.glob("*.json"))]


def body_chunks(case: Json) -> list[bytes]:
    """The TCP reads of the case's body, as sent."""
    chunks = case["upstream_body_chunks"]
    if case["upstream_body_encoding"] == "base64":
        return [base64.b64decode(chunk, validate=True) for chunk in chunks]
    return [chunk.encode("latin-1") for chunk in chunks]


def compare(case: Json, got: Json) -> list[str]:
    """What differs between the expectation and `got`: {messages, finish_reason, usage, error}; empty when nothing."""
    want = case["expect"]
    if len(got["messages"]) != len(want["messages"]):
        seen = json.dumps(got["messages"], ensure_ascii=False)[:500]
        return [f"message count {len(want['messages'])} != {len(got['messages'])}: {seen}"]
    return [
        *_compare_messages(want, got["messages"]),
        *_compare_finish(want, got),
        *_compare_errors(want["error"], got["error"]),
    ]


def _compare_messages(want: Json, messages: list[Json]) -> Iterator[str]:
    stripped = want["compare"].get("text") == "strip"
    as_json = want["compare"].get("arguments") == "json"
    ids: set[object] = set()
    for place, (expected, message) in enumerate(zip(want["messages"], messages, strict=True)):
        found = [*_compare_texts(expected, message, stripped), *_compare_calls(expected, message, as_json)]
        yield from (f"message {place} {difference}" for difference in found)
        if "function_call" in expected:
            function_id = _extra(message).get("function_id")
            if function_id in ids:
                yield f"duplicate function_id {function_id!r}"
            ids.add(function_id)


def _compare_texts(expected: Json, message: Json, stripped: bool) -> Iterator[str]:
    for field in ("reasoning_content", "content"):
        texts = [side.get(field) for side in (expected, message)]
        if stripped:
            texts = [text.strip() if isinstance(text, str) else text for text in texts]
        if texts[0] != texts[1]:
            yield f"{field}: {texts[0]!r} != {texts[1]!r}"


def _compare_calls(expected: Json, message: Json, as_json: bool) -> Iterator[str]:
    want, got = expected.get("function_call"), message.get("function_call") or {}
    if want is None:
        if got:
            yield f"unexpected function_call {got!r}"
        return
    if want["name"] != got.get("name"):
        yield f"name {want['name']!r} != {got.get('name')!r}"
    if not _same_arguments(want["arguments"], got.get("arguments"), as_json):
        yield f"arguments {want['arguments']!r} != {got.get('arguments')!r}"
    want_id, got_id = expected["extra"]["function_id"], _extra(message).get("function_id")
    if not got_id or want_id not in (GENERATED, got_id):
        yield f"function_id {want_id!r} != {got_id!r}"
    if _marked_invalid(expected) != _marked_invalid(message):
        yield "arguments_valid"


def _same_arguments(want: str, got: object, as_json: bool) -> bool:
    if want == got or not as_json or not isinstance(got, str):
        return want == got
    try:
        return bool(json.loads(want) == json.loads(got))
    except ValueError:
        return False


def _extra(message: Json) -> Json:
    return message.get("extra") or {}


def _marked_invalid(message: Json) -> bool:
    return _extra(message).get("arguments_valid") is False


def _compare_finish(want: Json, got: Json) -> Iterator[str]:
    if want["finish_reason"] != got["finish_reason"]:
        yield f"finish_reason {want['finish_reason']!r} != {got['finish_reason']!r}"
    usage = got["usage"] or {}
    if want["usage"] is None and got["usage"] is not None and not want["error"]:
        yield "usage should be null"
    for field, number in (want["usage"] or {}).items():
        if usage.get(field) != number:
            yield f"usage.{field} {number!r} != {usage.get(field)!r}"


def _compare_errors(want: Json | None, got: Json | None) -> Iterator[str]:
    if not want or not got:
        if want or got:
            yield f"error {want!r} != {got!r}"
        return
    for field in ERROR_FIELDS:
        if field in want and want[field] != got.get(field):
            yield f"error.{field} {want[field]!r} != {got.get(field)!r}"
    message = got.get("message") or ""
    if want.get("message_contains", "").lower() not in message.lower():
        yield f"error message lacks {want['message_contains']!r}: {message!r}"
    if want.get("message_excludes") and want["message_excludes"] in message:
        yield f"error message must not contain {want['message_excludes']!r}"
