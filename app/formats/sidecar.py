"""What formats cannot say of a conversation and keep beside it: what the side-cars of all formats have in common.

Notes stand under one key of a place that a client sends back unread (`extra` of Qwen-Agent, `metadata` of AutoGen and
AgentScope). A message that was read may travel as it came, in `Message.extra` under the name of its format. Neither is
trusted blindly: notes that are not valid count as none, and an original is written again only where reading it gives
the present messages.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from app.chat.messages import Message

SIDECAR_KEY = "parley"
ID_HEAD = "parley-"
"""Ids that a message is given here; they name no message of anybody else."""
Notes = TypeVar("Notes")


def digest(value: Any, length: int) -> str:
    """Of any JSON, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def read_notes(holder: Mapping[str, Any] | None, validate: Callable[[Any], Notes]) -> Notes | None:
    """The notes in `extra` or `metadata`; None where there are none, or none that are valid."""
    if not holder or SIDECAR_KEY not in holder:
        return None
    try:
        return validate(holder[SIDECAR_KEY])
    except (ValueError, RecursionError):
        return None


def without_notes(holder: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in holder.items() if key != SIDECAR_KEY}


def with_notes(holder: Mapping[str, Any] | None, notes: Any) -> dict[str, Any]:
    return {**(holder or {}), SIDECAR_KEY: notes}


def keep_original(messages: Sequence[Message], key: str, raw: Any, **how: Any) -> list[Message]:
    """The messages with what they were read from: the first has it, and `how` it was read; the others their place."""
    marks = [{"raw": raw, "k": 0, **how}, *({"k": place} for place in range(1, len(messages)))]
    return [replace(one, extra={**one.extra, key: mark}) for one, mark in zip(messages, marks, strict=True)]


def find_original(message: Message, key: str) -> dict[str, Any] | None:
    """What `keep_original` put at the first message: the original under `raw`, and how it was read."""
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
    """How many messages from here on are still what the original kept at the first of them says; 0: none.

    `read` checks what `find_original` found: it comes from a caller. `is_same` takes a message of it and a present one.
    """
    kept = find_original(messages[start], key)
    said = read(kept) if kept else None
    if not said:
        return 0
    present = messages[start : start + len(said)]
    return len(said) if len(present) == len(said) and all(map(is_same, said, present)) else 0
