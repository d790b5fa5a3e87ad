"""Fields of an assistant's message that only its server can read, and wants back with the conversation.

They travel as items of `reasoning_details`, which every format keeps (GitHub Copilot's `reasoning_opaque` and `cot_id`,
SAP's `reasoning_content`, which is a list with signatures, and the signed `thinking_blocks` of LiteLLM and others).
"""

from collections.abc import Iterable, Mapping
from typing import Any

_TYPE = "provider.field"
FORMAT = "chat-completions-v1"


def make_field_details(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the detail of each field."""
    return [{"type": _TYPE, "name": name, "value": value, "format": FORMAT} for name, value in fields.items()]


def complete_blocks(blocks: list[Any], known: str) -> list[Any]:
    """Return signed blocks of which the first had this text before: its signature is refused without it."""
    first = blocks[0]
    if not known or not _is_block(first) or first["type"] != "thinking":
        return blocks
    return [{**first, "thinking": known + first["thinking"]}, *blocks[1:]]


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
    if isinstance(blocks := fields.get(BLOCKS), list):
        fields[BLOCKS] = [block for block in blocks if _is_block(block)]
    signed = {
        name: value for name, value in fields.items() if not isinstance(value, list) or any(map(_is_signed, value))
    }
    return signed, others


BLOCKS = "thinking_blocks"
_NAMES = frozenset(("reasoning_opaque", "cot_id", "reasoning_content", "reasoning", "reasoning_text", BLOCKS))
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
    return isinstance(item, dict) and bool(item.get("signature") or item.get("data"))


def _is_block(item: Any) -> bool:
    """Whether this is a block of Anthropic's. What other servers sign are parts of their content."""
    return isinstance(item, dict) and any(
        item.get("type") == kind and isinstance(item.get(name), str) for kind, name in _BLOCK_TEXTS
    )


_BLOCK_TEXTS = (("thinking", "thinking"), ("redacted_thinking", "data"))
