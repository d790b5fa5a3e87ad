"""A conversation as AgentScope 2.x messages: one `Msg` for all that an assistant does until somebody else speaks."""

from collections.abc import Sequence

from app.chat.messages import Media, Message, Role, ToolCall, ToolResult
from app.errors import Violation
from app.formats.agentscope2.blocks import TONGUE, answered
from app.formats.agentscope2.decode import reread
from app.formats.agentscope_history import Way, history, placeholders
from app.formats.agentscope_notes import Json
from app.formats.base import Encoded, Options
from app.formats.pieces import Turn, pieces

_ASSISTANTS: tuple[Role, ...] = ("assistant", "tool")


def encode(messages: Sequence[Message], options: Options) -> Encoded:
    system = [message for message in messages if message.role == "system"]
    return Encoded(history(messages, options, _WAY), [*placeholders(system, _never), *_moved(messages)])


def msg(head: Message, blocks: list[Json], metadata: Json) -> Json:
    """The time is left out where none is known: there is no clock here."""
    item = {"name": head.name, "content": answered(blocks), "role": head.role, "id": head.extra["message_id"]}
    item["metadata"] = metadata
    if "created_at" in head.extra:
        item["created_at"] = head.extra["created_at"]
    return item


def _length(given: Sequence[Message], at: int) -> int:
    """Results stand in the message of their calls, and the next turn of the same name behind them."""
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
        elif turn.takes(one):
            turn.add(one)
        else:
            return place - at
    return len(given) - at


def _ordered(given: list[Message]) -> list[Message]:
    """Results behind their calls, also where somebody spoke between."""
    out: list[Message] = []
    for piece in given:
        place = _place(piece, out)
        out.insert(len(out) if place is None else place, piece)
    return out


def _place(piece: Message, before: Sequence[Message]) -> int | None:
    """Where a result has to stand; None where it stands right."""
    if piece.role != "tool" or not before or before[-1].role in _ASSISTANTS:
        return None
    ends = [
        at + 1
        for at, one in enumerate(before)
        if one.role in _ASSISTANTS and (at + 1 == len(before) or before[at + 1].role not in _ASSISTANTS)
    ]
    for end in reversed(ends):
        start = next((at + 1 for at in range(end - 1, -1, -1) if before[at].role not in _ASSISTANTS), 0)
        if any(_answers(piece, one) for one in before[start:end]):
            return end
    return None


def _answers(result: Message, call: Message) -> bool:
    part, asked = (result.parts or (None,))[0], (call.parts or (None,))[0]
    if not isinstance(part, ToolResult) or not isinstance(asked, ToolCall):
        return False
    return part.id == asked.id if part.id else part.name in (None, asked.name)


def _moved(messages: Sequence[Message]) -> list[Violation]:
    given = [piece for message in messages for piece in pieces(message)]
    return [
        Violation(piece.path, "is moved to the call that it answers, before what was said between them")
        for at, piece in enumerate(given)
        if piece.role == "tool" and _place(piece, given[:at]) is not None
    ]


def _role(first: Message) -> str:
    return "assistant" if first.role == "tool" else first.role


def _never(media: Media) -> bool:
    return False


_WAY = Way(TONGUE, reread, _ordered, _length, _role, msg)
