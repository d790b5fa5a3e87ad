"""Emits the deltas of one call while it is parsed."""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from app.chat.events import ToolCallDelta

if TYPE_CHECKING:
    from app.steps.tool_parsers.parser import ParseState


class NotACall(Exception):
    """The text after a marker is not a call."""


class TruncatedCall(NotACall):
    """The text ended inside a call."""


class CallEmitter:
    """Emits the name of a call first, then its arguments, of which nothing is taken back."""

    def __init__(self, state: "ParseState", name: str, id_: str) -> None:
        self._state = state
        self._fragments: list[str] = []
        self._doubtful: list[str] = []
        self._index = -1
        self._blank = True
        self.name = name
        self.id = id_
        self.withheld = ""
        """Calls of functions with this text in their name are emitted only when they are complete."""
        self.allowed_names: Container[str] | None = None
        """The names that make it a call, if there was no marker; None allows every name."""

    @property
    def certain(self) -> bool:
        """Whether the call has a name and arguments, so that it remains a call whatever follows."""
        return bool(self.name) and not self._blank and not (self.withheld and self.withheld in self.name)

    def put(self, arguments: str) -> None:
        if arguments:
            (self._fragments if self._state.doubtful_closer is None else self._doubtful).append(arguments)
            self._blank = self._blank and arguments.isspace()

    def replace_arguments(self, edit: Callable[[str], str]) -> None:
        """Replace the arguments of a withheld call."""
        self._fragments[:] = [edit("".join(self._fragments + self._doubtful))]
        self._doubtful.clear()

    def forget_doubtful(self) -> None:
        self._doubtful.clear()

    def flush(self) -> None:
        """Emit the arguments so far, if the call is certain."""
        if self.certain and self._fragments:
            text = "".join(self._fragments)
            self._fragments.clear()
            if self._index < 0:
                self._index, id_ = self._state.next_call(self.id)
                self._state.out.append(ToolCallDelta(self._index, text, id_, self.name))
            else:
                self._state.out.append(ToolCallDelta(self._index, text))

    def finish(self) -> None:
        """Complete the call. Blank arguments become `{}`.

        Raises:
            NotACall: the call has no name.
        """
        if not self.name:
            raise NotACall
        self._fragments += self._doubtful
        self._doubtful.clear()
        if self._blank:
            self._fragments[:] = ["{}"]
            self._blank = False
        self.withheld = ""
        self._state.complete_call(self)
