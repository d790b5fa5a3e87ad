"""The interface of a reply's reader: bytes in any framing become items, and items become events."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from app.chat.events import Event, Fault


class ItemReader(Protocol):
    """Splits the bytes of a reply into the items that its assembler takes."""

    @property
    def junk(self) -> bytes:
        """The first line that is not part of a reply."""

    @property
    def saw_line(self) -> bool:
        """Whether anything has come, even a comment: the server is alive."""

    def feed(self, data: bytes) -> list[Any]: ...

    def close(self, clean: bool) -> list[Any]: ...


class ReplyAssembler(Protocol):
    """Takes the items of each read and returns events, the last of them exactly one `Finish` or `Failed`."""

    @property
    def started(self) -> bool:
        """Whether any part of a reply came, even an empty one."""

    @property
    def ended(self) -> bool:
        """Whether the last event was returned."""

    @property
    def finishing(self) -> bool:
        """Whether a finish reason came, after which only usage can follow."""

    def check_progress(self) -> bool:
        """Whether a part that is held back grew since the last call of this method."""

    def feed(self, items: Sequence[Any]) -> list[Event]: ...

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        """End the reply with its body. `fault` says what broke the body, None for a clean end. `junk` is the first line
        that is not part of a reply."""

    def read_usage(self) -> dict[str, Any] | None:
        """Return the usage that the server has reported so far, with OpenAI's names."""


class ReplyReader(NamedTuple):
    """The two parts of a reader."""

    events: ItemReader
    assembler: ReplyAssembler
