"""Decides whether an original AutoGen item, kept in `extra`, still has the content of the messages parsed from it."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from pydantic import ValidationError

from app.chat.messages import Message, Part, Reasoning, Text, ToolResult
from app.formats import sidecar
from app.formats.autogen.item_parser import ITEM_ROLE_KINDS, ItemRole
from app.formats.autogen.schema import AutogenItem, one_item
from app.formats.autogen.sidecar import normalize_message, read_item

_EMPTY = (Text(""), Reasoning(""))


def validate_item(raw: Any) -> AutogenItem | None:
    try:
        item: AutogenItem = one_item.validate_python(raw)
    except (ValidationError, RecursionError):
        return None
    return item


def count_unchanged(messages: Sequence[Message], start: int) -> int:
    """Return how many messages from `start` on are unchanged since they were parsed from the item kept there, or 0."""
    return sidecar.count_unchanged(messages, start, "autogen", _read_again, _is_same)


def _read_again(kept: dict[str, Any]) -> list[Message] | None:
    item = validate_item(kept["raw"])
    item_role = _parse_role(kept)
    return None if item is None or item_role is None else read_item(item, kept["raw"], item_role)


def _parse_role(kept: dict[str, Any]) -> ItemRole | None:
    kind = kept.get("as")
    if not isinstance(kind, str) or kind not in ITEM_ROLE_KINDS:
        return None
    return ItemRole(kind, _parse_places(kept.get("calls")), _parse_places(kept.get("results")))  # type: ignore[arg-type]  # one of ITEM_ROLE_KINDS


def _parse_places(value: Any) -> tuple[int, ...]:
    return tuple(one for one in value if isinstance(one, int)) if isinstance(value, list) else ()


def _is_same(original: Message, present: Message) -> bool:
    """Compare two messages. Empty texts and missing names of results do not count: other formats differ in them."""
    return _normalize(original, present) == _normalize(present, present)


def _normalize(message: Message, named: Message) -> Message:
    """Remove what another format may have added, and take a missing name of a result from `named`."""
    name = None if message.role == "tool" else message.name
    parts = tuple(_result(one, named) for one in message.parts if one not in _EMPTY)
    return replace(normalize_message(replace(message, parts=parts)), extra={}, name=name)


def _result(part: Part, named: Message) -> Part:
    if not isinstance(part, ToolResult):
        return part
    name = next((one.name for one in named.parts if isinstance(one, ToolResult)), None)
    content = tuple(one for one in part.content if one != Text(""))
    return replace(part, name=part.name or name, content=content)


def read_asides(message: Message, key: str) -> list[Any]:
    """Return the items kept here that have no message."""
    value = message.extra.get(key)
    return [one for one in value if validate_item(one) is not None] if isinstance(value, list) else []
