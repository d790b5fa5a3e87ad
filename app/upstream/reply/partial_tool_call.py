"""One tool call of a reply while its fragments arrive. Each fragment is scanned only once.

Arguments that say nothing yet (`{}`, `null`, `[]`) are held back, because servers send them before the real ones. So is
what follows complete arguments, because servers send these again, or several calls of one function as one
(unslothai/unsloth#10059, diegosouzapw/OmniRoute#11043), and a string or a list, because it may hold the object.

Some servers send in each fragment all of the arguments so far (NousResearch/hermes-agent#35592, vercel/ai#12052). A
fragment that begins with all that came before, at a place where an object cannot begin, shows that; of each further one
only what is new counts. Where an object can begin (`{"a":` and then `{"a":1}`), the next fragment decides, or the end.
"""

import json
import re
from typing import Any, Final

import msgspec

from app.chat.accumulator import JsonEnd
from app.upstream.reply.chunk import ToolCallFragment

NO_ARGUMENTS: Final = ("", "{}", "[]", "null")
"""Texts that say that there are no arguments, without their white space."""
MAX_ENCODINGS = 3
"""How often JSON inside a JSON string is decoded."""
MAX_MERGED = 100
"""How many objects may be the arguments of one call."""
_TWO_OBJECTS = re.compile(r"\}\s*\{")
_EMPTY_OBJECTS = re.compile(r"(?:\s*\{\s*\})+(?=\s*\{)")
_SPACE = re.compile(r"\s*")
_ARGUMENTS_BEGIN = re.compile(r"[<({]")
_SEPARATORS: Final = ("", ".", ":", "/")
"""Behind them a name begins."""


def remove_space(text: str) -> str:
    return "".join(text.split())


def decode_text(text: str) -> str:
    """Return arguments as an object: `{}` if there are none, and the object in a string that holds one as JSON, or the
    only one in a list. All others are returned unchanged."""
    if text.lstrip()[:1] == "[" and (item := _find_only_item(text)) is not None:
        return item
    inner = text
    for _ in range(MAX_ENCODINGS):
        if remove_space(inner) in NO_ARGUMENTS:
            return "{}"
        try:
            inner = msgspec.json.decode(inner, type=str)
            if isinstance(msgspec.json.decode(inner), dict):
                return inner
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            if remove_space(inner) not in NO_ARGUMENTS:
                return text
    return text


def _find_only_item(text: str) -> str | None:
    """Return the text of the object in a list that has nothing else."""
    try:
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
        item = bytes(items[0]).decode() if len(items) == 1 else ""
        return item if item[:1] == "{" and msgspec.json.decode(item, type=dict[str, Any]) is not None else None
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None


def get_meaning(text: str) -> str | None:
    """Return a text that is equal for equal arguments: spacing, the order of members, `1.0` instead of `1`, and JSON in
    a string make no difference. None if the text is not JSON."""
    try:
        return _write_meaning(_decoder.decode(text))
    except (ValueError, RecursionError):
        return None


def is_repetition(text: str, meaning: str) -> bool:
    """Whether a text that came behind complete arguments only says them again, or nothing."""
    values = _read_values(text)
    return values is not None and all(value == meaning or value in NO_ARGUMENTS for value in values)


def drop_repetitions(text: str) -> str:
    """Return the first of several equal JSON values, or what is behind empty objects; any other text as it is."""
    if not _TWO_OBJECTS.search(text):
        return text
    if empty := _EMPTY_OBJECTS.match(text):
        text = text[empty.end() :]
    values = _read_values(text)
    if values is None or len(values) < 2 or len(set(values)) > 1:
        return text
    start = _SPACE.match(text).end()  # type: ignore[union-attr]  # it matches always
    return text[: _decoder.raw_decode(text, start)[1]]


