"""The end of a reply, which reaches its client only after the response is stored: the next request then finds it."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from app.api.reply_encoders import unwrap
from app.api.reply_response import ReplyResponse
from app.chat.events import Failed, Finish
from app.errors import Cancelled, ParleyError
from app.formats.responses.response import describe_unstored
from app.formats.responses.stream import ResponseEventEncoder

log = logging.getLogger("parley.responses")

Store: TypeAlias = Callable[[dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]
"""Stores a Response, or waits until it is stored. Returns the Response that the client gets."""


def find_response_encoder(response: ReplyResponse) -> ResponseEventEncoder | None:
    """Return the encoder that makes the Response; None if the response is in another format."""
    encoder = unwrap(response.encoder)
    return encoder if isinstance(encoder, ResponseEventEncoder) else None


class KeptEnd:
    """Observes one response, and holds its end, be it whole or failed, until it is stored. An error that is an HTTP
    status is not held: it has no Response that could be stored."""

    def __init__(self, response: ReplyResponse, store: Store | None) -> None:
        """`store` is None if the response is not stored."""
        self._response = response
        self._store = store
        self._storing: asyncio.Task[None] | None = None
        self._is_stored = False

    def on_end(self, end: Finish | Failed) -> bool:
        encoder = find_response_encoder(self._response)
        if self._storing is not None or encoder is None or (type(end) is Failed and not self._response.status):
            return False
        encoder.completed_at = int(time.time())
        if self._store is None:
            return False
        self._hold(encoder.write_ahead(end), self._store, encoder, lambda: self._response.send_end(end))
        return True

    def on_failure(self, error: ParleyError) -> bool:
        """Return whether an end is held: that of this failure, or another one that came before it."""
        encoder = find_response_encoder(self._response)
        if self._is_stored or self._store is None or encoder is None:
            return False
        if self._storing is None:
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
        if (
            self._storing is not None
            or self._store is None
            or encoder is None
            or not (response.disconnected and response.status)
        ):
            return
        error = Cancelled("the client disconnected before the end of the response")
        made = encoder.fail_ahead(error.to_dict(response.info.request_id))
        self._hold(made, self._store, encoder, lambda: None)
