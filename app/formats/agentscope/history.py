"""A conversation as AgentScope 1.x messages: a `Msg` for each turn of an assistant, and one for each result."""

from collections.abc import Sequence

from app.chat.messages import Media, Message
from app.formats.agentscope.blocks import TONGUE
from app.formats.agentscope.decode import reread
from app.formats.agentscope_history import Way, history, placeholders
from app.formats.agentscope_notes import Json
from app.formats.base import Encoded, Options
from app.formats.pieces import Turn


def encode(messages: Sequence[Message], options: Options) -> Encoded:
    return Encoded(history(messages, options, _WAY), placeholders(messages, _has_block))


def msg(head: Message, blocks: list[Json], metadata: Json) -> Json:
    """In the order of keys of `Msg.to_dict`. The time is left out where none is known: there is no clock here."""
    content: str | list[Json] = blocks
    if head.role != "assistant" and all(block["type"] == "text" for block in blocks) and len(blocks) < 2:
        text = blocks[0]["text"] if blocks else ""
        content = blocks if blocks and (not text or "cache_control" in blocks[0]) else text
    item = {"id": head.extra["message_id"], "name": head.name, "role": head.role, "content": content}
    item["metadata"] = metadata
    if "created_at" in head.extra:
        item["timestamp"] = head.extra["created_at"]
    return item


def _length(given: Sequence[Message], at: int) -> int:
    turn = Turn(given[at])
    end = at + 1
    while given[at].role == "assistant" and end < len(given):
        if given[end].role != "assistant" or not turn.takes(given[end]):
            break
        turn.add(given[end])
        end += 1
    return end - at


def _role(first: Message) -> str:
    """A result is brought by the system."""
    return "system" if first.role == "tool" else first.role


def _has_block(media: Media) -> bool:
    return media.media != "file"


def _in_order(given: list[Message]) -> list[Message]:
    return given


_WAY = Way(TONGUE, reread, _in_order, _length, _role, msg)
