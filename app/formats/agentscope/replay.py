"""AgentScope's messages that were read: each travels as `extra.<format>.raw` beside what it says.

It is written again as it was where reading it again gives the present messages: words that somebody edited win.

AgentScope's messages that were made of nameless ones: their id says so, and they need no notes.

Qwen-Agent's and OpenAI's messages have no id, no time and often no sender, AgentScope's always do. An id made here is a
digest of what its message says, so that a message that somebody edited is one like any other.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import Message, Part, ToolResult
from app.chat.turns import to_model_view
from app.formats.agentscope.ids import ID_DIGITS
from app.formats.agentscope.notes import BlockSyntax, Json, apply_notes
from app.formats.agentscope.sidecar import AgentScopeSidecar
from app.formats.sidecar import ID_HEAD, SIDECAR_KEY, count_unchanged, digest, keep_original, read_notes

_REPEATED = re.compile(r"_\d+$")
_KEYS = frozenset({"id", "name", "role", "content", "metadata"})


def make_id(item: Json) -> str:
    return ID_HEAD + digest([item["role"], item["name"], item["content"]], ID_DIGITS)


def read_made_pieces(item: Json, blocks: Sequence[Json], head: Message, tongue: BlockSyntax) -> list[Message] | None:
    """The pieces without what AgentScope demands of every message; None where its id is not of its making."""
    id_: Any = item.get("id")
    if not isinstance(id_, str) or not id_.startswith(ID_HEAD) or _REPEATED.sub("", id_) != make_id(item):
        return None
    extra = {key: value for key, value in head.extra.items() if key != "message_id"}
    nobody = replace(head, name=None, turn=None, extra=extra)
    return [
        replace(one, parts=tuple(map(_drop_success, one.parts)))
        for one in tongue.read_blocks(blocks, nobody) or [nobody]
    ]


def is_untouched(item: Json) -> bool:
    """Nobody added anything to a message that was made here."""
    return item.keys() <= _KEYS and not item.get("metadata")


def _drop_success(part: Part) -> Part:
    """Who says nothing of errors, says success in 2.x."""
    return replace(part, is_error=part.is_error or None) if isinstance(part, ToolResult) else part


def read_item(item: Json, blocks: Sequence[Json], head: Message, tongue: BlockSyntax) -> list[Message]:
    """The pieces of a message that was checked, with the message itself where they do not say all of it."""
    metadata = item.get("metadata") or {}
    pieces = read_made_pieces(item, blocks, head, tongue)
    if pieces is not None and is_untouched(item):
        return pieces
    if pieces is None:
        known = read_notes(metadata, AgentScopeSidecar.model_validate)
        pieces = apply_notes(known, blocks, head, tongue) if known else None
        if pieces is not None and _is_reproducible(item, metadata, pieces[0], tongue):
            return pieces
    pieces = pieces or list(tongue.read_blocks(blocks, head)) or [head]
    return keep_original(pieces, tongue.key, item)


def _is_reproducible(item: Json, metadata: Json, first: Message, tongue: BlockSyntax) -> bool:
    """Whether all of a message is made again from its pieces."""
    if metadata.keys() != {SIDECAR_KEY} or metadata[SIDECAR_KEY]["id"] != item.get("id"):
        return False
    if item.get(tongue.time_key) != first.extra.get("created_at"):
        return False
    return item.keys() <= {"id", "name", "role", "content", "metadata", tongue.time_key}


def replay_item(
    given: Sequence[Message], at: int, key: str, read: Callable[[Any], Sequence[Message] | None]
) -> tuple[Json, int] | None:
    """(raw item, how many pieces from `at` it says), where reading it again gives them. `read` checks the item."""
    length = count_unchanged(given, at, key, lambda kept: read(kept["raw"]), _is_same)
    return (given[at].extra[key]["raw"], length) if length else None


def _is_same(said: Message, present: Message) -> bool:
    return to_model_view(said) == to_model_view(present)