def list_merged(text: str) -> list[str]:
    """Return the arguments of all calls that a server has sent as one: each of several objects that say different
    things under the same names, once. Empty for any other text, and where an object says all that the one before it
    does, and more, or nothing of the same: that may be the same call again, or the rest of it."""
    merged: dict[str, str] = {}
    before: dict[str, Any] | None = None
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # it matches always
    try:
        while at < len(text):
            value, end = _decoder.raw_decode(text, at)
            if not isinstance(value, dict) or len(merged) > MAX_MERGED:
                return []
            meaning = _write_meaning(value)
            if value and meaning not in merged:
                if before is not None and (before.keys().isdisjoint(value) or _says_more(value, before)):
                    return []
                merged[meaning] = text[at:end]
                before = value
            at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return []
    return [*merged.values()]


def _says_more(value: Any, before: Any) -> bool:
    """Whether an object has all members of the one before it, of which texts may be longer."""
    if isinstance(value, dict) and isinstance(before, dict):
        return all(name in value and _says_more(value[name], inner) for name, inner in before.items())
    if isinstance(value, str) and isinstance(before, str):
        return value.startswith(before)
    return bool(value == before)


def _read_values(text: str) -> list[str] | None:
    """Return the meanings of the JSON values of which a text consists; None if it has anything else."""
    values: list[str] = []
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # it matches always
    try:
        while at < len(text):
            value, at = _decoder.raw_decode(text, at)
            values.append(_write_meaning(value))
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return None
    return values


def _write_meaning(value: Any) -> str:
    for _ in range(MAX_ENCODINGS):
        if not isinstance(value, str):
            break
        try:
            value = _decoder.decode(value) if value.strip() else None
        except ValueError:
            break
    return json.dumps(value, sort_keys=True)


def _parse_float(digits: str) -> float | int:
    number = float(digits)
    return int(number) if number.is_integer() else number


_decoder = json.JSONDecoder(parse_float=_parse_float)


_SAYS_NOTHING_YET: Final = frozenset(text[:size] for text in NO_ARGUMENTS for size in range(len(text) + 1))
"""Beginnings of arguments, without their white space, behind which the real ones can still come."""
_LONGEST: Final = max(map(len, NO_ARGUMENTS)) + 1
_BEGINS_AGAIN: Final = frozenset('{["n \t\r\n')
"""The characters with which a repetition of complete arguments can begin."""
_BEFORE_AN_OBJECT: Final = frozenset(":[,")
"""The characters behind which a JSON value can begin."""
_WRAPPERS: Final = '"['
"""The characters with which arguments begin that are not an object, but may hold one."""
_LAST_CHARACTERS: Final = {"{": "} \t\r\n", "[": "] \t\r\n", '"': '" \t\r\n'}
"""The characters with which complete arguments can end, by their first one."""


