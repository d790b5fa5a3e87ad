"""What the API has blocks and fields of its own for: the opaque parts of a reply of a server of the same API.

The client gets them as the server would have sent them, because its next request goes to such a server.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.chat.accumulator import ReplyMessage

Json = dict[str, Any]
FORMAT = "anthropic-claude-v1"
"""The `format` of details that only servers of this API understand."""
_OWN_REASONS = {"pause_turn": "stop", "model_context_window_exceeded": "length"}
"""The server's stop reasons that say more than a finish reason, with what they are read as."""


def make_native_block(detail: Any) -> Json | None:
    """Return the block that the detail was, or has a place in; None if it is not of this API."""
    if not isinstance(detail, dict) or detail.get("format") != FORMAT:
        return None
    match detail:
        case {"type": "reasoning.text", "text": str(text), "signature": str(signature)}:
            return {"type": "thinking", "thinking": text, "signature": signature}
        case {"type": "reasoning.encrypted", "data": data}:
            return {"type": "redacted_thinking", "data": data}
        case {"type": "provider.item", "item": dict(item)}:
            return item
        case _:
            return None


def split_details(details: Sequence[Any], thought: str = "") -> tuple[list[Json], list[Any]]:
    """Return the details as blocks, and those that are not of this API. One that signs a part of `thought` is none."""
    blocks: list[Json] = []
    others: list[Any] = []
    for detail in details:
        block = make_native_block(detail)
        if block is None or (block.get("thinking") and block["thinking"] in thought):
            others.append(detail)
        else:
            blocks.append(block)
    return blocks, others


def count_leading(details: Sequence[Any]) -> int:
    """Return how many details of a reasoning message come before it: the rest signs its own text."""
    for count, detail in enumerate(details):
        block = make_native_block(detail)
        if block is None or block.get("thinking"):
            return count
    return len(details)


def find_signature(details: Sequence[Any]) -> str | None:
    """Return the signature of a reasoning message that was one block, from the details behind its text; None if it has
    no such signature."""
    match list(details):
        case [{"type": "reasoning.text", "signature": str(signature), "format": "anthropic-claude-v1", **rest}]:
            return None if rest else signature
        case _:
            return None


def get_caller(message: ReplyMessage) -> Json:
    """Return the field of a call that says what has made it, if that was not the model itself."""
    match message.extra.get("extra_content"):
        case {"anthropic": {"caller": dict(caller)}}:
            return {"caller": caller}
        case _:
            return {}


def choose_own_reason(native: str | None, reason: str) -> str | None:
    """Return the server's own stop reason, if it says more than the finish reason that it was read as."""
    return native if native is not None and _OWN_REASONS.get(native) == reason else None


def is_own_citation(annotation: Any) -> bool:
    return isinstance(annotation, dict) and "cited_text" in annotation


def list_citations(message: ReplyMessage) -> list[Any]:
    """Return the citations of a text that have the form of this API."""
    annotations = message.extra.get("annotations")
    return [one for one in annotations if is_own_citation(one)] if isinstance(annotations, list) else []


class OwnBlock(Struct, frozen=True):
    """What must be known of a block that is passed on."""

    type: str = ""
    id: str | None = None

    def is_of(self, message: ReplyMessage) -> bool:
        """Whether the message may be in this block."""
        return _BLOCK_TYPES.get(message.kind) == self.type and (self.type != "tool_use" or self.id == message.id)


_BLOCK_TYPES = {"reasoning_content": "thinking", "content": "text", "function_call": "tool_use"}


class _Place(Struct, frozen=True):
    """What must be known of the start or the end of a block that is passed on."""

    index: int = 0
    content_block: OwnBlock = OwnBlock()


read_place = msgspec.json.Decoder(_Place).decode
