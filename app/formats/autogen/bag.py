"""What AutoGen cannot say of a message: kept in an item's `metadata`, under one key, as JSON text.

It holds the messages that the item stands for, as far as they differ from what the item says by itself, and a seal over
what the item says. An item that somebody edited no longer fits its seal: then what it says counts.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from app.chat.messages import Media, Message, Part, Role, ToolCall, ToolResult
from app.formats.autogen.leaves import compact
from app.formats.autogen.pieces import Verdict, pieces
from app.formats.autogen.schema import (
    AutogenItem,
    Spoken,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)

KEY = "parley"
OWN_KEYS = ("autogen", "autogen_before", "autogen_after")
"""Of `Message.extra`: what keeps AutoGen's items beside the messages that were read from them."""
ID_HEAD = "parley-"
"""Ids that a history is given here; they name no message of anybody else."""
_NAMELESS = "n"
"""Behind it in the id of an item whose source nobody named: Qwen-Agent's and OpenAI's messages often have no sender."""


class _Change(TypedDict, total=False):
    role: Role
    name: str | None
    turn: str | None
    extra: dict[str, Any]
    parts: tuple[Annotated[Part, Field(discriminator="kind")], ...]


class _Bag(TypedDict):
    seal: str
    messages: list[_Change]


_adapter: TypeAdapter[_Bag] = TypeAdapter(_Bag)


def seal(raw: Mapping[str, Any]) -> str:
    """A digest of what an item says: all of it but when, under which id and at what cost."""
    said = {key: raw[key] for key in raw if key not in ("id", "created_at", "models_usage", "metadata")}
    text = json.dumps(said, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def item_id(number: int, raw: Mapping[str, Any], *, nameless: bool) -> str:
    """The id of the item at this place of a history; equal histories get equal ids."""
    return f"{ID_HEAD}{_NAMELESS if nameless else ''}{number}-{seal(raw)}"


def _is_nameless(raw: Mapping[str, Any]) -> bool:
    """Somebody who edited what the item says, or its source, named it."""
    id_ = raw.get("id")
    return isinstance(id_, str) and id_.startswith(ID_HEAD + _NAMELESS) and id_.endswith("-" + seal(raw))


def told(item: AutogenItem, raw: Mapping[str, Any], verdict: Verdict, path: str = "") -> list[Message]:
    """The messages of an item, with what it says of itself in their `extra`."""
    if verdict.how == "kept":
        return restored(item, raw, path) or []
    messages = pieces(item, verdict, path)
    if _is_nameless(raw):
        messages = [message if message.role == "tool" else replace(message, name=None) for message in messages]
    origin = _origin(raw)
    usage = raw.get("models_usage")
    for place, message in enumerate(messages):
        last = place == len(messages) - 1
        extra = origin | ({"usage": usage} if usage and last else {})
        if extra:
            messages[place] = replace(message, extra=extra)
    return messages


def _origin(raw: Mapping[str, Any]) -> dict[str, Any]:
    origin: dict[str, Any] = {}
    id_ = raw.get("id")
    if isinstance(id_, str) and id_ and not id_.startswith(ID_HEAD):
        origin["message_id"] = id_
    if "created_at" in raw:
        origin["created_at"] = raw["created_at"]
    metadata = {key: value for key, value in (raw.get("metadata") or {}).items() if key not in ("kind", KEY)}
    return origin | ({"metadata": metadata} if metadata else {})


def restored(item: AutogenItem, raw: Mapping[str, Any], path: str = "") -> list[Message] | None:
    """The messages that an item was made of; None where it holds none or was edited since."""
    text = (raw.get("metadata") or {}).get(KEY)
    if text is None:
        return None
    try:
        bag = _adapter.validate_json(text)
    except (ValueError, RecursionError):
        return None
    if bag["seal"] != seal(raw):
        return None
    base = told(item, raw, plain_verdict(item))
    return [_changed(base, place, change, path) for place, change in enumerate(bag["messages"])]


def _changed(base: Sequence[Message], place: int, change: _Change, path: str) -> Message:
    message = base[place] if place < len(base) else Message("user", ())
    fields: dict[str, Any] = dict(change)
    changed = replace(message, **fields)
    return replace(changed, path=path, parts=tuple(_at(part, path) for part in changed.parts))


def _at(part: Part, path: str) -> Part:
    if isinstance(part, Media | ToolCall):
        return replace(part, path=path)
    if isinstance(part, ToolResult):
        content = tuple(replace(one, path=path) if isinstance(one, Media) else one for one in part.content)
        return replace(part, content=content)
    return part


def plain_verdict(item: AutogenItem) -> Verdict:
    """What an item is that a history was written with, whoever reads it."""
    if isinstance(item, ThoughtEvent):
        return Verdict("content" if (item.metadata or {}).get("kind") == "content" else "reasoning")
    if isinstance(item, ToolCallRequestEvent):
        return Verdict("calls")
    if isinstance(item, ToolCallExecutionEvent):
        return Verdict("results")
    if isinstance(item, Spoken):
        return Verdict("user" if item.source == "user" else "own")
    return Verdict("core")


def bare(message: Message) -> Message:
    """The message without places and without AutoGen's own items, to compare it. A result's sender is nobody."""
    extra = {key: value for key, value in message.extra.items() if key not in OWN_KEYS}
    name = None if message.role == "tool" else message.name
    return replace(message, path="", name=name, extra=extra, parts=tuple(_at(part, "") for part in message.parts))


def packed(item: AutogenItem, raw: dict[str, Any], messages: Sequence[Message]) -> dict[str, Any]:
    """The item with the messages that it stands for."""
    base = [bare(one) for one in told(item, raw, plain_verdict(item))]
    changes = [_change(base[place] if place < len(base) else None, bare(one)) for place, one in enumerate(messages)]
    text = compact({"seal": seal(raw), "messages": changes})
    return raw | {"metadata": (raw.get("metadata") or {}) | {KEY: text}}


def _change(base: Message | None, message: Message) -> dict[str, Any]:
    base = base or Message("user", ())
    change: dict[str, Any] = {}
    for field in ("role", "name", "turn", "extra"):
        value = getattr(message, field)
        if value != getattr(base, field):
            change[field] = dict(value) if field == "extra" else value
    if message.parts != base.parts:
        change["parts"] = [_without_marks(asdict(part)) for part in message.parts]
    return change


def _without_marks(part: dict[str, Any]) -> dict[str, Any]:
    """Marks for the cache of a model's server and the place of a call are of one request."""
    of_request = {"mark", "path"} if part["kind"] == "tool_call" else {"mark"}
    kept = {key: value for key, value in part.items() if key not in of_request}
    content = kept.get("content")
    return kept | {"content": [_without_marks(one) for one in content]} if content is not None else kept
