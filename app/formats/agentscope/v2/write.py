"""Writes a conversation as AgentScope 2.x messages: one `Msg` for everything that an assistant does in a row."""

from collections.abc import Sequence

from app.chat.messages import Media, Message, Role, ToolCall, ToolResult
from app.chat.turns import Turn, split_message
from app.errors import Violation
from app.formats.agentscope.common_write import WriteRules, find_placeholder_losses, write_conversation
from app.formats.agentscope.notes import Json
from app.formats.agentscope.v2.parse import SYNTAX, finish_answered_calls, validate_and_read
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


def _move_results(given: Sequence[Message]) -> list[Message]:
    """Move results behind their calls, if another message is between them."""
    return _order(given)[0]


def _find_moved_results(messages: Sequence[Message]) -> list[Violation]:
    moved = _order([piece for message in messages for piece in split_message(message)])[1]
    return [Violation(piece.path, "is moved directly after the call that it answers") for piece in moved]


def _order(given: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return (the pieces in the order of AgentScope's messages, the results that were moved).

    A result that follows another's message goes to the end of the last run of the assistant that has a call for it.
    """
    runs: list[list[Message]] = []
    run: list[Message] | None = None
    """The assistant's run that goes on; None after another's message."""
    moved: list[Message] = []
    calls = _CallRuns()
    for piece in given:
        if piece.role not in _ASSISTANTS:
            runs.append([piece])
            run = None
            continue
        earlier = calls.find(piece) if run is None else None
        if earlier is not None:
            earlier.append(piece)
            moved.append(piece)
            continue
        if run is None:
            runs.append(run := [])
        run.append(piece)
        calls.add(piece, run)
    return [piece for one in runs for piece in one], moved


class _CallRuns:
    """The last run that has a call, and the last that has one of some id or name."""

    def __init__(self) -> None:
        self._last: list[Message] | None = None
        self._by_id: dict[str | None, list[Message]] = {}
        self._by_name: dict[str, list[Message]] = {}

    def add(self, piece: Message, run: list[Message]) -> None:
        part = piece.parts[0] if piece.parts else None
        if isinstance(part, ToolCall):
            self._last = self._by_id[part.id] = self._by_name[part.name] = run

    def find(self, piece: Message) -> list[Message] | None:
        """Return the last run with a call that this piece answers."""
        part = piece.parts[0] if piece.parts else None
        if not isinstance(part, ToolResult):
            return None
        if part.id:
            return self._by_id.get(part.id)
        return self._last if part.name is None else self._by_name.get(part.name)


def _role(first: Message) -> str:
    return "assistant" if first.role == "tool" else first.role


def _never(media: Media) -> bool:
    return False


_RULES = WriteRules(SYNTAX, validate_and_read, _move_results, _message_length, _role, write_msg)
