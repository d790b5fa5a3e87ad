"""Writes a conversation as AgentScope 2.x messages: one `Msg` for everything that an assistant does in a row."""

from collections.abc import Sequence

from app.chat.messages import Media, Message, Role, ToolCall, ToolResult
from app.chat.turns import Turn, split_message
from app.errors import Violation
from app.formats.agentscope.common_write import WriteRules, find_placeholder_losses, write_conversation
from app.formats.agentscope.notes import Json
from app.formats.agentscope.v2.blocks import SYNTAX, finish_answered_calls
from app.formats.agentscope.v2.parse import validate_and_read
from app.formats.base import Options, WrittenMessages

_ASSISTANTS: tuple[Role, ...] = ("assistant", "tool")


def write_messages(messages: Sequence[Message], options: Options) -> WrittenMessages:
    system = [message for message in messages if message.role == "system"]
    return WrittenMessages(
        write_conversation(messages, options, _RULES),
        [*find_placeholder_losses(system, _never), *_find_moved_results(messages)],
    )


def write_msg(head: Message, blocks: list[Json], metadata: Json) -> Json:
    """Write a message. An unknown time is left out."""
    item = {
        "name": head.name,
        "content": finish_answered_calls(blocks),
        "role": head.role,
        "id": head.extra["message_id"],
    }
    item["metadata"] = metadata
    if "created_at" in head.extra:
        item["created_at"] = head.extra["created_at"]
    return item


def _message_length(given: Sequence[Message], at: int) -> int:
    """Count the pieces of one message: results, and the assistant's next turn, follow the calls in their message."""
    if given[at].role not in _ASSISTANTS:
        return 1
    turn = None
    speaker: Message | None = None
    for place in range(at, len(given)):
        one = given[place]
        if one.role == "tool":
            turn = None
        elif one.role != "assistant" or (speaker is not None and speaker.name != one.name):
            return place - at
        elif turn is None:
            turn, speaker = Turn(one), one
            turn.add(one.parts)
        elif turn.accepts(one, one.parts):
            turn.add(one.parts)
        else:
            return place - at
    return len(given) - at


def _move_results(given: list[Message]) -> list[Message]:
    """Move results behind their calls, if another message is between them."""
    out: list[Message] = []
    for piece in given:
        place = _find_result_place(piece, out)
        out.insert(len(out) if place is None else place, piece)
    return out


def _find_result_place(piece: Message, before: Sequence[Message]) -> int | None:
    """Return the position to which a result must move, or None if it need not move."""
    if piece.role != "tool" or not before or before[-1].role in _ASSISTANTS:
        return None
    ends = [
        at + 1
        for at, one in enumerate(before)
        if one.role in _ASSISTANTS and (at + 1 == len(before) or before[at + 1].role not in _ASSISTANTS)
    ]
    for end in reversed(ends):
        start = next((at + 1 for at in range(end - 1, -1, -1) if before[at].role not in _ASSISTANTS), 0)
        if any(_is_result_of(piece, one) for one in before[start:end]):
            return end
    return None


def _is_result_of(result: Message, call: Message) -> bool:
    answer, tool_call = (result.parts or (None,))[0], (call.parts or (None,))[0]
    if not isinstance(answer, ToolResult) or not isinstance(tool_call, ToolCall):
        return False
    return answer.id == tool_call.id if answer.id else answer.name in (None, tool_call.name)


def _find_moved_results(messages: Sequence[Message]) -> list[Violation]:
    given = [piece for message in messages for piece in split_message(message)]
    return [
        Violation(piece.path, "is moved directly after the call that it answers")
        for at, piece in enumerate(given)
        if piece.role == "tool" and _find_result_place(piece, given[:at]) is not None
    ]


def _role(first: Message) -> str:
    return "assistant" if first.role == "tool" else first.role


def _never(media: Media) -> bool:
    return False


_RULES = WriteRules(SYNTAX, validate_and_read, _move_results, _message_length, _role, write_msg)
