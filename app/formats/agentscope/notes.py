"""Keeps what AgentScope's messages have no field for, as notes in `Msg.metadata`.

A `Msg` that was made from another format has, under `metadata.parley`, everything that parsing it again would get
wrong. The notes are applied only if the content of the `Msg` is unchanged; edited content takes precedence.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.chat.messages import Media, Message, Part, Role, Text, ToolCall, ToolResult
from app.chat.turns import normalize_piece, to_model_view
from app.formats.agentscope.sidecar import AgentScopeSidecar, MediaNote, PieceNote
from app.formats.served_calls import read_note

Json = dict[str, Any]
ContentParts = tuple[Text | Media, ...]


class BlockSyntax(Struct, frozen=True):
    """How one version of AgentScope writes pieces as blocks, and reads blocks."""

    key: str
    write_blocks: Callable[[Message], list[Json]]
    """Writes a piece, whose calls and results must have ids and names."""
    write_part: Callable[[Text | Media, Role], list[Json]]
    read_blocks: Callable[[Sequence[Json], Message], list[Message]]
    """Returns the pieces of a message's blocks; the head is the message without parts."""
    time_key: str
    """The key of a message's time."""


def collect_notes(
    given: Sequence[Message], shown: Sequence[Message], head: Message, syntax: BlockSyntax
) -> Json | None:
    """Return the notes for `metadata.parley`, or None if reading the blocks gives the pieces unchanged.

    `given` are the pieces, `shown` the pieces as they are written, with derived ids and names.
    """
    blocks = [syntax.write_blocks(piece) for piece in shown]
    read = syntax.read_blocks([block for own in blocks for block in own], head) or [head]
    if [normalize_piece(piece) for piece in read] == [normalize_piece(piece) for piece in given]:
        return None
    pairs = zip(given, blocks, strict=True)
    return {
        "id": head.extra["message_id"],
        "name": head.name,
        "pieces": [_make_note(piece, own, head, syntax) for piece, own in pairs],
    }


def _make_note(given: Message, blocks: list[Json], head: Message, syntax: BlockSyntax) -> Json:
    (read,) = syntax.read_blocks(blocks, head) or [head]
    was, now = normalize_piece(given), normalize_piece(read)
    note: Json = {"blocks": len(blocks)}
    note |= {name: getattr(was, name) for name in ("name", "turn", "extra") if getattr(was, name) != getattr(now, name)}
    part, found = (given.parts or (None,))[0], (read.parts or (None,))[0]
    if isinstance(part, ToolCall) and isinstance(found, ToolCall):
        note |= {} if part.id == found.id else {"id": part.id}
        note |= {"call": dict(part.extra)} if part.extra else {}
    elif isinstance(part, ToolResult) and isinstance(found, ToolResult):
        note |= {} if part.id == found.id else {"id": part.id}
        note |= {} if part.name == found.name else {"tool": part.name}
        note |= {} if part.is_error == found.is_error else {"is_error": part.is_error}
    if media := _make_media_notes(given, syntax, head):
        note["media"] = media
    return note


def _content_parts(piece: Message) -> ContentParts:
    """Return the text and media of a piece or of the result in it."""
    if piece.parts and isinstance(piece.parts[0], ToolResult):
        return piece.parts[0].content
    return tuple(part for part in piece.parts if isinstance(part, Text | Media))


def _make_media_notes(given: Message, syntax: BlockSyntax, head: Message) -> list[Json]:
    found: list[Json] = []
    at = 0
    for part in _content_parts(given):
        blocks = syntax.write_part(part, given.role)
        read = _parts_of(syntax.read_blocks(blocks, replace(head, role="user")))
        if isinstance(part, Media) and read != (replace(part, path="", mark=None),):
            found.append({"at": at, "blocks": len(blocks), **_make_media_note(part, read)})
        at += len(blocks)
    return found


def _parts_of(read: Sequence[Message]) -> tuple[Part, ...]:
    return tuple(part for piece in read for part in normalize_piece(piece).parts)


