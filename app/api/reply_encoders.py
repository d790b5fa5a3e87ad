"""Encoders around that of a format: of a reply that joined the call of another request, and of a resumed one."""

from typing import Any

from msgspec.structs import replace

from app.calls.call import is_lost
from app.chat.events import Event, Finish, is_end
from app.chat.token_usage import as_free
from app.formats.base import FRAME_END, HEARTBEAT, Encoder, Format
from app.formats.encoders import DeltaEncoder


class JoinedReplyEncoder:
    """An encoder of a reply that joined the call of another request. The cost of the call is counted there, and is 0
    here, so that the sum of all replies is what was spent."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def open(self) -> bytes:
        return self.encoder.open()

    def heartbeat(self) -> bytes:
        return self.encoder.heartbeat()

    def feed(self, events: list[Event]) -> bytes:
        last = events[-1] if events else None
        if type(last) is Finish and last.usage:
            events = [*events[:-1], replace(last, usage=as_free(last.usage))]
        return self.encoder.feed(events)

    def fail(self, error: dict[str, Any]) -> bytes:
        return self.encoder.fail(error)


class SkipFrames:
    """An encoder that skips the frames that the client has already read.

    Frames are counted from 1; in `format: qwen` that is their `seq`.
    """

    def __init__(
        self, encoder: Encoder, after: int, *, keep_last: bool = True, reply_format: Format | None = None
    ) -> None:
        """`keep_last`: the last frame is sent, because the client has not read it, unless it has read just as many
        frames as there are."""
        self.encoder = encoder
        self._after = after
        self._end = FRAME_END if reply_format is None else reply_format.frame_end
        self._heartbeat = HEARTBEAT if reply_format is None else reply_format.heartbeat
        self._keep_last = keep_last

    def open(self) -> bytes:
        return self._skip_read(self.encoder.open())

    def heartbeat(self) -> bytes:
        """The client has read further than this stream: a heartbeat here must not count as a frame."""
        return self._heartbeat if self._after else self.encoder.heartbeat()

    def feed(self, events: list[Event]) -> bytes:
        data = self.encoder.feed(events)
        if not is_end(events):
            return self._skip_read(data)
        # A client that has read as many frames as there are has read the end, which this gateway learns of later.
        has_all = type(events[-1]) is Finish and self._after == data.count(self._end)
        return self._skip_end(data, unread=(self._keep_last and not has_all) or is_lost(events[-1]))

    def fail(self, error: dict[str, Any]) -> bytes:
        return self._skip_end(self.encoder.fail(error), unread=self._keep_last)

    def _skip_end(self, data: bytes, *, unread: bool) -> bytes:
        if unread:
            self._after = min(self._after, data.count(self._end) - 1)
        return self._skip_read(data)

    def _skip_read(self, data: bytes) -> bytes:
        start = 0
        while self._after and start < len(data):
            start = data.index(self._end, start) + len(self._end)
            self._after -= 1
        return data[start:] if start else data


def unwrap(encoder: Encoder) -> Encoder:
    """Return the encoder of the format."""
    while isinstance(encoder, JoinedReplyEncoder | SkipFrames):
        encoder = encoder.encoder
    return encoder


def is_within_call(encoder: Encoder) -> bool:
    """Whether the reply so far has a call for the client whose arguments are not whole."""
    encoder = unwrap(encoder)
    return isinstance(encoder, DeltaEncoder) and encoder.is_within_call()
