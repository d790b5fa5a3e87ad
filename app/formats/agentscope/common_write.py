"""The common parts of the writers of both AgentScope versions.

The pieces of a turn become one `Msg`. Missing ids are derived from the content, so that identical conversations give
identical messages.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.chat.messages import Media, Message, ToolResult
from app.chat.turns import normalize_piece, split_message
from app.errors import Violation
from app.formats.agentscope.media import placeholder
from app.formats.agentscope.notes import BlockSyntax, Json, collect_notes
from app.formats.agentscope.replay import ID_DIGITS, UniqueIds, make_id, replay_item
from app.formats.base import Options
from app.formats.call_ids import fill_ids
from app.formats.sidecar import digest, with_notes


class WriteRules(Struct, frozen=True):
    """How one version writes pieces as messages."""

    syntax: BlockSyntax
    validate_and_read: Callable[[Any], Sequence[Message] | None]
    """Returns the pieces of a raw item, or None if it is not a valid message."""
    order: Callable[[list[Message]], list[Message]]
    length: Callable[[Sequence[Message], int], int]
    """Returns how many pieces, from this position on, make one message."""
    role: Callable[[Message], str]
    """Returns the role of the message with this first piece."""
    write_msg: Callable[[Message, list[Json], Json], Json]
    """Makes a message from its head, blocks and metadata."""


def write_conversation(messages: Sequence[Message], options: Options, rules: WriteRules) -> list[Json]:
    given = rules.order([piece for message in messages for piece in split_message(message)])
    out: list[Json] = []
    ids = UniqueIds()
    shown = fill_ids(given)
    at = 0
    while at < len(given):
        raw = replay_item(given, at, rules.syntax.key, rules.validate_and_read)
        if raw is not None:
            item, length = raw
            ids.add(str(item.get("id")))
        else:
            length = _length_before_raw(given, at, rules)
            item = _build_message(given[at : at + length], shown[at : at + length], options, rules, ids)
        out.append(item)
        at += length
    return out


def _length_before_raw(given: Sequence[Message], at: int, rules: WriteRules) -> int:
    length = rules.length(given, at)
    for place in range(at + 1, at + length):
        if (
            rules.syntax.key in given[place].extra
            and replay_item(given, place, rules.syntax.key, rules.validate_and_read) is not None
        ):
            return place - at
    return length


def _build_message(
    given: Sequence[Message], shown: Sequence[Message], options: Options, rules: WriteRules, ids: UniqueIds
) -> Json:
    key = rules.syntax.key
    given = [replace(one, extra={name: value for name, value in one.extra.items() if name != key}) for one in given]
    blocks = [block for piece in shown for block in rules.syntax.write_blocks(piece)]
    plain = _build_nameless_message(given, blocks, options, rules, ids)
    if plain is not None:
        return plain
    head = _build_head(given, blocks, options, rules, ids)
    notes = collect_notes(given, shown, head, rules.syntax)
    return rules.write_msg(head, blocks, {} if notes is None else with_notes(None, notes))


def _build_nameless_message(
    given: Sequence[Message], blocks: list[Json], options: Options, rules: WriteRules, ids: UniqueIds
) -> Json | None:
    """Write a message whose id shows that its id and name are made up, so that it needs no notes, or return None."""
    if any(one.extra or one.turn or one.name for one in given if one.role != "tool"):
        return None
    item = rules.write_msg(_build_head(given, blocks, options, rules, UniqueIds()), blocks, {})
    item["id"] = ids.find(make_id(item))
    if list(map(normalize_piece, rules.validate_and_read(item) or ())) != list(map(normalize_piece, given)):
        return None
    ids.add(item["id"])
    return item


def _build_head(
    given: Sequence[Message], blocks: list[Json], options: Options, rules: WriteRules, ids: UniqueIds
) -> Message:
    first = given[0]
    role = rules.role(first)
    speaker = next((one for one in given if one.role != "tool"), None)
    name = (speaker.name if speaker else None) or (options.agent_name if role == "assistant" else role)
    id_ = first.extra.get("message_id")
    if not isinstance(id_, str) or not id_:
        # The turn of OpenAI's messages is only a position in one list, not an id.
        id_ = (
            first.turn
            if first.turn and not first.turn.startswith("messages[")
            else digest([role, name, blocks], ID_DIGITS)
        )
    id_ = ids.find(id_)
    ids.add(id_)
    created = first.extra.get("created_at")
    extra = {"message_id": id_} | ({"created_at": created} if isinstance(created, str) else {})
    return make_head(role, name, id_, "", extra)


def make_head(role: Any, name: str, id: str, path: str, extra: Json) -> Message:
    """Make a message without parts. Only an assistant message has a turn."""
    return Message(role, (), name, id if role == "assistant" else None, path, extra)


def find_placeholder_losses(messages: Sequence[Message], has_block: Callable[[Media], bool]) -> list[Violation]:
    """Find media for which there is no block, so that only a text remains."""
    found = []
    for message in messages:
        for part in message.parts:
            for media in part.content if isinstance(part, ToolResult) else (part,):
                if isinstance(media, Media) and not has_block(media):
                    path = media.path or message.path
                    found.append(Violation(path, f"is written as the text {placeholder(media)!r}"))
    return found
