"""The end of a reply, which reaches its client only after the response is stored: the next request then finds it."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from typing_extensions import override

from app.api.reply_response import JoinedReplyEncoder, ReplyResponse, SkipFrames
from app.chat.events import Event, Failed, Finish, is_end
from app.chat.stream import ForwardedReply, Receiver, Reply
from app.errors import Cancelled, ParleyError
from app.formats.responses.stream import ResponseEventEncoder, describe_unstored

log = logging.getLogger("parley.responses")

Store: TypeAlias = Callable[[dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]
"""Stores a Response, or waits until it is stored. Returns the Response that the client gets."""


def find_response_encoder(response: ReplyResponse) -> ResponseEventEncoder | None:
    """Return the encoder that makes the Response; None if the response is in another format."""
    encoder = response.encoder
    while isinstance(encoder, JoinedReplyEncoder | SkipFrames):
        encoder = encoder.encoder
    return encoder if isinstance(encoder, ResponseEventEncoder) else None


class KeptEnd:
    """Holds back the end of one response, be it whole or failed, until it is stored. An error that is an HTTP status is
    not held back: it has no Response that could be stored."""

    def __init__(self, response: ReplyResponse, store: Store | None) -> None:
        """`store` is None if the response is not stored."""
        self._response = response
        self._store = store
        self._storing: asyncio.Task[None] | None = None
        self._is_stored = False
        if store is not None:
            response.hold_failure = self._hold_failure

    @property
    def is_held(self) -> bool:
        """Whether the end has come."""
        return self._storing is not None

    def read(self, reply: Reply) -> Reply:
        return _KeptReply(reply, self)

    def on_end(self, events: list[Event], receiver: Receiver) -> None:
        """Pass on the last events of the reply, the end once it is stored."""
        encoder = find_response_encoder(self._response)
        if self.is_held:  # by a failure
            return
        if self._response.finished or encoder is None:
            receiver.on_events(events)
            return
        if len(events) > 1:
            receiver.on_events(events[:-1])
        last = events[-1]
        if type(last) is Failed and not self._response.status:
            receiver.on_events([last])
            return
        try:
            assert isinstance(last, Finish | Failed)
            encoder.completed_at = int(time.time())
            if self._store is None:
                receiver.on_events([last])
                return
            made = encoder.write_ahead(last)
        except Exception as error:
            receiver.on_crash(error)
            return
        self._hold(made, self._store, encoder, lambda: receiver.on_events([last]))

    def _hold_failure(self, error: ParleyError) -> bool:
        """Called by the response. Returns whether the end is sent later: the failure once it is stored, or the end that
        came before it."""
        encoder = find_response_encoder(self._response)
        if self._is_stored or self._store is None or encoder is None:
            return False
        if not self.is_held:
            made = encoder.fail_ahead(error.to_dict(self._response.info.request_id))
            self._hold(made, self._store, encoder, lambda: self._response.fail(error))
        return True

    def _hold(
        self, made: dict[str, Any], store: Store, encoder: ResponseEventEncoder, send: Callable[[], None]
    ) -> None:
        async def store_and_send() -> None:
            try:
                stored = await store(made)
            except Exception:
                log.exception("defect while storing a response")
                stored = describe_unstored(made, "the gateway failed while storing it")
            if stored is not made:
                encoder.replace_end(stored)
            self._is_stored = True
            send()

        self._storing = asyncio.get_running_loop().create_task(store_and_send())

    def on_close(self) -> None:
        """Store that the response is cancelled, if its client has left a stream before the end."""
        response, encoder = self._response, find_response_encoder(self._response)
        if self.is_held or self._store is None or encoder is None or not (response.disconnected and response.status):
            return
        error = Cancelled("the client disconnected before the end of the response")
        made = encoder.fail_ahead(error.to_dict(response.info.request_id))
        self._hold(made, self._store, encoder, lambda: None)


class _KeptReply(ForwardedReply):
    def __init__(self, reply: Reply, end: KeptEnd) -> None:
        super().__init__(reply)
        self._end = end

    @override
    def on_events(self, events: list[Event]) -> None:
        assert self._receiver is not None
        if is_end(events):
            self._end.on_end(events, self._receiver)
        elif not self._end.is_held:
            self._receiver.on_events(events)

    @override
    def close(self) -> None:
        super().close()
        self._end.on_close()

    @override
    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        assert self._receiver is not None
        if self._end.is_held:
            return
        if not is_end(batches[-1]):
            self._receiver.on_batches(batches)
            return
        if len(batches) > 1:
            self._receiver.on_batches(batches[:-1])
        self._end.on_end(batches[-1], self._receiver)
