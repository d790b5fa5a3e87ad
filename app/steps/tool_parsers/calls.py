"""One call while it is parsed."""

import json
from collections.abc import Callable


class NotACall(Exception):
    """The text after a marker is not a call."""


class TruncatedCall(NotACall):
    """The text ended inside a call."""


class OpenCall:
    """The name of a call, and those of its arguments that are not emitted yet. What is emitted is never taken back."""

    def __init__(self, name: str, id_: str) -> None:
        self._fragments: list[str] = []
        self._doubtful: list[str] = []
        self._blank = True
        self._withheld = False
        self.name = name
        self.id = id_
        self.index = -1
        """Its position in the reply, once it is emitted."""
        self.in_doubt = False
        """The call may have ended before the text that comes now: arguments are not emitted until it is certain."""
        self.withheld_name = ""
        """Calls of functions with this text in their name are emitted only when they are complete."""
        self.guessed = False
        """There was no marker: it is only a call if its function is offered and it has no unknown members."""
        self.is_block = False
        """Its object says that it is a block of Anthropic's, whose arguments are its `input`."""
        self.is_held = False
        """It is emitted only when it is complete."""
        self.others: dict[str, str] = {}
        """Members of its object that are no known ones, as JSON."""

    def set_name(self, name: str) -> None:
        self.name = name
        self._withheld = bool(self.withheld_name) and self.withheld_name in name

    @property
    def certain(self) -> bool:
        """Whether the call has a name and arguments, so that it remains a call whatever follows."""
        return bool(self.name) and not self._blank and not self._withheld and not self.is_held

    @property
    def has_arguments(self) -> bool:
        return not self._blank

    def is_object(self) -> bool:
        """Whether the arguments of a held call are an object, or missing."""
        try:
            return self._blank or isinstance(json.loads("".join(self._fragments + self._doubtful)), dict)
        except (ValueError, RecursionError):
            return False

    def put(self, arguments: str) -> None:
        if arguments:
            (self._doubtful if self.in_doubt else self._fragments).append(arguments)
            self._blank = self._blank and arguments.isspace()

    def replace_arguments(self, edit: Callable[[str], str]) -> None:
        """Replace the arguments of a withheld call."""
        self._fragments[:] = [edit("".join(self._fragments + self._doubtful))]
        self._doubtful.clear()

    def forget_doubtful(self) -> None:
        self._doubtful.clear()
        self.in_doubt = False

    def take_arguments(self) -> str:
        """Return the arguments of a certain call that can be emitted and came since the last time."""
        text = "".join(self._fragments)
        self._fragments.clear()
        return text

    def complete(self) -> None:
        """Make all arguments certain. Blank arguments become `{}`.

        Raises:
            NotACall: the call has no name.
        """
        if not self.name:
            raise NotACall
        self._fragments += self._doubtful
        self.forget_doubtful()
        if self._blank:
            self._fragments[:] = ["{}"]
        self._blank = self._withheld = self.is_held = False