def _make_media_note(part: Media, read: tuple[Part, ...]) -> Json:
    note: Json = {"media": part.media}
    if part.urls != tuple(url for one in read if isinstance(one, Media) for url in one.urls):
        note["urls"] = list(part.urls)
    note |= {"frames": True} if part.frames else {}
    note |= {"format": part.format} if part.format else {}
    note |= {"detail": part.detail} if part.detail else {}
    return note | ({"name": part.name} if part.name else {})


def apply_notes(
    known: AgentScopeSidecar, blocks: Sequence[Json], head: Message, syntax: BlockSyntax
) -> list[Message] | None:
    """Return the pieces with the notes applied, or None if the notes do not match the blocks.

    Results may follow the blocks of the notes, because 2.x adds them to the message with their calls.
    """
    end = sum(note.blocks for note in known.pieces)
    behind = blocks[end:]
    if known.name != head.name or end > len(blocks) or (behind and behind[0]["type"] != "tool_result"):
        return None
    pieces = _apply_sidecar(known, blocks[:end], head, syntax)
    rest = len(syntax.read_blocks(behind, head))
    return pieces and [*pieces, *syntax.read_blocks(blocks, head)[-rest:]] if rest else pieces


def _apply_sidecar(
    known: AgentScopeSidecar, blocks: Sequence[Json], head: Message, syntax: BlockSyntax
) -> list[Message] | None:
    shown: list[Message] = []
    at = 0
    for note in known.pieces:
        read = syntax.read_blocks(blocks[at : at + note.blocks], head) or [head]
        at += note.blocks
        if len(read) != 1:
            return None
        shown.append(_apply_note(read[0], note))
    again = syntax.read_blocks([block for piece in shown for block in syntax.write_blocks(piece)], head)
    if list(map(to_model_view, again)) != list(map(to_model_view, syntax.read_blocks(blocks, head))):
        return None
    return [_restore_ids(piece, note) for piece, note in zip(shown, known.pieces, strict=True)]


def _apply_note(read: Message, note: PieceNote) -> Message:
    fields: Json = {name: getattr(note, name) for name in ("name", "turn", "extra") if name in note.model_fields_set}
    part = (read.parts or (None,))[0]
    if isinstance(part, ToolCall):
        fields["parts"] = (replace(part, extra=note.call),)
    elif isinstance(part, ToolResult):
        is_error = note.is_error if "is_error" in note.model_fields_set else part.is_error
        fields["parts"] = (replace(part, content=_apply_media_notes(part.content, note.media), is_error=is_error),)
    elif note.media:
        fields["parts"] = _apply_media_notes(_content_parts(read), note.media)
    return replace(read, **fields)


def _apply_media_notes(content: ContentParts, media: Sequence[MediaNote]) -> ContentParts:
    parts: list[Text | Media] = []
    at = 0
    for note in media:
        under = content[note.at : note.at + note.blocks]
        urls = tuple(note.urls or (url for one in under if isinstance(one, Media) for url in one.urls))
        if note.at < at or not urls:
            continue
        path = next((one.path for one in under if isinstance(one, Media)), "")
        mark = next((one.mark for one in reversed(under) if one.mark), None)
        parts += content[at : note.at]
        one = Media(note.media, urls, note.frames, note.format, detail=note.detail, path=path, name=note.name)
        parts.append(replace(one, mark=mark))
        at = note.at + note.blocks
    return (*parts, *content[at:])


def _restore_ids(piece: Message, note: PieceNote) -> Message:
    """Remove derived ids and names, and read what says that a gateway ran the call."""
    part = (piece.parts or (None,))[0]
    if isinstance(part, ToolCall):
        id_ = note.id if "id" in note.model_fields_set else part.id
        return replace(piece, parts=(read_note(replace(part, id=id_)),))
    if isinstance(part, ToolResult):
        id_ = note.id if "id" in note.model_fields_set else part.id
        name = note.tool if "tool" in note.model_fields_set else part.name
        return replace(piece, parts=(replace(part, id=id_, name=name),))
    return piece
