"""Calls in the reply of a model that was asked with the `qwen` prompt.

A call is `✿FUNCTION✿: name`, then `✿ARGS✿: …` up to the next command. What is not the call's own is passed over, as
is everything behind a result or a RETURN that the model wrote itself, and behind the first call where only one was
asked for.
"""

from collections.abc import Generator, Sequence

from app.chat.messages import Tool
from app.steps.fncall.qwen import ARGS, FUNCTION, RESULT, RETURN
from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.json_calls import arguments
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.stage import CallStage
from app.steps.text_tools.told import Cut, Told, Unreadable

_COMMANDS = (FUNCTION, ARGS, RESULT, RETURN)
_LONGEST_NAME = 200
_FENCE = "```"


class QwenStage(CallStage):
    """`forced`: the function whose call the prompt has begun already."""

    def __init__(self, reply_id: str, tools: Sequence[Tool], *, parallel: bool = False, forced: str = "") -> None:
        super().__init__(reply_id, tools, lambda reading: _Commands(reading, forced).run(parallel=parallel))


class _Commands:
    def __init__(self, reading: Reading, forced: str) -> None:
        self._reading = reading
        self._name = forced
        """Whose arguments come next."""

    def run(self, *, parallel: bool) -> Steps:
        reading = self._reading
        yield from self._colon()
        while True:
            command = yield from reading.prose(*_COMMANDS, blanks=True)
            known = reading.calls
            if command in (FUNCTION, ARGS):
                yield from reading.attempt(self._call(command))
            if command in (RESULT, RETURN) or (reading.calls > known and not parallel):
                yield from reading.drop()

    def _colon(self) -> Steps:
        """The model goes on behind `✿RETURN✿` with a colon."""
        while not self._reading.text:
            yield
        if not (yield from self._reading.takes(": ")):
            yield from self._reading.takes(":")

    def _call(self, command: str) -> Steps:
        reading = self._reading
        if command == FUNCTION:
            self._name, command = yield from self._head()
        if not self._name:
            raise Unreadable
        call = reading.open(self._name)
        if command == ARGS:
            yield from self._arguments(call)
        call.finish()
        try:
            _, command = yield from reading.until(*_COMMANDS)
        except Cut:
            reading.rest()
        else:
            reading.pos -= len(command)
            reading.begin()

    def _head(self) -> Generator[None, None, tuple[str, str]]:
        """The name, and the command behind it if that is ARGS. A function of the request needs no arguments."""
        reading = self._reading
        try:
            head, command = yield from reading.until("\n", *_COMMANDS, limit=_LONGEST_NAME)
        except Cut:
            head, command = reading.text[reading.pos :], ""
        name = head.strip().removeprefix(":").strip()
        if command == "\n":
            command = yield from reading.swallow(ARGS)
        elif command != ARGS:
            reading.pos = len(reading.text) if not command else reading.pos - len(command)
        if not name or (command != ARGS and name not in reading.tools):
            raise Unreadable
        return name, command

    def _arguments(self, call: Told) -> Steps:
        reading = self._reading
        yield from reading.swallow(":")
        try:
            yield from reading.blanks()
        except Cut:
            return
        if reading.text[reading.pos] == "{":
            yield from arguments(reading, call, _COMMANDS)
            return
        try:
            text, command = yield from reading.until(*_COMMANDS)
            reading.pos -= len(command)
        except Cut:
            text = reading.rest()
        call.put(_own(text))


def _own(text: str) -> str:
    """Arguments that are no JSON object, such as a block of code, without what stands behind it."""
    end = text.rfind(_FENCE)
    return text[: end + len(_FENCE)] if text.startswith(_FENCE) and end > 0 else text.strip()
