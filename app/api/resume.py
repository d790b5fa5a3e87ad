"""A reply that was asked for before: the rest of it for a caller who lost it, and its end before its time."""

import re
from typing import Any
from urllib.parse import parse_qs

from app.api.body import Receive, Scope
from app.api.chat import caller
from app.api.desk import Desk
from app.api.outgoing import Send
from app.api.problems import send_error, send_json
from app.api.shelf import Kept
from app.chat.events import Event
from app.errors import Cancelled, InvalidInput, MethodNotAllowed, NotFound, ParleyError, Violation
from app.formats.base import Encoder


class Rest:
    """An encoder without its first frames: what a caller has read before is not told again.

    Frames are counted from 1; in `format: qwen` that is their `seq`.
    """

    def __init__(self, encoder: Encoder, after: int) -> None:
        self._encoder = encoder
        self._after = after

    def open(self) -> bytes:
        return self._unread(self._encoder.open())

    def feed(self, events: list[Event]) -> bytes:
        return self._unread(self._encoder.feed(events))

    def fail(self, error: dict[str, Any]) -> bytes:
        return self._unread(self._encoder.fail(error))

    def _unread(self, data: bytes) -> bytes:
        start = 0
        while self._after and start < len(data):
            start = data.index(b"\n\n", start) + 2
            self._after -= 1
        return data[start:] if start else data


class ResumeEndpoint:
    """`GET /v1/chat/{response_id}/events?after=<seq>`, or with the header `Last-Event-ID`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != "GET":
                raise MethodNotAllowed(f"{scope['path']} takes GET", "GET")
            after = _after(scope)
            with self._desk.seat():
                kept = await self._desk.recalled(_id(scope), caller(scope))
                if kept is None or not kept.source.whole:
                    raise _unknown(scope)
                await self._tell(kept, after, scope, receive, send)
        except ParleyError as error:
            await send_error(send, error, scope["state"]["request_id"])

    async def _tell(self, kept: Kept, after: int, scope: Scope, receive: Receive, send: Send) -> None:
        encoder = Rest(kept.format.encoder(kept.info, kept.mode), after)
        delivery = self._desk.delivery(scope, send, encoder, kept.info, kept.format, stream=True)
        delivery.commit()  # who comes back had a stream: what failed is told as its last frame, never as a status
        await self._desk.deliver(delivery, kept.source.again(), receive)


class CancelEndpoint:
    """`DELETE /v1/chat/{response_id}`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != "DELETE":
                raise MethodNotAllowed(f"{scope['path']} takes DELETE", "DELETE")
            await send_json(send, 200, self._cancelled(scope))
        except ParleyError as error:
            await send_error(send, error, scope["state"]["request_id"])

    def _cancelled(self, scope: Scope) -> dict[str, Any]:
        id_ = _id(scope)
        kept = self._desk.find(id_, caller(scope))
        if kept is None and self._desk.shelf.find(id_) is not None:
            raise _unknown(scope)
        running = [one for one in self._desk.active if one.info.response_id == id_ and not one.finished]
        if kept is None and not running:
            raise _unknown(scope)
        ended = kept is not None and kept.source.ended
        if kept is not None:
            self._desk.shelf.drop(id_)
            kept.let_go()
        for delivery in running:
            delivery.fail(Cancelled("the reply was cancelled"))
        return {"response_id": id_, "cancelled": not ended}


def _id(scope: Scope) -> str:
    id_: str = scope["path_params"]["response_id"]
    return id_


def _unknown(scope: Scope) -> NotFound:
    return NotFound(f"there is no reply {_id(scope)!r}, or it ended too long ago")


def _after(scope: Scope) -> int:
    """How many frames the caller has. Raises InvalidInput."""
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    said = [("after", value) for value in query.get("after", ())]
    said += [("Last-Event-ID", value.decode("latin-1")) for name, value in scope["headers"] if name == b"last-event-id"]
    for name, value in said[:1]:
        if not re.fullmatch(r"[0-9]{1,15}", value):
            raise InvalidInput([Violation(name, "must be the number of the last frame that was read")])
        return int(value)
    return 0
