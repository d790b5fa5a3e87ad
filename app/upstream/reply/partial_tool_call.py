"""One tool call of a reply while its fragments arrive. Each fragment is scanned only once."""

import json
from typing import Any

from app.chat.json_end import JsonEnd
from app.upstream.reply.chunk import ToolCallFragment


class PartialToolCall:
    __slots__ = (
        "_arguments",
        "_end",
        "_seen",
        "_complete",
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
        """Its position among the announced calls; -1 before it is announced."""
        self.sealed = False
        """Other content came after it, so its name is complete."""
        self.first = ""
        """The first character of the arguments that is not white space."""
        self.size = 0
        self._arguments: list[str] = []
        self._seen = 0
        """How many of `_arguments` have been scanned."""
        self._end = JsonEnd()
        self._complete: bool | None = None
        """Whether the arguments are complete; None while their first bracket is open."""

    def add(self, fragment: str) -> None:
        self._arguments.append(fragment)
        self.size += len(fragment)
        if not self.first:
            self.first = fragment.lstrip()[:1]

    @property
    def text(self) -> str:
        """The arguments so far. Each access joins all fragments."""
        return "".join(self._arguments)

    def ready(self) -> bool:
        """Whether the call can be announced: its name and id can no longer change. An id may come one fragment late."""
        if not self.name or self.first == '"':
            return False
        return self.sealed or (bool(self.first) and (bool(self.id) or self.fragments > 1))

    def complete(self) -> bool:
        """Whether the arguments are one complete JSON object or list."""
        if not self.first or self.first not in "{[":
            return False
        while self._seen < len(self._arguments):
            fragment = self._arguments[self._seen]
            self._seen += 1
            if self._complete is None:
                end = self._end.find(fragment)
                if end >= 0:
                    self._complete = not fragment[end:].strip() and _is_json("".join(self._arguments[: self._seen]))
            elif fragment.strip():
                self._complete = False
        return self._complete is True

    def is_repeated_by(self, name: str | None, arguments: str) -> bool:
        """Whether a fragment repeats the whole call."""
        if not name or name != self.name or self.size != len(arguments):
            return False
        return self.complete() and self.text == arguments

    def is_ended_by(self, fragment: ToolCallFragment, known_id: bool) -> bool:
        """Whether a fragment that has this call's id, index or position begins another call nevertheless."""
        name = fragment.function.name if fragment.function else None
        if not name:
            return False
        arguments = (fragment.function.arguments if fragment.function else None) or ""
        if known_id or not fragment.id:
            begins = arguments.lstrip().startswith("{") or (bool(self.name) and name != self.name)
            return begins and self.complete() and not self.is_repeated_by(name, arguments)
        return not self.first or name != self.name or self.complete()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
