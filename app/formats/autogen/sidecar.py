"""What AutoGen cannot say of a message: kept in an item's `metadata`, under one key, as JSON text.

It holds the messages that the item stands for, as far as they differ from what the item says by itself, and a seal over
what the item says. An item that somebody edited no longer fits its seal: then what it says counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from typing_extensions import TypedDict

from app.chat.messages import Media, Message, Part, Role, ToolCall, ToolResult
from app.formats.autogen.item_parser import ItemRole, parse_item
from app.formats.autogen.schema import (
    AgentItem,
    AutogenItem,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from app.formats.autogen.value_types import dump_json
from app.formats.sidecar import ID_HEAD, digest, read_notes, with_notes, without_notes

OWN_KEYS = ("autogen", "autogen_before", "autogen_after")
"""Of `Message.extra`: what keeps AutoGen's items beside the messages that were read from them."""
_NAMELESS = "n"
"""Behind it in the id of an item whose source nobody named: Qwen-Agent's and OpenAI's messages often have no sender."""


class _Change(TypedDict, total=False):
    role: Role
    name: str | None
    turn: str | None
    extra: dict[str, Any]
    parts: tuple[Part, ...]


class _Sidecar(TypedDict):
    seal: str
    messages: list[_Change]


_decoder = msgspec.json.Decoder(_Sidecar)


def _decode_sidecar(text: Any) -> _Sidecar:
    if not isinstance(text, str):
        raise ValueError("a side-car of AutoGen is JSON text")
    return _decoder.decode(text)


def digest_item(raw: Mapping[str, Any]) -> str:
    """A digest of what an item says: all of it but when, under which id and at what cost."""
    said = {key: raw[key] for key in raw if key not in ("id", "created_at", "models_usage", "metadata")}
    return digest(said, 16)


def item_id(number: int, raw: Mapping[str, Any], *, nameless: bool) -> str:
    """The id of the item at this place of a history; equal histories get equal ids."""
    return f"{ID_HEAD}{_NAMELESS if nameless else ''}{number}-{digest_item(raw)}"


def _is_nameless(raw: Mapping[str, Any]) -> bool:
    """Somebody who edited what the item says, or its source, named it."""
    id_ = raw.get("id")
    return isinstance(id_, str) and id_.startswith(ID_HEAD + _NAMELESS) and id_.endswith("-" + digest_item(raw))


def read_item(item: AutogenItem, raw: Mapping[str, Any], verdict: ItemRole, path: str = "") -> list[Message]:
    """The messages of an item, with what it says of itself in their `extra`."""
    if verdict.kind == "kept":
        return restore(item, raw, path) or []
    messages = parse_item(item, verdict, path)
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
    metadata = {key: value for key, value in without_notes(raw.get("metadata") or {}).items() if key != "kind"}
    return origin | ({"metadata": metadata} if metadata else {})


def restore(item: AutogenItem, raw: Mapping[str, Any], path: str = "") -> list[Message] | None:
    """The messages that an item was made of; None where it holds none or was edited since."""
    bag = read_notes(raw.get("metadata"), _decode_sidecar)
    if bag is None or bag["seal"] != digest_item(raw):
        return None
    base = read_item(item, raw, find_default_role(item))
    return [_apply_change(base, place, change, path) for place, change in enumerate(bag["messages"])]


def _apply_change(base: Sequence[Message], place: int, change: _Change, path: str) -> Message:
    message = base[place] if place < len(base) else Message("user", ())
    fields: dict[str, Any] = dict(change)
    changed = replace(message, **fields)
    return replace(changed, path=path, parts=tuple(_set_path(part, path) for part in changed.parts))


def _set_path(part: Part, path: str) -> Part:
    if isinstance(part, Media | ToolCall):
        return replace(part, path=path)
    if isinstance(part, ToolResult):
        content = tuple(replace(one, path=path) if isinstance(one, Media) else one for one in part.content)
        return replace(part, content=content)
    return part


def find_default_role(item: AutogenItem) -> ItemRole:
    """What an item is that a history was written with, whoever reads it."""
    if isinstance(item, ThoughtEvent):
        return ItemRole("content" if (item.metadata or {}).get("kind") == "content" else "reasoning")
    if isinstance(item, ToolCallRequestEvent):
        return ItemRole("calls")
    if isinstance(item, ToolCallExecutionEvent):
        return ItemRole("results")
    if isinstance(item, AgentItem):
        return ItemRole("user" if item.source == "user" else "own")
    return ItemRole("core")


def normalize_message(message: Message) -> Message:
    """The message without places and without AutoGen's own items, to compare it. A result's sender is nobody."""
    extra = {key: value for key, value in message.extra.items() if key not in OWN_KEYS}
    name = None if message.role == "tool" else message.name
    return replace(message, path="", name=name, extra=extra, parts=tuple(_set_path(part, "") for part in message.parts))


def add_sidecar(item: AutogenItem, raw: dict[str, Any], messages: Sequence[Message]) -> dict[str, Any]:
    """The item with the messages that it stands for."""
    base = [normalize_message(one) for one in read_item(item, raw, find_default_role(item))]
    changes = [
        _make_change(base[place] if place < len(base) else None, normalize_message(one))
        for place, one in enumerate(messages)
    ]
    text = dump_json({"seal": digest_item(raw), "messages": changes})
    return raw | {"metadata": with_notes(raw.get("metadata"), text)}


def _make_change(base: Message | None, message: Message) -> dict[str, Any]:
    base = base or Message("user", ())
    change: dict[str, Any] = {}
    for field in ("role", "name", "turn", "extra"):
        value = getattr(message, field)
        if value != getattr(base, field):
            change[field] = dict(value) if field == "extra" else value
    if message.parts != base.parts:
        change["parts"] = [_without_marks(msgspec.to_builtins(part)) for part in message.parts]
    return change


def _without_marks(part: dict[str, Any]) -> dict[str, Any]:
    """Marks for the cache of a model's server and the place of a call are of one request. The kind is written last."""
    kind = part.pop("kind")
    of_request = {"mark", "path"} if kind == "tool_call" else {"mark"}
    kept = {key: value for key, value in part.items() if key not in of_request}
    if "content" in kept:
        kept["content"] = [_without_marks(one) for one in kept["content"]]
    return kept | {"kind": kind}
