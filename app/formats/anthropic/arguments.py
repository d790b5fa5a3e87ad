"""Looks at the arguments of a reply's calls, which Anthropic's `input` can hold only if they are JSON.

A stream has them as text, so they are sent as the model wrote them, with a warning: agents give the model the error of
their parser, and go on. A whole message cannot hold them, so that it fails. JSON that is not an object is sent with a
warning in both: the SDKs read it, and clients that check `input` tell the model.
"""

import re

from msgspec.structs import replace

from app.chat.events import Event, Failed, Fault, Finish, ServerCall, ToolCallDelta
from app.chat.stage import Stage
from app.formats.base import ReplyMode
from app.formats.sequential_calls import SequentialCallsStage

MAX_NESTING = 200
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]*')
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER_STEPS: dict[str, dict[str, str]] = {
    "start": {"-": "minus", "0": "zero", **dict.fromkeys("123456789", "integer")},
    "minus": {"0": "zero", **dict.fromkeys("123456789", "integer")},
    "zero": {".": "point", **dict.fromkeys("eE", "exponent")},
    "integer": {".": "point", **dict.fromkeys("0123456789", "integer"), **dict.fromkeys("eE", "exponent")},
    "point": dict.fromkeys("0123456789", "fraction"),
    "fraction": {**dict.fromkeys("0123456789", "fraction"), **dict.fromkeys("eE", "exponent")},
    "exponent": {**dict.fromkeys("0123456789", "power"), **dict.fromkeys("+-", "sign")},
    "sign": dict.fromkeys("0123456789", "power"),
    "power": dict.fromkeys("0123456789", "power"),
}
"""What a number has come to, by what it had come to before and the next character."""
_WHOLE_NUMBERS = ("zero", "integer", "fraction", "power")
_NUMBER_CHARS = frozenset("-+.eE0123456789")
_LITERALS = ("true", "false", "null")
_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPES = frozenset('"\\/bfnrt')


class JsonScanner:
    """Checks a JSON value that arrives in pieces (RFC 8259)."""

    __slots__ = ("_escape", "_expects", "_partial", "_stack", "is_object")

    def __init__(self) -> None:
        self.is_object = False
        """Whether the value begins as an object."""
        self._stack: list[str] = []
        self._expects = "start"
        """What must come next: `start`, `key`, `key or end`, `colon`, `value`, `value or end`, `comma or end`, the
        rest of a `string`, `number` or `literal`, or nothing (`end`)."""
        self._partial = ""
        """The literal so far; what a number has come to; for a string, whether it is a `key` or a `value`."""
        self._escape = 0
        """In a string: 5 after a backslash, 4 to 1 for the hex digits that are missing."""

    @property
    def whole(self) -> bool:
        if self._expects == "number" and not self._stack:
            return self._partial in _WHOLE_NUMBERS
        return self._expects == "end"

    def feed(self, text: str) -> bool:
        """Return whether the text so far is a JSON value, or the start of one. Not to be called after False."""
        at, size = 0, len(text)
        while at < size:
            if self._expects == "string":
                at = self._skip_string(text, at)
            elif self._expects in ("number", "literal"):
                at = self._skip_partial(text, at)
            else:
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches always
                if at < size:
                    at = self._take(text[at], at)
            if at < 0:
                return False
        return True

    def _skip_string(self, text: str, at: int) -> int:
        """Return the position up to which the string goes on, -1 if it is invalid."""
        char = text[at]
        if self._escape == 5:
            if char != "u" and char not in _ESCAPES:
                return -1
            self._escape = 4 if char == "u" else 0
            return at + 1
        if self._escape:
            self._escape -= 1
            return at + 1 if char in _HEX else -1
        at = _PLAIN_TEXT.match(text, at).end()  # type: ignore[union-attr]  # it matches always
        if at == len(text):
            return at
        if text[at] == "\\":
            self._escape = 5
        elif text[at] == '"':
            self._expects = "colon" if self._partial == "key" else self._behind_value()
        else:
            return -1
        return at + 1

    def _skip_partial(self, text: str, at: int) -> int:
        char = text[at]
        if self._expects == "literal":
            self._partial += char
            if not any(word.startswith(self._partial) for word in _LITERALS):
                return -1
            if self._partial in _LITERALS:
                self._expects = self._behind_value()
            return at + 1
        if char in _NUMBER_CHARS:
            self._partial = _NUMBER_STEPS[self._partial].get(char, "")
            return at + 1 if self._partial else -1
        self._expects = self._behind_value()
        return at if self._partial in _WHOLE_NUMBERS else -1

    def _take(self, char: str, at: int) -> int:
        expects = self._expects
        if expects == "start":
            self.is_object = char == "{"
            return at + 1 if self._start_value(char) else -1
        if expects in ("key", "key or end") and char == '"':
            self._expects, self._partial = "string", "key"
        elif expects == "colon" and char == ":":
            self._expects = "value"
        elif expects in ("value", "value or end") and char not in "]}":
            return at + 1 if self._start_value(char) else -1
        elif expects == "comma or end" and char == ",":
            self._expects = "key" if self._stack[-1] == "{" else "value"
        elif expects.endswith("or end") and char == ("}" if self._stack[-1] == "{" else "]"):
            self._end()
        else:
            return -1
        return at + 1

    def _start_value(self, char: str) -> bool:
        if char in "{[":
            return self._open(char)
        if char == '"':
            self._expects, self._partial = "string", "value"
        elif char in _NUMBER_STEPS["start"]:
            self._expects, self._partial = "number", _NUMBER_STEPS["start"][char]
        elif char in "tfn":
            self._expects, self._partial = "literal", char
        else:
            return False
        return True

    def _open(self, char: str) -> bool:
        self._stack.append(char)
        self._expects = "key or end" if char == "{" else "value or end"
        return len(self._stack) <= MAX_NESTING

    def _end(self) -> None:
        self._stack.pop()
        self._expects = self._behind_value()

    def _behind_value(self) -> str:
        return "comma or end" if self._stack else "end"


