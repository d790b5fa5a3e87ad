"""The slow, plain reading of streamed tool calls: which fragment belongs to which call (rule 6)."""

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Slot = int | tuple[str, int] | None
"""Where a fragment says it belongs: a valid index, a place in a list of several, or nowhere."""


@dataclass
class Call:
    """One call while it is being put together."""

    slot: Slot
    run: int
    """How many times text had interrupted the calls when this one was opened."""
    ids: set[str] = field(default_factory=set)
    name: str = ""
    arguments: str = ""

    @property
    def complete(self) -> bool:
        return is_json(self.arguments)


def is_json(text: str) -> bool:
    """Whether the text is one JSON document."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@dataclass
class Calls:
    """All calls of one reply, in the order in which they were opened."""

    opened: list[Call] = field(default_factory=list)
    run: int = 0

    def interrupt(self) -> None:
        """Say that text came: calls opened later do not stand next to the earlier ones."""
        self.run = len(self.opened)

    def add_whole(self, fragments: list[Any]) -> None:
        """Take the calls of a whole message: every entry is a call of its own."""
        for fragment in fragments:
            call = Call(slot=None, run=self.run)
            self.opened.append(call)
            _extend(call, *_parts(fragment))

    def add_delta(self, fragments: list[Any]) -> None:
        """Take the fragments of one delta."""
        for place, fragment in enumerate(fragments):
            identity, name, arguments = _parts(fragment)
            slot = _slot(fragment.get("index"), place, len(fragments))
            call = self._find(identity, slot)
            renamed = call is not None and bool(name) and name != call.name and call.complete
            begins = call is not None and identity not in call.ids and _begins_another(call, identity, name, arguments)
            if call is None or begins or renamed:
                if not (identity or name or arguments):
                    continue
                call = Call(slot, self.run)
                self.opened.append(call)
            _extend(call, identity, name, arguments)

    def _find(self, identity: str | None, slot: Slot) -> Call | None:
        known = [call for call in self.opened if identity and identity in call.ids]
        if known:
            return known[-1]
        if slot is None:
            return self.opened[-1] if self.opened else None
        there = [call for call in self.opened if call.slot == slot]
        return there[-1] if there else None

    def drop(self, identity: str | None) -> None:
        """Leave out the call with this id, or all of them: the server ran them."""
        known = [call for call in self.opened if identity in call.ids]
        self.opened = [call for call in self.opened if known and call not in known]

    def in_order(self, closed: bool) -> list[tuple[str, str]]:
        """Name and arguments of each call; neighbours stand by index when all their indices differ.

        Calls that a broken reply left open have the arguments that came, be it none.
        """
        ordered: list[Call] = []
        for run in sorted({call.run for call in self.opened}):
            calls = [call for call in self.opened if call.run == run]
            slots = [call.slot for call in calls if isinstance(call.slot, int)]
            if len(set(slots)) == len(calls):
                calls.sort(key=lambda call: call.slot if isinstance(call.slot, int) else 0)
            ordered.extend(calls)
        return [(call.name, _final(call.arguments) if closed else call.arguments) for call in ordered]


def _parts(fragment: Json) -> tuple[str | None, str, str]:
    function = fragment.get("function") or {}
    if isinstance(function, str):
        function = {"name": function}
    identity = fragment.get("id")
    name, arguments = (function.get(key, fragment.get(key)) for key in ("name", "arguments"))
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return (str(identity) if identity not in (None, "") else None), name or "", arguments or ""


def _slot(index: object, place: int, count: int) -> Slot:
    if isinstance(index, int) and not isinstance(index, bool) and index >= 0:
        return index
    return ("place", place) if count > 1 else None


def _begins_another(call: Call, identity: str | None, name: str, arguments: str) -> bool:
    if not name:
        return False
    if identity and call.ids:
        return not call.arguments.strip() or call.complete or name != call.name
    if isinstance(call.slot, int) and name == call.name and call.arguments.strip() == "{}":
        return False
    return call.complete and arguments.lstrip().startswith("{") and _meaning(arguments) != _meaning(call.arguments)


def _extend(call: Call, identity: str | None, name: str, arguments: str) -> None:
    if identity is not None:
        call.ids.add(identity)
    if name != call.name and not call.arguments:
        call.name += name
    elif not call.name:
        call.name = name
    call.arguments += arguments


def _final(arguments: str) -> str:
    """The arguments that are sent first and say something, if all behind them say the same; else as they came."""
    texts = _documents(arguments)
    if texts is None:
        return arguments
    told = [text for text in texts if _meaning(text) not in EMPTY]
    if any(_meaning(text) != _meaning(told[0]) for text in told):
        return arguments
    if not told:
        return "{}"
    meaning = _meaning(told[0])
    return json.dumps(meaning) if told[0][0] == '"' and isinstance(meaning, dict) else told[0]


EMPTY: tuple[object, ...] = ({}, [], None, "")


def _meaning(text: str) -> object:
    """What a JSON text says, also in strings."""
    value: object = text
    while isinstance(value, str) and is_json(value):
        value = json.loads(value)
    return value


def _documents(text: str) -> list[str] | None:
    """The JSON documents that stand one behind the other in a text; None if it has anything else."""
    texts, rest = [], text.strip()
    while rest:
        try:
            end = json.JSONDecoder().raw_decode(rest)[1]
        except ValueError:
            return None
        texts.append(rest[:end])
        rest = rest[end:].strip()
    return texts
