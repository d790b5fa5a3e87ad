"""What stands between a reply and its receiver: it keeps what comes while the receiver cannot take it."""

from collections import deque
from collections.abc import Sequence

from app.chat.events import Event, Failed, Finish
from app.chat.stream import Receiver


class ReplyBuffer:
    """Tells nothing behind the end."""

    def __init__(self) -> None:
        self.paused = False
        self.over = False
        """The last event has come, or nobody wants it."""
        self._receiver: Receiver | None = None
        self._ahead: deque[list[Event]] = deque()
        self._crash: Exception | None = None

    def __len__(self) -> int:
        """Batches that are kept."""
        return len(self._ahead)

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._hand_on()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._hand_on()

    def close(self) -> None:
        self.over, self._receiver = True, None
        self._ahead.clear()

    def push(self, batches: Sequence[list[Event]]) -> None:
        if self.over or not batches:
            return
        self.over = bool(batches[-1]) and isinstance(batches[-1][-1], Finish | Failed)
        if self._receiver is None or self.paused or self._ahead:
            self._ahead.extend(batches)
        elif len(batches) == 1:
            self._receiver.on_events(batches[0])
        else:
            self._receiver.on_batches(batches)

    def fail(self, error: Exception) -> None:
        if not self.over:
            self.over, self._crash = True, error
            self._hand_on()

    def _hand_on(self) -> None:
        while self._ahead and self._receiver is not None and not self.paused:
            batches = tuple(self._ahead)
            self._ahead.clear()
            self._receiver.on_batches(batches)
        if self._crash is not None and self._receiver is not None and not self._ahead:
            error, self._crash = self._crash, None
            self._receiver.on_crash(error)
