"""Keeps original AgentScope messages, and recognises those that the gateway wrote.

An original message is kept in `extra.<format>.raw`. It is written again unchanged if parsing it gives the present
messages; edited content takes precedence.

Messages of Qwen-Agent and OpenAI have no id, no time and often no name, which AgentScope's messages always have. If the
gateway had to make up all of them, the id is a digest of the content, and the message needs no notes. An edited message
no longer matches its id, and is parsed like any other.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import Message, Part, ToolResult
from app.chat.turns import to_model_view
from app.formats.agentscope.notes import BlockSyntax, Json, apply_notes
from app.formats.agentscope.sidecar import AgentScopeSidecar
from app.formats.sidecar import ID_HEAD, SIDECAR_KEY, count_unchanged, digest, keep_original, read_notes

ID_DIGITS = 22
"""How many digits of a digest an id has."""


class UniqueIds:
    """The ids of the messages of one list. An id that is repeated gets a number."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        """The last number that was tried for each repeated id: all lower ones are used."""

    def find(self, id: str) -> str:
        """Return the id, numbered if it is used."""
        if id not in self._used:
            return id
        count = self._counts.get(id, 2)
        while (found := f"{id}_{count}") in self._used:
            count += 1
        self._counts[id] = count
        return found

    def add(self, id: str) -> None:
        self._used.add(id)


_REPEATED = re.compile(r"_\d+$")
_KEYS = frozenset({"id", "name", "role", "content", "metadata"})


def make_id(item: Json) -> str:
    return ID_HEAD + digest([item["role"], item["name"], item["content"]], ID_DIGITS)


def read_made_pieces(item: Json, blocks: Sequence[Json], head: Message, syntax: BlockSyntax) -> list[Message] | None:
    """Return the pieces without made-up fields, or None if the id is not the digest of the content."""
    id_: Any = item.get("id")
    if not isinstance(id_, str) or not id_.startswith(ID_HEAD) or _REPEATED.sub("", id_) != make_id(item):
        return None
    extra = {key: value for key, value in head.extra.items() if key != "message_id"}
    nameless = replace(head, name=None, turn=None, extra=extra)
    return [
        replace(one, parts=tuple(map(_drop_success, one.parts)))
        for one in syntax.read_blocks(blocks, nameless) or [nameless]
    ]


def is_untouched(item: Json) -> bool:
    """Return whether nothing was added to a message that the gateway wrote."""
    return item.keys() <= _KEYS and not item.get("metadata")


def _drop_success(part: Part) -> Part:
    """Replace `is_error=False` with None, because 2.x writes an unknown state as success."""
    return replace(part, is_error=part.is_error or None) if isinstance(part, ToolResult) else part


def read_item(item: Json, blocks: Sequence[Json], head: Message, syntax: BlockSyntax) -> list[Message]:
    """Return the pieces of a valid message, with the original message if they do not have all of its content."""
    metadata = item.get("metadata") or {}
    pieces = read_made_pieces(item, blocks, head, syntax)
    if pieces is not None and is_untouched(item):
        return pieces
    if pieces is None:
        known = read_notes(metadata, AgentScopeSidecar.model_validate)
        pieces = apply_notes(known, blocks, head, syntax) if known else None
        if pieces is not None and _is_reproducible(item, metadata, pieces[0], syntax):
            return pieces
    pieces = pieces or list(syntax.read_blocks(blocks, head)) or [head]
    return keep_original(pieces, syntax.key, item)


def _is_reproducible(item: Json, metadata: Json, first: Message, syntax: BlockSyntax) -> bool:
    """Return whether writing the pieces gives the same message."""
    if metadata.keys() != {SIDECAR_KEY} or metadata[SIDECAR_KEY]["id"] != item.get("id"):
        return False
    if item.get(syntax.time_key) != first.extra.get("created_at"):
        return False
    return item.keys() <= {"id", "name", "role", "content", "metadata", syntax.time_key}


def replay_item(
    given: Sequence[Message], at: int, key: str, read: Callable[[Any], Sequence[Message] | None]
) -> tuple[Json, int] | None:
    """Return (original item, number of its pieces) if parsing the item gives the pieces from `at` on, else None.

    `read` validates and parses the item.
    """
    length = count_unchanged(given, at, key, lambda kept: read(kept["raw"]), _is_same)
    return (given[at].extra[key]["raw"], length) if length else None


def _is_same(original: Message, present: Message) -> bool:
    return to_model_view(original) == to_model_view(present)
