"""Calls in the reply of a model that was asked with the `qwen` prompt.

A call is `✿FUNCTION✿: name`, then `✿ARGS✿: …` up to the next command. What is not the call's own is passed over, as
is everything behind a result or a RETURN that the model wrote itself, and behind the first call where only one was
asked for.
"""

from collections.abc import Generator, Sequence

from app.chat.messages import Tool
from app.steps.prompted_tools.qwen import ARGS, FUNCTION, RESULT, RETURN
from app.steps.tool_parsers.calls import CallEmitter, NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_calls import read_arguments
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.stage import CallStage

_COMMANDS = (FUNCTION, ARGS, RESULT, RETURN)
_LONGEST_NAME = 200
_FENCE = "```"


class QwenStage(CallStage):
    """`forced`: the function whose call the prompt has begun already."""

    def __init__(self, reply_id: str, tools: Sequence[Tool], *, parallel: bool = False, forced: str = "") -> None:
        super().__init__(reply_id, tools, lambda reading: _CommandParser(reading, forced).run(parallel=parallel))


class _CommandParser:
    def __init__(self, reading: ParseState, forced: str) -> None:
        self._state = reading
        self._name = forced
        """Whose arguments come next."""

    def run(self, *, parallel: bool) -> Steps:
        reading = self._state
        yield from self._skip_colon()
        while True:
            command = yield from reading.read_prose(*_COMMANDS, blanks=True)
            known = reading.calls
            if command in (FUNCTION, ARGS):
                yield from reading.attempt(self._call(command))
            if command in (RESULT, RETURN) or (reading.calls > known and not parallel):
                yield from reading.skip_rest()

    def _skip_colon(self) -> Steps:
        """The model goes on behind `✿RETURN✿` with a colon."""
        while not self._state.text:
            yield
        if not (yield from self._state.accept(": ")):
            yield from self._state.accept(":")

    def _call(self, command: str) -> Steps:
        reading = self._state
        if command == FUNCTION:
            self._name, command = yield from self._head()
        if not self._name:
            raise NotACall
        call = reading.open_call(self._name)
        if command == ARGS:
            yield from self._arguments(call)
        call.finish()
        try:
            _, command = yield from reading.read_until(*_COMMANDS)
        except TruncatedCall:
            reading.take_rest()
        else:
            reading.pos -= len(command)
            reading.commit()

    def _head(self) -> Generator[None, None, tuple[str, str]]:
        """The name, and the command behind it if that is ARGS. A function of the request needs no arguments."""
        reading = self._state
        try:
            head, command = yield from reading.read_until("\n", *_COMMANDS, limit=_LONGEST_NAME)
        except TruncatedCall:
            head, command = reading.text[reading.pos :], ""
        name = head.strip().removeprefix(":").strip()
        if command == "\n":
            command = yield from reading.accept_tag(ARGS)
        elif command != ARGS:
            reading.pos = len(reading.text) if not command else reading.pos - len(command)
        if not name or (command != ARGS and name not in reading.tools):
            raise NotACall
        return name, command

    def _arguments(self, call: CallEmitter) -> Steps:
        reading = self._state
        yield from reading.accept_tag(":")
        try:
            yield from reading.skip_blanks()
        except TruncatedCall:
            return
        if reading.text[reading.pos] == "{":
            yield from read_arguments(reading, call, _COMMANDS)
            return
        try:
            text, command = yield from reading.read_until(*_COMMANDS)
            reading.pos -= len(command)
        except TruncatedCall:
            text = reading.take_rest()
        call.put(_trim_arguments(text))


def _trim_arguments(text: str) -> str:
    """Arguments that are no JSON object, such as a block of code, without what stands behind it."""
    end = text.rfind(_FENCE)
    return text[: end + len(_FENCE)] if text.startswith(_FENCE) and end > 0 else text.strip()