def clean_name(name: str) -> str:
    """Return the name of a function without what a server left of the template behind it: gpt-oss's
    `read<|channel|>commentary` (earendil-works/pi#4439). A name in which arguments may stand, or that begins behind
    a token, is cleaned later, by the names that are offered."""
    head, _, rest = name.partition("<|")
    head = head.strip()
    return name.strip() if head[-1:] in _SEPARATORS or _ARGUMENTS_BEGIN.search(rest) is not None else head


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
        "_restated",
        "_restates",
        "_size",
        "answered",
        "extra",
        "first",
        "fragments",
        "has_more",
        "id",
        "index",
        "name",
        "number",
        "others",
        "repeats",
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
        self.repeats: PartialToolCall | None = None
        """The call whose name came once more behind its arguments, which opened this one: until this one is sealed, it
        is not known whether it only says that again."""
        self.waits_for_answer = False
        """It calls a tool of the server, which may answer it in this reply."""
        self.answered = False
        """The server has run it."""
        self.has_more = False
        """Something came behind its complete arguments."""
        self.others: list[str] = []
        """At the end: the arguments of further calls that the server has sent as this one."""
        self.first = ""
        """The first character of the arguments that is not white space."""
        self._held: list[str] | None = []
        """The arguments while they say nothing yet. None once they are passed on: never, if they are a text or a
        list."""
        self._first_text = ""
        """The beginning of the arguments without white space."""
        self._arguments: list[str] = []
        self._again: list[str] = []
        """What came after complete arguments."""
        self._size = 0
        """How many characters of arguments have been passed on or are in `_restated`."""
        self._restates = False
        """Each fragment has all of the arguments so far."""
        self._restated: list[str] = []
        """Fragments of which it is not yet known whether they are all of the arguments so far, or an object inside."""
        self._seen = 0
        """How many of `_arguments` have been scanned."""
        self._end = JsonEnd()
        self._complete: bool | None = None
        """Whether the arguments are complete; None while their first bracket is open."""
        self._meaning: str | None = None

    def add_name(self, name: str) -> None:
        """Add a name, a part of it, or again all of it so far."""
        if not self.name or (not self.has_arguments and name.startswith(self.name)):
            self.name = name
        elif not self.has_arguments:
            self.name += name

    def add(self, fragment: str) -> str:
        """Add a fragment that is not empty, and return what can be passed on: nothing, if it is held back."""
        if self._held is not None and not self._is_wrapped():
            return self._add_first(fragment, self._held)
        if self._again or (fragment[0] in _BEGINS_AGAIN and self._may_repeat()):
            return self._hold(fragment)
        if self._restated or (fragment[0] == "{" and self.first == "{" and len(fragment) >= self._size):
            fragment = self._take_new(fragment)
        return self._pass_on(fragment)

    def _hold(self, text: str) -> str:
        """Hold what comes behind complete arguments."""
        self._again.append(text)
        self.has_more = self.has_more or not text.isspace()
        return ""

    def _pass_on(self, text: str) -> str:
        if not text:
            return ""
        if self.first == "{" and _TWO_OBJECTS.search(text) is not None:
            text = self._cut(text)
        self._arguments.append(text)
        self._size += len(text)
        return text if self._held is None else ""

    def _cut(self, text: str) -> str:
        """Return a text up to the end of the arguments, and hold the rest."""
        if self.complete() or self._complete is not None:
            return text
        place = self._end.find(text)
        self._seen += 1
        if place < 0:
            return text
        self._complete = get_meaning(self.text + text[:place]) is not None
        if not self._complete:
            return text
        self._hold(text[place:])
        return text[:place]

    def _take_new(self, fragment: str) -> str:
        """Return what a fragment adds that may have all of the arguments so far."""
        known = self.text
        if self._restated:
            self._restates = fragment.startswith(self._restated[-1])
            if not self._restates:
                fragment = "".join((*self._restated, fragment))
            self._restated.clear()
        elif not fragment.startswith(known):
            return fragment
        elif not self._restates and known.rstrip()[-1:] in _BEFORE_AN_OBJECT:
            self._restated.append(fragment)
            return ""
        else:
            self._restates = True
        return fragment[len(known) :] if self._restates else fragment

    def _add_first(self, fragment: str, held: list[str]) -> str:
        first_text = self._first_text + remove_space(fragment)
        if self.says_nothing and first_text not in _SAYS_NOTHING_YET:
            held.clear()
            first_text = remove_space(fragment)
        elif self.first == "{" and fragment.startswith("".join(held)):
            held.clear()
            self._restates = True
            first_text = remove_space(fragment)
        self.first = first_text[:1]
        self._first_text = first_text[:_LONGEST]
        held.append(fragment)
        if first_text in _SAYS_NOTHING_YET:
            return ""
        text = "".join(held)
        if self.first in _WRAPPERS:
            self._arguments.append(text)
            return ""
        self._held = None
        return self._pass_on(drop_repetitions(text))

    def _is_wrapped(self) -> bool:
        """Whether the arguments are a string or a list, which is held back."""
        return self._held is not None and bool(self._arguments)

    def _may_repeat(self) -> bool:
        """Whether the arguments are complete, so that everything that follows is held back."""
        return self._arguments[-1][-1:] in _LAST_CHARACTERS.get(self.first, "") and self.complete()

    @property
    def has_arguments(self) -> bool:
        return bool(self._arguments or self._held)

    @property
    def says_nothing(self) -> bool:
        """Whether the arguments are complete and empty: `{}`, `[]` or `null`."""
        return self._held is not None and self._first_text != "" and self._first_text in NO_ARGUMENTS

    @property
    def text(self) -> str:
        """The arguments so far, without what is held back. Each access joins all fragments."""
        return "".join(self._arguments)

    def take_rest(self, *, failed: bool = False) -> str:
        """Add what was held back to the arguments, because no more comes, and return it: `{}` for empty arguments,
        nothing for a repetition, what a string holds. What a failed reply holds is returned as it arrived."""
        if self._restated:
            self._arguments.append(self._take_restated(failed=failed))
            return self._arguments[-1]
        again = "".join(self._again)
        meaning = self._get_meaning() if again else None
        if meaning is not None and is_repetition(again, meaning):
            again = ""
        elif meaning is not None and not failed:
            self.others = list_merged(self.text + again)[1:]
            again = "" if self.others else again
        held, self._held, self._again = self._held, None, []
        if held is None:
            self._arguments.append(again)
            return again
        text = self.text + again if self._arguments else "".join(held)
        self._arguments = [text if failed else decode_text(text)]
        self.first = self._arguments[0].lstrip()[:1]
        return self._arguments[0]

    def _take_restated(self, *, failed: bool) -> str:
        """Return the rest of the arguments if the last fragment may have all of them."""
        restated, self._restated = self._restated, []
        known, rest = self.text, "".join(restated)
        is_whole = not failed and get_meaning(known + rest) is None
        return restated[-1][len(known) :] if is_whole and get_meaning(restated[-1]) is not None else rest

    def ready(self) -> bool:
        """Whether the call can be announced: its name and id can no longer change. An id may come one fragment late."""
        if not self.name or self._is_wrapped() or self.waits_for_answer or self.repeats is not None:
            return False
        return self.sealed or (bool(self.first) and (bool(self.id) or self.fragments > 1))

    def seal(self) -> None:
        """Learn that nothing more belongs to the call. One that only says an earlier one again counts as answered."""
        self.sealed = True
        earlier, self.repeats = self.repeats, None
        if earlier is not None:
            text = "".join(self._held or self._arguments)
            is_empty = remove_space(text) in NO_ARGUMENTS
            self.answered = is_empty or get_meaning(text) == earlier._get_meaning()

    def complete(self) -> bool:
        """Whether the arguments are one complete JSON object, list or string."""
        if self._held is not None and not self._is_wrapped():
            return self.says_nothing
        if self._restated:
            return get_meaning(self._restated[-1]) is not None
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
            self._meaning = get_meaning(self.text)
        return self._meaning

    def is_continued_by(self, fragment: ToolCallFragment) -> bool:
        """Whether a fragment with another id or index belongs to this call nevertheless: its name is empty, or it has
        neither name nor id, and the arguments of this call are not complete (oracle/langchain-oracle#163,
        sgl-project/sglang#23071)."""
        function = fragment.function
        if function is None or not function.arguments or not self.name or self.complete():
            return False
        return function.name == "" or (function.name is None and not fragment.id)

    def is_named_again(self, fragment: ToolCallFragment) -> bool:
        """Whether a fragment has nothing but this call's name: it says that again, or begins another call of the same
        function (unslothai/unsloth#10059)."""
        function = fragment.function
        return function is not None and not function.arguments and (function.name or "").strip() == self.name

    def is_ended_by(self, fragment: ToolCallFragment, known_id: bool) -> bool:
        """Whether a fragment that has this call's id, index or position begins another call nevertheless."""
        name = (fragment.function.name if fragment.function else None) or ""
        name = name.strip()
        if not name:
            return False
        if not known_id and fragment.id:
            return not self.first or name != self.name or self.complete()
        text = (fragment.function.arguments if fragment.function else None) or ""
        renamed = bool(self.name) and name != self.name
        again = not text and self.first == "{"
        if not (renamed or again or text.lstrip().startswith("{")) or not self.complete():
            return False
        if renamed:
            return True
        if again:
            return not self.says_nothing
        if self.says_nothing:
            has_place = known_id or (fragment.index is not None and fragment.index >= 0)
            return not has_place and remove_space(text) not in NO_ARGUMENTS
        return get_meaning(text) != self._get_meaning()
