"""A content block of a reply of the Messages API while it is read, and what its events lack, repeat or misplace."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.upstream.reply.odd_json import clean
from app.upstream.reply.partial_tool_call import clean_name

BLOCK_OF_DELTA = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}
TYPES_OF_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}
"""The deltas of a text, each with the type of its block."""
_FIELDS_OF_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
UNKNOWN = "unknown"
"""The type of a block whose start has not come, if its deltas do not tell it."""


class ReplyBlock:
    """A content block of the reply."""

    __slots__ = ("call", "citations", "half", "item", "parts", "signature", "type")

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        """The block as it began."""
        self.type = item.get("type")
        self.parts: list[str] = []
        """The pieces of its thinking, or of the JSON of its input."""
        self.half = ""
        """The first half of a character outside the basic plane, whose second half comes with the next delta."""
        self.signature = ""
        self.citations: list[Any] = []
        self.call = -1
        """The number of the call among those of the reply."""


def has_detail(block: ReplyBlock) -> bool:
    """Whether the end of the block leads to an item of `reasoning_details`."""
    return bool(block.signature) if block.type == "thinking" else block.type not in ("text", "tool_use")


def has_early_input(item: Mapping[str, Any]) -> bool:
    """Whether the start of a call has its input, which Claude Code reads from deltas alone (inflaborg/ccrelay#119).
    Anthropic sends it so for calls of code that it runs."""
    return item.get("type") == "tool_use" and bool(item.get("input")) and item.get("caller") is None


def lacks_fields(item: Mapping[str, Any]) -> bool:
    """Whether the start of a block lacks what clients read of it."""
    match item.get("type"):
        case "text" | "thinking" as kind:
            return not isinstance(item.get(kind), str)
        case "tool_use":
            name = item.get("name")
            has_name = isinstance(name, str) and name != "" and clean_name(name) == name
            has_id = isinstance(item.get("id"), str) and item["id"] != ""
            return not (has_name and has_id and isinstance(item.get("input"), dict))
        case str():
            return not isinstance(item.get("id"), str | None)
        case _:
            return True


def is_repeated(block: ReplyBlock, item: dict[str, Any]) -> bool:
    """Whether the start of an open block came again. A call without an id may be another one."""
    if block.type in ("text", "thinking") or (block.type == "tool_use" and not item.get("id")):
        return False
    return not block.parts and block.item == item


def is_misplaced(delta: Mapping[str, Any], block: ReplyBlock) -> bool:
    """Whether a delta has something for a block of another type, which servers and relays leave open
    (sgl-project/sglang issue 26795, musistudio/claude-code-router pull request 1356)."""
    name = str(delta.get("type"))
    type_ = TYPES_OF_DELTAS.get(name)
    if type_ is None or type_ == block.type or block.type not in ("text", "thinking", "tool_use"):
        return False
    return bool(delta.get(_FIELDS_OF_DELTAS[name]))


def extend_item(block: ReplyBlock, delta: Mapping[str, Any]) -> None:
    """Add a delta to a block that is not for the client: texts grow, other values replace (`compaction_delta`)."""
    item = dict(block.item)
    for key, value in delta.items():
        if key != "type":
            before = item.get(key)
            item[key] = clean(before + value if isinstance(before, str) and isinstance(value, str) else value)
    block.item = item


def complete_item(block: ReplyBlock) -> dict[str, Any]:
    """Return a block that is not for the client as it is at its end. Input that is not valid JSON stays a text."""
    if not block.parts:
        return block.item
    text = "".join(block.parts)
    try:
        return {**block.item, "input": msgspec.json.decode(text)}
    except (ValueError, RecursionError):
        return {**block.item, "input": text}