class _Calls:
    """The calls of a reply, and what their arguments have come to.

    A reply that was cut by its limit of tokens may end within its last call. Calls that the gateway runs are not
    looked at: it tells the model what is wrong with them.
    """

    def __init__(self) -> None:
        self._scanners: dict[int, JsonScanner] = {}
        self._starts: dict[int, ToolCallDelta] = {}
        """The first delta of each call."""
        self._served: set[int] = set()
        """The calls that the gateway runs."""
        self._broken: set[int] = set()
        """Those whose arguments can no longer become JSON."""

    def add(self, event: Event) -> bool:
        """Return whether the arguments of each call may still become JSON."""
        if type(event) is ServerCall:
            self._served.add(event.index)
        if type(event) is not ToolCallDelta or event.index in self._served or event.index in self._broken:
            return not self._broken
        scanner = self._scanners.get(event.index)
        if scanner is None:
            scanner = self._scanners[event.index] = JsonScanner()
            self._starts[event.index] = event
        if event.arguments and not scanner.feed(event.arguments):
            self._broken.add(event.index)
        return not self._broken

    def list_invalid(self, finish: Finish) -> list[ToolCallDelta]:
        """Return the first deltas of calls whose arguments are not JSON."""
        return [
            start
            for index, start in self._starts.items()
            if index in self._broken or not (self._scanners[index].whole or finish.reason == "length")
        ]

    def add_warnings(self, finish: Finish) -> Finish:
        """Add a warning for each call whose arguments are not a JSON object."""
        invalid = self.list_invalid(finish)
        warnings = [_warn(start, "not JSON") for start in invalid]
        warnings += (
            _warn(start, "JSON, but not an object")
            for index, start in self._starts.items()
            if start not in invalid and self._scanners[index].whole and not self._scanners[index].is_object
        )
        return replace(finish, warnings=(*finish.warnings, *warnings)) if warnings else finish


def _warn(start: ToolCallDelta, what: str) -> str:
    return f"arguments_valid: false for {start.id}: the arguments of {start.name!r} are {what}"


class StreamedArgumentsStage:
    """Warns of arguments that are not a JSON object."""

    def __init__(self) -> None:
        self._calls = _Calls()

    def feed(self, events: list[Event]) -> list[Event]:
        for event in events:
            self._calls.add(event)
        last = events[-1] if events else None
        return [*events[:-1], self._calls.add_warnings(last)] if type(last) is Finish else events


class WholeArgumentsStage:
    """Ends a reply with `tool_use_failed` where the arguments of a call can no longer become JSON, and warns of those
    that are no object."""

    def __init__(self) -> None:
        self._calls = _Calls()
        self._failed = False

    def feed(self, events: list[Event]) -> list[Event]:
        if self._failed:
            return []
        for place, event in enumerate(events):
            if not self._calls.add(event):
                return [*events[:place], self._fail()]
            if type(event) is Finish:
                invalid = self._calls.list_invalid(event)
                return [*events[:place], self._fail() if invalid else self._calls.add_warnings(event)]
        return events

    def _fail(self) -> Failed:
        self._failed = True
        return Failed(Fault("tool_use_failed", "the model called a tool with arguments that are not JSON", True))


class CallsStage:
    """Checks and orders the calls of a reply. Until the first call, events pass as they are."""

    def __init__(self, mode: ReplyMode) -> None:
        self._arguments: Stage = WholeArgumentsStage() if mode == "whole" else StreamedArgumentsStage()
        self._sequence = SequentialCallsStage()
        self._has_calls = False
        self._before: list[Event] = []
        """The events of the last read without a call."""

    def feed(self, events: list[Event]) -> list[Event]:
        if not self._has_calls:
            if ToolCallDelta not in map(type, events):
                if events:
                    self._before = events
                return events
            self._has_calls = True
            if self._before and type(self._before[-1]) is ServerCall:  # it says what the first call is
                self._feed(self._before[-1:])
        return self._feed(events)

    def _feed(self, events: list[Event]) -> list[Event]:
        events = self._arguments.feed(events)
        return self._sequence.feed(events) if events else events
