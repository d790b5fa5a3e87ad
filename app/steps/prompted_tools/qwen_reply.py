"""Parses calls from the reply to a `qwen` prompt.

A call is `✿FUNCTION✿: name`, then `✿ARGS✿: …` up to the next command. The parser skips text between the parts of a
call, everything after a result or RETURN that the model wrote itself, and, without parallel calls, everything after the
first call.
"""

from collections.abc import Generator, Sequence

from app.chat.messages import Tool
from app.steps.prompted_tools.qwen import ARGS, FUNCTION, RESULT, RETURN
from app.steps.tool_parsers.calls import NotACall, OpenCall, TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.json_calls import read_arguments
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.stage import CallStage

_COMMANDS = (FUNCTION, ARGS, RESULT, RETURN)
_LONGEST_NAME = 200
_FENCE = "```"


class QwenStage(CallStage):
    """`forced` is the name of the function whose call the prompt has started."""

    def __init__(self, reply_id: str, tools: Sequence[Tool], *, parallel: bool = False, forced: str = "") -> None:
        super().__init__(reply_id, tools, lambda state: _CommandParser(state, forced).run(parallel=parallel))


class _CommandParser:
    def __init__(self, state: ParseState, forced: str) -> None:
        self._state = state
        self._name = forced
        """The function of the call whose arguments come next."""

    def run(self, *, parallel: bool) -> Steps:
        state = self._state
        yield from self._skip_colon()
        while True:
            command = yield from state.read_prose(*_COMMANDS, blanks=True)
            known = state.calls
            if command in (FUNCTION, ARGS):
                yield from state.attempt(self._call(command))
            if command in (RESULT, RETURN) or (state.calls > known and not parallel):
                yield from state.skip_rest()

    def _skip_colon(self) -> Steps:
        """Skip the colon with which the model continues after `✿RETURN✿`."""
        while not self._state.text:
            yield
        if not (yield from self._state.accept(": ")):
            yield from self._state.accept(":")

    def _call(self, command: str) -> Steps:
        state = self._state
        if command == FUNCTION:
            self._name, command = yield from self._head()
        if not self._name:
            raise NotACall
        call = state.open_call(self._name)
        if command == ARGS:
            yield from self._arguments(call)
        state.complete_call(call)
        _, command = yield from state.read_until(*_COMMANDS)
        state.pos -= len(command)
        state.commit()

    def _head(self) -> Generator[None, None, tuple[str, str]]:
        """Return the name and the ARGS command after it, if any. Only a known function may lack arguments."""
        state = self._state
        try:
            head, command = yield from state.read_head("\n", *_COMMANDS, limit=_LONGEST_NAME)
        except TruncatedCall:
            head, command = state.text[state.pos :], ""
        name = head.strip().removeprefix(":").strip()
        if command == "\n":
            command = yield from state.accept_tag(ARGS)
        elif command != ARGS:
            state.pos = len(state.text) if not command else state.pos - len(command)
        if not name or (command != ARGS and name not in state.tools):
            raise NotACall
        return name, command

    def _arguments(self, call: OpenCall) -> Steps:
        state = self._state
        yield from state.accept_tag(":")
        try:
            yield from state.skip_blanks()
        except TruncatedCall:
            return
        if state.text[state.pos] == "{":
            yield from read_arguments(state, call, _COMMANDS)
            return
        text, command = yield from state.read_until(*_COMMANDS)
        state.pos -= len(command)
        call.put(_trim_arguments(text))


def _trim_arguments(text: str) -> str:
    """Trim arguments that are not a JSON object; drop text after the closing fence of a code block."""
    end = text.rfind(_FENCE)
    return text[: end + len(_FENCE)] if text.startswith(_FENCE) and end > 0 else text.strip()
