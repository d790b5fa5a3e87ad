"""One call as it is told."""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from app.chat.events import ToolCallDelta

if TYPE_CHECKING:
    from app.steps.tool_parsers.parser import ParseState


class NotACall(Exception):
    """What stands behind a marker is not a call."""


class TruncatedCall(NotACall):
    """The text ended before the call did."""


class CallEmitter:
    """With its name first, then with its arguments, which only grow."""

    def __init__(self, reading: "ParseState", name: str, id_: str) -> None:
        self._state = reading
        self._pieces: list[str] = []
        self._doubtful: list[str] = []
        self._index = -1
        self._blank = True
        self.name = name
        self.id = id_
        self.withheld = ""
        """Calls of functions with this in their name are told when they are whole."""
        self.allowed_names: Container[str] | None = None
        """The names that make it a call, where text without a marker may be one."""

    @property
    def certain(self) -> bool:
        """It has a name and arguments: from here on it is a call, whatever comes."""
        return bool(self.name) and not self._blank and not (self.withheld and self.withheld in self.name)

    def put(self, arguments: str) -> None:
        if arguments:
            (self._pieces if self._state.doubtful_closer is None else self._doubtful).append(arguments)
            self._blank = self._blank and arguments.isspace()

    def replace_arguments(self, edit: Callable[[str], str]) -> None:
        """Put other arguments in the place of those that were withheld."""
        self._pieces[:] = [edit("".join(self._pieces + self._doubtful))]
        self._doubtful.clear()

    def forget_doubtful(self) -> None:
        self._doubtful.clear()

    def flush(self) -> None:
        """Tell what is known; nothing before the call is certain."""
        if self.certain and self._pieces:
            text = "".join(self._pieces)
            self._pieces.clear()
            if self._index < 0:
                self._index, id_ = self._state.next_call(self.id)
                self._state.out.append(ToolCallDelta(self._index, text, id_, self.name))
            else:
                self._state.out.append(ToolCallDelta(self._index, text))

    def finish(self) -> None:
        """Blank arguments are `{}`. Raises Unreadable for a call without a name."""
        if not self.name:
            raise NotACall
        self._pieces += self._doubtful
        self._doubtful.clear()
        if self._blank:
            self._pieces[:] = ["{}"]
            self._blank = False
        self.withheld = ""
        self._state.complete_call(self)
