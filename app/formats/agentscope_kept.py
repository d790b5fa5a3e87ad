"""AgentScope's messages that were read: each travels as `extra.<format>.raw` beside what it says.

It is written again as it was where reading it again gives the present messages: words that somebody edited win.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import Message
from app.formats.agentscope_made import pieces_made, untouched
from app.formats.agentscope_notes import BAG, Json, Tongue, noted
from app.formats.pieces import spoken


def read_item(item: Json, blocks: Sequence[Json], head: Message, tongue: Tongue) -> list[Message]:
    """The pieces of a message that was checked, with the message itself where they do not say all of it."""
    metadata = item.get("metadata") or {}
    pieces = pieces_made(item, blocks, head, tongue)
    if pieces is not None and untouched(item):
        return pieces
    if pieces is None:
        pieces = noted(metadata[BAG], blocks, head, tongue) if BAG in metadata else None
        if pieces is not None and _ours(item, metadata, pieces[0], tongue):
            return pieces
    pieces = pieces or list(tongue.read(blocks, head)) or [head]
    marks: list[Json] = [{"raw": item, "k": 0}, *({"k": number} for number in range(1, len(pieces)))]
    return [replace(piece, extra={**piece.extra, tongue.key: mark}) for piece, mark in zip(pieces, marks, strict=True)]


def _ours(item: Json, metadata: Json, first: Message, tongue: Tongue) -> bool:
    """Whether all of a message is made again from its pieces."""
    if metadata.keys() != {BAG} or metadata[BAG]["id"] != item.get("id"):
        return False
    if item.get(tongue.time) != first.extra.get("created_at"):
        return False
    return item.keys() <= {"id", "name", "role", "content", "metadata", tongue.time}


def replayed(
    given: Sequence[Message], at: int, key: str, read: Callable[[Any], Sequence[Message] | None]
) -> tuple[Json, int] | None:
    """(raw item, how many pieces from `at` it says), where reading it again gives them. `read` checks the item."""
    mark = given[at].extra.get(key)
    if not isinstance(mark, dict) or mark.get("k") != 0 or not isinstance(mark.get("raw"), dict):
        return None
    expected = read(mark["raw"])
    if not expected or [spoken(one) for one in given[at : at + len(expected)]] != [spoken(one) for one in expected]:
        return None
    return mark["raw"], len(expected)
