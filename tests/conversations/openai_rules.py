"""What a model server refuses of an OpenAI message list, written independently of the code that writes the list."""

from collections.abc import Sequence
from typing import Any

ROLES = {"system", "user", "assistant", "tool"}
PARTS = {
    "text": "text",
    "image_url": "image_url",
    "input_audio": "input_audio",
    "video_url": "video_url",
    "video": "video",
    "file": "file",
}
Json = dict[str, Any]


def broken(messages: Sequence[Json]) -> str | None:
    """The first rule that the list breaks, with the message that breaks it."""
    waiting: list[str] = []
    used: set[str] = set()
    if not messages:
        return "the list is empty"
    for place, message in enumerate(messages):
        fault = _broken(message) or _order(message, waiting, used)
        if fault:
            return f"[{place}]: {fault}"
    return f"at the end: no result for {waiting}" if waiting else None


def _order(message: Json, waiting: list[str], used: set[str]) -> str | None:
    """Results stand directly behind their calls, each call has one, and no id is used twice."""
    if message["role"] == "tool":
        if message["tool_call_id"] not in waiting:
            return f"no call waits for the result {message['tool_call_id']!r}"
        waiting.remove(message["tool_call_id"])
        return None
    if waiting:
        return f"no result for {waiting}"
    for one in message.get("tool_calls", ()):
        if one["id"] in used:
            return f"the id {one['id']!r} is used twice"
        used.add(one["id"])
        waiting.append(one["id"])
    return None


def _broken(message: Json) -> str | None:
    role = message.get("role")
    if role not in ROLES:
        return f"the role {role!r}"
    calls, content = message.get("tool_calls"), message.get("content")
    if "tool_calls" in message and (role != "assistant" or not calls):
        return "tool_calls that are empty or not an assistant's"
    if "content" not in message or (content is None and not calls):
        return "no content"
    if ("tool_call_id" in message) is not (role == "tool"):
        return "tool_call_id missing, or not of a tool message"
    if role == "tool" and not isinstance(content, str):
        return "a result of parts"
    faults = [_part(part) for part in content] if isinstance(content, list) else []
    faults += [_call(one) for one in calls or ()]
    return next((fault for fault in faults if fault), None)


def _part(part: Any) -> str | None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in PARTS or set(part) != {"type", PARTS[kind]}:
        return f"the part {part!r}"
    return "an empty text part" if part.get("text") == "" else None


def _call(one: Json) -> str | None:
    function = one.get("function")
    if one.get("type") != "function" or not isinstance(one.get("id"), str) or not one["id"]:
        return f"a call without id or type: {one!r}"
    if not isinstance(function, dict) or set(function) != {"name", "arguments"} or not function["name"]:
        return f"a call of no function: {one!r}"
    return None if isinstance(function["arguments"], str) and function["arguments"] else f"no arguments: {one!r}"
