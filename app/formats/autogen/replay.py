"""AutoGen's items that were kept beside the messages read from them: whether they still say what the messages say."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
    """How many messages from here on are still what the item kept at the first of them says; 0: none."""
    return sidecar.count_unchanged(messages, start, "autogen", _read_again, _is_same)


def _read_again(kept: dict[str, Any]) -> list[Message] | None:
    item = validate_item(kept["raw"])
    verdict = _parse_role(kept)
    return None if item is None or verdict is None else read_item(item, kept["raw"], verdict)


def _parse_role(kept: dict[str, Any]) -> ItemRole | None:
    how = kept.get("as")
    if not isinstance(how, str) or how not in ITEM_ROLE_KINDS:
        return None
    return ItemRole(how, _parse_places(kept.get("calls")), _parse_places(kept.get("results")))  # type: ignore[arg-type]  # one of HOWS


def _parse_places(value: Any) -> tuple[int, ...]:
    return tuple(one for one in value if isinstance(one, int)) if isinstance(value, list) else ()


def _is_same(said: Message, present: Message) -> bool:
    """Other formats write an empty text as none, and results have the name of their call."""
    return _normalize(said, present) == _normalize(present, present)


def _normalize(message: Message, named: Message) -> Message:
    """Without what another format may have added; a name that an old version left out is the present one."""
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
    """The items without a message of their own that were kept here."""
    value = message.extra.get(key)
    return [one for one in value if validate_item(one) is not None] if isinstance(value, list) else []
