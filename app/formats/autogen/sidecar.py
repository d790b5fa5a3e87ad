"""The side-car of an AutoGen item: the data of messages for which AutoGen has no field, in the item's `metadata`.

It is JSON text under one key. It holds the messages that the item represents, as far as they differ from those that its
own fields give, and a seal: a digest of these fields. If a client edited the item, the seal does not match, and the
side-car is ignored.
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
from app.formats.served_calls import read_note
from app.formats.sidecar import ID_HEAD, digest, read_notes, with_notes, without_notes

OWN_KEYS = ("autogen", "autogen_before", "autogen_after")
"""The keys of `Message.extra` that hold the AutoGen items from which a message was read."""
_NAMELESS = "n"
"""The letter after `ID_HEAD` in the id of an item whose message has no name, as in many of Qwen-Agent and OpenAI."""


class _Change(TypedDict, total=False):
    role: Role
    name: str | None
    turn: str | None
    extra: dict[str, Any]
    parts: tuple[Part, ...]


class _Sidecar(TypedDict):
    seal: str
    messages: list[_Change]


_decode_sidecar = msgspec.json.Decoder(_Sidecar).decode


def digest_item(raw: Mapping[str, Any]) -> str:
    """Return a digest of an item's content: of all fields except its id, time, usage and metadata."""
    content = {key: raw[key] for key in raw if key not in ("id", "created_at", "models_usage", "metadata")}
    return digest(content, 16)


def make_item_id(number: int, raw: Mapping[str, Any], *, nameless: bool) -> str:
    """Return the id of the item with this number in a history. Identical histories get identical ids."""
    return f"{ID_HEAD}{_NAMELESS if nameless else ''}{number}-{digest_item(raw)}"


def _is_nameless(raw: Mapping[str, Any]) -> bool:
    """Whether the item represents a message without a name. If the item was edited, its source is a name."""
    id_ = raw.get("id")
    return isinstance(id_, str) and id_.startswith(ID_HEAD + _NAMELESS) and id_.endswith("-" + digest_item(raw))


def read_item(item: AutogenItem, raw: Mapping[str, Any], role: ItemRole, path: str = "") -> list[Message]:
    """Return the messages of an item. Their `extra` has the item's id, time, usage and metadata."""
    if role.kind == "kept":
        return restore(item, raw, path) or []
    messages = parse_item(item, role, path)
    if _is_nameless(raw):
        messages = [message if message.role == "tool" else replace(message, name=None) for message in messages]
    origin = _origin(raw)
    usage = raw.get("models_usage")
    for index, message in enumerate(messages):
        last = index == len(messages) - 1
        extra = origin | ({"usage": usage} if usage and last else {})
        if extra:
            messages[index] = replace(message, extra=extra)
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
    """Return the messages that an item represents, from its side-car; None if it has none, or was edited."""
    sidecar = read_notes(raw.get("metadata"), _decode_sidecar)
    if sidecar is None or sidecar["seal"] != digest_item(raw):
        return None
    base = read_item(item, raw, find_default_role(item))
    return [_apply_change(base, index, change, path) for index, change in enumerate(sidecar["messages"])]


def _apply_change(base: Sequence[Message], index: int, change: _Change, path: str) -> Message:
    message = base[index] if index < len(base) else Message("user", ())
    fields: dict[str, Any] = dict(change)
    changed = replace(message, **fields)
    parts = (_set_path(part, path) for part in changed.parts)
    return replace(
        changed, path=path, parts=tuple(read_note(part) if isinstance(part, ToolCall) else part for part in parts)
    )


def _set_path(part: Part, path: str) -> Part:
    if isinstance(part, Media | ToolCall):
        return replace(part, path=path)
    if isinstance(part, ToolResult):
        content = tuple(replace(one, path=path) if isinstance(one, Media) else one for one in part.content)
        return replace(part, content=content)
    return part


def find_default_role(item: AutogenItem) -> ItemRole:
    """Return the role that an item has in a history that Parley wrote, independent of the reading agent."""
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
    """Return the message in a form to compare: without paths, AutoGen's items, and the name of a tool message."""
    extra = {key: value for key, value in message.extra.items() if key not in OWN_KEYS}
    name = None if message.role == "tool" else message.name
    return replace(message, path="", name=name, extra=extra, parts=tuple(_set_path(part, "") for part in message.parts))


def add_sidecar(item: AutogenItem, raw: dict[str, Any], messages: Sequence[Message]) -> dict[str, Any]:
    """Return the item with a side-car for the messages that it represents."""
    base = [normalize_message(message) for message in read_item(item, raw, find_default_role(item))]
    changes = [
        _make_change(base[index] if index < len(base) else None, normalize_message(message))
        for index, message in enumerate(messages)
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
    """Return the part without cache marks and the path of a call, which belong to one request only, and without what
    says of a call that the gateway runs it."""
    kind = part.pop("kind")  # it is written last
    omitted = {"path", "server", "tool", "awaits_approval"} if kind == "tool_call" else {"mark"}
    fields = {key: value for key, value in part.items() if key not in omitted}
    if "content" in fields:
        fields["content"] = [_without_marks(item) for item in fields["content"]]
    return fields | {"kind": kind}
