"""Finds the items that are more than a part of the conversation, in one pass over all of them."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from app.formats.request_memory import map_entries

SpecialKind: TypeAlias = Literal["stored", "setting", "tool_list", "sealed"]
"""An item that must be read from the store: a reference, or reasoning without its text; one that has tools or settings,
or says what the reply shall be; a list of a server's tools; encrypted reasoning, or an encrypted
summary."""
_TYPES: dict[str, SpecialKind] = {
    "tool_search_output": "setting",
    "additional_tools": "setting",
    "configuration_update": "setting",
    "compaction_trigger": "setting",
    "mcp_list_tools": "tool_list",
}

_USUAL_TYPES = ("message", "function_call", "function_call_output")
_SEALABLE = frozenset(("reasoning", "compaction", "compaction_summary", "context_compaction"))


def find_special(items: Sequence[Any], kind: SpecialKind) -> list[int]:
    """Return the places of the items of a kind."""
    kinds = map_entries(items, _classify_all)
    return [place for place, one in enumerate(kinds) if one == kind] if kind in kinds else []


def _classify_all(items: Sequence[Any]) -> list[SpecialKind | None]:
    return [
        _classify(item) if isinstance(item, dict) and item.get("type") not in _USUAL_TYPES else None for item in items
    ]


def _classify(item: dict[str, Any]) -> SpecialKind | None:
    kind = item.get("type")
    if (
        isinstance(kind, str)
        and kind in _SEALABLE
        and isinstance(item.get("encrypted_content"), str)
        and item["encrypted_content"]
    ):
        return "sealed"
    if isinstance(item.get("id"), str) and (is_reference(item) or is_empty_reasoning(item)):
        return "stored"
    return _TYPES.get(kind) if isinstance(kind, str) else None


def is_reference(item: dict[str, Any]) -> bool:
    return item.get("type") == "item_reference" or (item.keys() == {"id"})


def is_empty_reasoning(item: dict[str, Any]) -> bool:
    has_text = item.get("content") or item.get("summary") or item.get("encrypted_content")
    return item.get("type") == "reasoning" and not has_text
