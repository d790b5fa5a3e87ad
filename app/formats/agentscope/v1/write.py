"""Writes a conversation as AgentScope 1.x messages: one `Msg` for each assistant turn, and one for each result."""

from collections.abc import Sequence

from app.chat.messages import Media, Message
from app.chat.turns import Turn
from app.formats.agentscope.common_write import WriteRules, find_placeholder_losses, write_conversation
from app.formats.agentscope.notes import Json
from app.formats.agentscope.v1.parse import SYNTAX, validate_and_read
from app.formats.base import Options, WrittenMessages


def write_messages(messages: Sequence[Message], options: Options) -> WrittenMessages:
    return WrittenMessages(write_conversation(messages, options, _RULES), find_placeholder_losses(messages, _has_block))


def write_msg(head: Message, blocks: list[Json], metadata: Json) -> Json:
    """Write a message with the keys in the order of `Msg.to_dict`. An unknown time is left out."""
    content: str | list[Json] = blocks
    if head.role != "assistant" and all(block["type"] == "text" for block in blocks) and len(blocks) < 2:
        text = blocks[0]["text"] if blocks else ""
        content = blocks if blocks and (not text or "cache_control" in blocks[0]) else text
    item = {"id": head.extra["message_id"], "name": head.name, "role": head.role, "content": content}
    item["metadata"] = metadata
    if "created_at" in head.extra:
        item["timestamp"] = head.extra["created_at"]
    return item


def _message_length(given: Sequence[Message], at: int) -> int:
    turn = Turn(given[at])
    turn.add(given[at].parts)
    end = at + 1
    while given[at].role == "assistant" and end < len(given):
        if given[end].role != "assistant" or not turn.accepts(given[end], given[end].parts):
            break
        turn.add(given[end].parts)
        end += 1
    return end - at


def _role(first: Message) -> str:
    """Return the role; results are in system messages."""
    return "system" if first.role == "tool" else first.role


def _has_block(media: Media) -> bool:
    return media.media != "file"


def _keep_order(given: list[Message]) -> list[Message]:
    return given


_RULES = WriteRules(SYNTAX, validate_and_read, _keep_order, _message_length, _role, write_msg)
