"""Keeps what a format has no field for: the common part of the sidecars of all formats.

Notes are under one key of a field that clients send back unchanged (`extra` of Qwen-Agent, `metadata` of AutoGen and
AgentScope). A parsed message can keep its original, in `Message.extra` under the name of its format. Both come from a
caller: invalid notes are ignored, and an original is written again only if parsing it gives the present messages.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from app.chat.messages import Message

SIDECAR_KEY = "parley"
ID_HEAD = "parley-"
"""The prefix of the ids that are made here for messages without one."""
Notes = TypeVar("Notes")


def digest(value: Any, length: int) -> str:
    """Return a digest of any JSON that does not depend on the order of its keys."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def read_notes(holder: Mapping[str, Any] | None, validate: Callable[[Any], Notes]) -> Notes | None:
    """Return the notes in `extra` or `metadata`, or None if they are missing or invalid."""
    if not holder or SIDECAR_KEY not in holder:
        return None
    try:
        return validate(holder[SIDECAR_KEY])
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def without_notes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in holder.items() if key != SIDECAR_KEY}


def with_notes(holder: Mapping[str, Any] | None, notes: Any) -> dict[str, Any]:
    return {**(holder or {}), SIDECAR_KEY: notes}


def keep_original(messages: Sequence[Message], key: str, raw: Any, **how: Any) -> list[Message]:
    """Keep the original, and `how` it was parsed, in the first message; the others get their position."""
    marks = [{"raw": raw, "k": 0, **how}, *({"k": place} for place in range(1, len(messages)))]
    return [replace(one, extra={**one.extra, key: mark}) for one, mark in zip(messages, marks, strict=True)]


def find_original(message: Message, key: str) -> dict[str, Any] | None:
    """Return what `keep_original` put into the first message: the original under `raw`, and how it was parsed."""
    kept = message.extra.get(key)
    if not isinstance(kept, dict) or kept.get("k") != 0 or not isinstance(kept.get("raw"), dict):
        return None
    return kept


def count_unchanged(
    messages: Sequence[Message],
    start: int,
    key: str,
    read: Callable[[dict[str, Any]], Sequence[Message] | None],
    is_same: Callable[[Message, Message], bool],
) -> int:
    """Return how many messages from `start` on are unchanged since they were parsed from the original, or 0.

    `read` validates and parses what `find_original` found, because it comes from a caller. `is_same` compares a message
    of the original with a present one.
    """
    kept = find_original(messages[start], key)
    original = read(kept) if kept else None
    if not original:
        return 0
    present = messages[start : start + len(original)]
    return len(original) if len(present) == len(original) and all(map(is_same, original, present)) else 0
