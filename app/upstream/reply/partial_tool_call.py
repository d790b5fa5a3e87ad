"""One call of a reply while its fragments come. Whatever is asked of it, each fragment is looked at only once."""

import json
import re
from typing import Any

from app.upstream.reply.chunk import ToolCallFragment

_MARKS = re.compile(r'\\.?|["\[\]{}]', re.DOTALL)


class PartialToolCall:
    __slots__ = (
        "_nesting",
        "_pieces",
        "_seen",
        "_whole",
        "extra",
        "first",
        "fragments",
        "id",
        "index",
        "name",
        "number",
        "sealed",
        "size",
    )

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.extra: dict[str, Any] = {}
        self.fragments = 0
        self.number = -1
        """Its place among the announced calls; -1 before."""
        self.sealed = False
        """Another call has opened since: the name is whole."""
        self.first = ""
        """The first character of the arguments that is not blank."""
        self.size = 0
        self._pieces: list[str] = []
        self._seen = 0
        """The pieces that were looked at."""
        self._nesting = _Nesting()
        self._whole: bool | None = None
        """None while the arguments' first bracket is open."""

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.size += len(piece)
        self.first = self.first or piece.lstrip()[:1]

    @property
    def text(self) -> str:
        """The arguments so far; joined anew each time."""
        return "".join(self._pieces)

    def ready(self) -> bool:
        """Whether nothing that is told first can still change. An id may come one fragment late."""
        if not self.name or self.first == '"':
            return False
        return self.sealed or (bool(self.first) and (bool(self.id) or self.fragments > 1))

    def complete(self) -> bool:
        """Whether the arguments are one JSON object or list."""
        if not self.first or self.first not in "{[":
            return False
        while self._seen < len(self._pieces):
            piece = self._pieces[self._seen]
            self._seen += 1
            if self._whole is None:
                end = self._nesting.end(piece)
                if end >= 0:
                    self._whole = not piece[end:].strip() and _is_json("".join(self._pieces[: self._seen]))
            elif piece.strip():
                self._whole = False
        return self._whole is True

    def is_repeated_by(self, name: str | None, arguments: str) -> bool:
        """Whether these are the whole call a second time."""
        if not name or name != self.name or self.size != len(arguments):
            return False
        return self.complete() and self.text == arguments

    def is_ended_by(self, fragment: ToolCallFragment, known_id: bool) -> bool:
        """Whether a fragment that was found to belong to this call begins another one instead."""
        name = fragment.function.name if fragment.function else None
        if not name:
            return False
        arguments = (fragment.function.arguments if fragment.function else None) or ""
        if known_id or not fragment.id:
            begins = arguments.lstrip().startswith("{") or (bool(self.name) and name != self.name)
            return begins and self.complete() and not self.is_repeated_by(name, arguments)
        return not self.first or name != self.name or self.complete()


class _Nesting:
    """The brackets of a JSON text that comes in pieces."""

    __slots__ = ("_depth", "_escaped", "_quoted")

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False

    def end(self, piece: str) -> int:
        """The place behind the bracket that closes the first one; -1 when the piece has none."""
        start, self._escaped = int(self._escaped), False
        for mark in _MARKS.finditer(piece, start):
            token = mark.group()
            if token == '"':
                self._quoted = not self._quoted
            elif token[0] == "\\":
                self._escaped = len(token) == 1
            elif not self._quoted:
                self._depth += 1 if token in "[{" else -1
                if self._depth == 0:
                    return mark.end()
        return -1


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
