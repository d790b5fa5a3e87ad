"""One tool call of a reply while its fragments arrive. Each fragment is scanned only once.

Arguments that say nothing yet (`{}`, `null`, `[]`) are held back, because servers send them before the real ones. So is
what follows complete arguments, because servers send these again, and a string, because it may hold an object as JSON.
"""

from typing import Any, Final

from app.chat.json_end import JsonEnd
from app.upstream.reply import arguments
from app.upstream.reply.chunk import ToolCallFragment

_SAYS_NOTHING_YET: Final = frozenset(text[:size] for text in arguments.NO_ARGUMENTS for size in range(len(text) + 1))
"""Beginnings of arguments, without their white space, behind which the real ones can still come."""
_LONGEST: Final = max(map(len, arguments.NO_ARGUMENTS)) + 1
_BEGINS_AGAIN: Final = frozenset('{["n \t\r\n')
"""The characters with which a repetition of complete arguments can begin."""
_LAST_CHARACTERS: Final = {"{": "} \t\r\n", "[": "] \t\r\n", '"': '" \t\r\n'}
"""The characters with which complete arguments can end, by their first one."""


class PartialToolCall:
    __slots__ = (
        "_again",
        "_complete",
        "_end",
        "_first_text",
        "_held",
        "_meaning",
        "_seen",
        "_arguments",
        "answered",
        "extra",
        "first",
        "fragments",
        "id",
        "index",
        "name",
        "number",
        "sealed",
        "waits_for_answer",
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
        self.waits_for_answer = False
        """It calls a tool of the server, which may answer it in this reply."""
        self.answered = False
        """The server has run it."""
        self.first = ""
        """The first character of the arguments that is not white space."""
        self._held: list[str] | None = []
        """The arguments while they say nothing yet. None once they are passed on: never, if they begin with a quote."""
        self._first_text = ""
        """The beginning of the arguments without white space."""
        self._arguments: list[str] = []
        self._again: list[str] = []
        """What came after complete arguments."""
        self._seen = 0
        """How many of `_arguments` have been scanned."""
        self._end = JsonEnd()
        self._complete: bool | None = None
        """Whether the arguments are complete; None while their first bracket is open."""
        self._meaning: str | None = None

    def add(self, fragment: str) -> str:
        """Add a fragment that is not empty, and return what can be passed on: nothing, if it is held back."""
        if self._held is not None and self.first != '"':
            return self._add_first(fragment, self._held)
        if self._again or (fragment[0] in _BEGINS_AGAIN and self._may_repeat()):
            self._again.append(fragment)
            return ""
        self._arguments.append(fragment)
        return fragment if self._held is None else ""

    def _add_first(self, fragment: str, held: list[str]) -> str:
        first_text = self._first_text + arguments.remove_space(fragment)
        if self.says_nothing and first_text not in _SAYS_NOTHING_YET:
            held.clear()
            first_text = arguments.remove_space(fragment)
        self.first = first_text[:1]
        self._first_text = first_text[:_LONGEST]
        held.append(fragment)
        if first_text in _SAYS_NOTHING_YET:
            return ""
        text = "".join(held)
        if self._is_string():
            self._arguments.append(text)
            return ""
        self._held = None
        self._arguments.append(arguments.drop_repetitions(text))
        return self._arguments[0]

    def _is_string(self) -> bool:
        """Whether the arguments are a string that is held back."""
        return self._held is not None and self.first == '"'

    def _may_repeat(self) -> bool:
        """Whether the arguments are complete, so that everything that follows is held back."""
        return self._arguments[-1][-1:] in _LAST_CHARACTERS.get(self.first, "") and self.complete()

    @property
    def has_arguments(self) -> bool:
        return bool(self._arguments or self._held)

    @property
    def says_nothing(self) -> bool:
        """Whether the arguments are complete and empty: `{}`, `[]` or `null`."""
        return self._held is not None and self._first_text != "" and self._first_text in arguments.NO_ARGUMENTS

    @property
    def text(self) -> str:
        """The arguments so far, without what is held back. Each access joins all fragments."""
        return "".join(self._arguments)

    def take_rest(self, *, failed: bool = False) -> str:
        """Add what was held back to the arguments, because no more comes, and return it: `{}` for empty arguments,
        nothing for a repetition, what a string holds. What a failed reply holds is returned as it arrived."""
        again = "".join(self._again)
        meaning = self._get_meaning() if again else None
        if meaning is not None and arguments.is_repetition(again, meaning):
            again = ""
        held, self._held, self._again = self._held, None, []
        if held is None:
            self._arguments.append(again)
            return again
        text = self.text + again if self._arguments else "".join(held)
        self._arguments = [text if failed else arguments.decode_text(text)]
        self.first = self._arguments[0].lstrip()[:1]
        return self._arguments[0]

    def ready(self) -> bool:
        """Whether the call can be announced: its name and id can no longer change. An id may come one fragment late."""
        if not self.name or self._is_string() or self.waits_for_answer:
            return False
        return self.sealed or (bool(self.first) and (bool(self.id) or self.fragments > 1))

    def complete(self) -> bool:
        """Whether the arguments are one complete JSON object, list or string."""
        if self._held is not None and not self._is_string():
            return self.says_nothing
        if self.first not in '{["':
            return False
        while self._seen < len(self._arguments):
            fragment = self._arguments[self._seen]
            self._seen += 1
            if self._complete is None:
                end = self._end.find(fragment)
                if end >= 0:
                    self._complete = not fragment[end:].strip() and self._get_meaning() is not None
            elif fragment.strip():
                self._complete = False
        return self._complete is True

    def _get_meaning(self) -> str | None:
        """Return what complete arguments mean. They are decoded once."""
        if self._meaning is None:
            self._meaning = arguments.get_meaning(self.text)
        return self._meaning

    def is_ended_by(self, fragment: ToolCallFragment, known_id: bool) -> bool:
        """Whether a fragment that has this call's id, index or position begins another call nevertheless."""
        name = fragment.function.name if fragment.function else None
        if not name:
            return False
        if not known_id and fragment.id:
            return not self.first or name != self.name or self.complete()
        text = (fragment.function.arguments if fragment.function else None) or ""
        renamed = bool(self.name) and name != self.name
        if not (renamed or text.lstrip().startswith("{")) or not self.complete():
            return False
        if renamed:
            return True
        if self.says_nothing:
            has_place = known_id or (fragment.index is not None and fragment.index >= 0)
            return not has_place and arguments.remove_space(text) not in arguments.NO_ARGUMENTS
        return arguments.get_meaning(text) != self._get_meaning()
