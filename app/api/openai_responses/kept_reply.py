"""A reply whose end reaches its client only after the response is stored: the next request then finds it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from typing_extensions import override

from app.api.openai_responses.stored import RecordTooLarge
from app.api.responses import JoinedReplyEncoder, ReplyResponse, SkipFrames
from app.chat.events import Event, Failed, Finish, is_end
from app.chat.stream import ForwardedReply, Receiver, Reply
from app.formats.responses.stream import ResponseEventEncoder

Save = Callable[[dict[str, Any]], Coroutine[Any, Any, object] | None]
"""Stores a Response. Returns None if that is done, else a coroutine that does it. Raises RecordTooLarge."""


def find_response_encoder(response: ReplyResponse) -> ResponseEventEncoder | None:
    """Return the encoder that makes the Response; None if the response is in another format."""
    encoder = response.encoder
    while isinstance(encoder, JoinedReplyEncoder | SkipFrames):
        encoder = encoder.encoder
    return encoder if isinstance(encoder, ResponseEventEncoder) else None


class KeptReply(ForwardedReply):
    def __init__(
        self,
        reply: Reply,
        response: ReplyResponse,
        save: Save,
        now: Callable[[], int | None],
    ) -> None:
        """`now` returns Unix seconds, None if the time of the end is not known."""
        super().__init__(reply)
        self._response = response
        self._save = save
        self._now = now
        self._saving: asyncio.Task[object] | None = None

    @override
    def on_events(self, events: list[Event]) -> None:
        assert self._receiver is not None
        if is_end(events):
            self._end(events, self._receiver)
        else:
            self._receiver.on_events(events)

    @override
    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        assert self._receiver is not None
        if not is_end(batches[-1]):
            self._receiver.on_batches(batches)
            return
        if len(batches) > 1:
            self._receiver.on_batches(batches[:-1])
        self._end(batches[-1], self._receiver)

    def _end(self, events: list[Event], receiver: Receiver) -> None:
        last = events[-1]
        encoder = find_response_encoder(self._response)
        if type(last) is Failed or self._response.finished or encoder is None:
            receiver.on_events(events)
            return
        assert type(last) is Finish
        if len(events) > 1:
            receiver.on_events(events[:-1])
        try:
            encoder.completed_at = self._now()
            saving = self._save(encoder.write_ahead(last))
        except RecordTooLarge as error:
            encoder.report_unstored(f"store: {error}, so store is false")
            saving = None
        except Exception as error:
            receiver.on_crash(error)
            return
        if saving is None:
            receiver.on_events([last])
            return
        self._saving = asyncio.get_running_loop().create_task(saving)
        self._saving.add_done_callback(lambda _: receiver.on_events([last]))
