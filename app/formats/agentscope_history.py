"""Conversations in AgentScope's messages: what both versions have in common.

Pieces are put together into one `Msg` each turn. Ids that nobody gave are made from what they name, so that equal
conversations give equal messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.chat.messages import Media, Message, Part, ToolCall, ToolResult
from app.errors import Violation
from app.formats.agentscope_ids import call_id, digest, unique
from app.formats.agentscope_kept import replayed
from app.formats.agentscope_made import made_id
from app.formats.agentscope_media import placeholder
from app.formats.agentscope_notes import BAG, Json, Tongue, notes
from app.formats.base import Options
from app.formats.pieces import bare, pieces


@dataclass(frozen=True, slots=True)
class Way:
    """How one version makes messages of pieces."""

    tongue: Tongue
    reread: Callable[[Any], Sequence[Message] | None]
    """The pieces of a raw item; None where it is no valid message."""
    ordered: Callable[[list[Message]], list[Message]]
    length: Callable[[Sequence[Message], int], int]
    """How many pieces, from this place on, make one message."""
    role: Callable[[Message], str]
    """Of the message whose first piece is given."""
    msg: Callable[[Message, list[Json], Json], Json]
    """A message of its head, blocks and metadata."""


def history(messages: Sequence[Message], options: Options, way: Way) -> list[Json]:
    given = way.ordered([piece for message in messages for piece in pieces(message)])
    out: list[Json] = []
    ids: set[str] = set()
    shown = identified(given)
    at = 0
    while at < len(given):
        raw = replayed(given, at, way.tongue.key, way.reread)
        if raw is not None:
            item, length = raw
            ids.add(str(item.get("id")))
        else:
            length = _until_raw(given, at, way)
            item = _made(given[at : at + length], shown[at : at + length], options, way, ids)
        out.append(item)
        at += length
    return out


def _until_raw(given: Sequence[Message], at: int, way: Way) -> int:
    length = way.length(given, at)
    for place in range(at + 1, at + length):
        if way.tongue.key in given[place].extra and replayed(given, place, way.tongue.key, way.reread) is not None:
            return place - at
    return length


def _made(given: Sequence[Message], shown: Sequence[Message], options: Options, way: Way, ids: set[str]) -> Json:
    key = way.tongue.key
    given = [replace(one, extra={name: value for name, value in one.extra.items() if name != key}) for one in given]
    blocks = [block for piece in shown for block in way.tongue.blocks(piece)]
    plain = _nameless(given, blocks, options, way, ids)
    if plain is not None:
        return plain
    head = _head(given, blocks, options, way, ids)
    bag = notes(given, shown, head, way.tongue)
    return way.msg(head, blocks, {} if bag is None else {BAG: bag})


def _nameless(given: Sequence[Message], blocks: list[Json], options: Options, way: Way, ids: set[str]) -> Json | None:
    """A message that needs no notes, since its id says that nobody gave it a name or an id; None where it would."""
    if any(one.extra or one.turn or one.name for one in given if one.role != "tool"):
        return None
    item = way.msg(_head(given, blocks, options, way, set()), blocks, {})
    item["id"] = unique(made_id(item), used := set(ids))
    if list(map(bare, way.reread(item) or ())) != list(map(bare, given)):
        return None
    ids |= used
    return item


def _head(given: Sequence[Message], blocks: list[Json], options: Options, way: Way, ids: set[str]) -> Message:
    first = given[0]
    role = way.role(first)
    speaker = next((one for one in given if one.role != "tool"), None)
    name = (speaker.name if speaker else None) or (options.agent_name if role == "assistant" else role)
    id_ = first.extra.get("message_id")
    if not isinstance(id_, str) or not id_:
        # A turn of OpenAI's messages is only a place in one list.
        id_ = first.turn if first.turn and not first.turn.startswith("messages[") else digest(role, name, blocks)
    id_ = unique(id_, ids)
    created = first.extra.get("created_at")
    extra = {"message_id": id_} | ({"created_at": created} if isinstance(created, str) else {})
    return head(role, name, id_, "", extra)


def head(role: Any, name: str, id: str, path: str, extra: Json) -> Message:
    """A message without its parts. Only an assistant's has turns."""
    return Message(role, (), name, id if role == "assistant" else None, path, extra)


def identified(given: Sequence[Message]) -> list[Message]:
    """The pieces with an id on every call, and the id and name of its call on every result."""
    calls: list[ToolCall] = []
    shown: list[Message] = []
    open_: list[ToolCall] = []
    for number, piece in enumerate(given):
        part: Part | None = piece.parts[0] if piece.parts else None
        if isinstance(part, ToolCall):
            part = part if part.id else replace(part, id=call_id(number, part))
            calls.append(part)
            open_.append(part)
            piece = replace(piece, parts=(part,))
        elif isinstance(part, ToolResult):
            call = _answered(part, calls, open_)
            open_ = [one for one in open_ if one is not call]
            id_ = part.id or (call.id if call else call_id(number, ToolCall(part.name or "tool", "")))
            piece = replace(piece, parts=(replace(part, id=id_, name=part.name or (call.name if call else "tool")),))
        shown.append(piece)
    return shown


def _answered(result: ToolResult, calls: Sequence[ToolCall], open_: Sequence[ToolCall]) -> ToolCall | None:
    if result.id:
        named = [call for call in open_ if call.id == result.id] or [call for call in calls if call.id == result.id]
    else:
        named = [call for call in open_ if call.name == result.name] or ([] if result.name else list(open_))
    return named[0] if named else None


def placeholders(messages: Sequence[Message], said: Callable[[Media], bool]) -> list[Violation]:
    """Media that are said as text alone."""
    found = []
    for message in messages:
        for part in message.parts:
            for media in part.content if isinstance(part, ToolResult) else (part,):
                if isinstance(media, Media) and not said(media):
                    where = media.path or message.path
                    found.append(Violation(where, f"is said as the text {placeholder(media)!r}"))
    return found
