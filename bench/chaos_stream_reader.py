"""What the readers of streams that the chaos run does not resume have in common."""

from abc import ABC, abstractmethod
from typing import Any

from chaos_replies import Received, WrongReplyError

Json = dict[str, Any]


class StreamReader(ABC):
    """Takes the frames of a stream up to its end."""

    frame_end = b"\n\n"
    failed_within_call = False
    response_id = ""

    def __init__(self) -> None:
        self.received = Received()
        self.frames = 0

    def feed(self, frame: bytes) -> None:
        """Raises: WrongReplyError."""
        data = None if frame.startswith(b":") else self._read(frame)
        if data is None:
            return
        if self.received.ended:
            raise WrongReplyError(f"{frame[:60]!r} after the end of the stream")
        self.frames += 1
        self._take(data)

    @abstractmethod
    def _read(self, frame: bytes) -> Json | None:
        """Return the data of a frame; None if it is none of the reply. Raises: WrongReplyError."""

    @abstractmethod
    def _take(self, data: Json) -> None:
        """Take the data of a frame. Raises: WrongReplyError."""

    def _fail(self, code: str) -> None:
        self.received.ended, self.received.error = "failed", code
