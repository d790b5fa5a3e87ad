"""Fields of an assistant's message that only its server can read, and wants back with the conversation.

They travel as items of `reasoning_details`, which every format keeps (GitHub Copilot's `reasoning_opaque` and `cot_id`,
and SAP's `reasoning_content`, which is a list with signatures).
"""

from collections.abc import Iterable, Mapping
from typing import Any

_TYPE = "provider.field"
FORMAT = "chat-completions-v1"


def make_field_details(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the detail of each field."""
    return [{"type": _TYPE, "name": name, "value": value, "format": FORMAT} for name, value in fields.items()]


def split_fields(details: Iterable[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the fields in a turn's details, and the other details. The items of a list come one after the other."""
    fields: dict[str, Any] = {}
    others: list[Any] = []
    for detail in details:
        if not isinstance(detail, dict) or detail.get("type") != _TYPE:
            others.append(detail)
            continue
        name, value = detail.get("name"), detail.get("value")
        if isinstance(name, str) and name in _NAMES:
            known = fields.get(name)
            fields[name] = _join(known, value) if isinstance(known, list) and isinstance(value, list) else value
    signed = {
        name: value for name, value in fields.items() if not isinstance(value, list) or any(map(_is_signed, value))
    }
    return signed, others


_NAMES = frozenset(("reasoning_opaque", "cot_id", "reasoning_content", "reasoning", "reasoning_text"))
"""The fields that may be sent: a client can write details of its own."""


def _join(known: list[Any], later: list[Any]) -> list[Any]:
    """Join the items of a streamed list: a signature belongs to the text before it."""
    last = known[-1] if known else None
    if not isinstance(last, dict) or _is_signed(last) or not later or not isinstance(later[0], dict):
        return [*known, *later]
    merged = dict(last)
    for name, value in later[0].items():
        before = merged.get(name)
        both_texts = isinstance(before, str) and isinstance(value, str) and name not in ("type", "id")
        merged[name] = before + value if both_texts else value
    return [*known[:-1], merged, *later[1:]]


def _is_signed(item: Any) -> bool:
    return isinstance(item, dict) and bool(item.get("signature"))
