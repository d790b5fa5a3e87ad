"""Endpoints for a reply that was requested before: resume its stream, read it whole, or cancel it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from app.api.asgi import Receive, Scope, send_json, send_no_content
from app.api.context import AppContext
from app.api.reply_response import EventStreamResponse, JsonResponse
from app.api.response_writer import Send, make_send_queue
from app.api.resumable import ResumableReply
from app.calls.call import is_lost
from app.calls.read_reply import read_reply
from app.chat.events import Event, Failed, Fault
from app.chat.stage import feed_to_end
from app.errors import InvalidInput, NotFound, ParleyError, StoreDown, Violation
from app.formats.encoders import encode_each


class ResumeEndpoint:
    """`GET /v1/chat/{response_id}/events?after=<seq>`, or with the header `Last-Event-ID`."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        after = _parse_last_event_id(scope)
        context = self._context
        with context.admission.try_enter() or await context.wait_for_place(scope, receive):
            resumable = await context.replies.find(_id(scope), context.owner(scope))
            if resumable is None or not resumable.source.complete:
                raise _not_found(scope)
            if not after or not await _has_ended(context, resumable):
                await self._stream_rest(resumable, after, scope, receive, send)
                return
            async with _keep_open(resumable):
                frames, last = await _count_frames(resumable)
                is_remote = context.replies.resumable.find(_id(scope)) is None
                if after < frames:
                    await self._stream_rest(resumable, after, scope, receive, send)
                elif isinstance(last, Failed) and (after > frames or (is_remote and is_lost(last))):
                    raise _make_lost_error(_id(scope))
                else:
                    await send_no_content(send)

    async def _stream_rest(
        self, resumable: ResumableReply, after: int, scope: Scope, receive: Receive, send: Send
    ) -> None:
        replies, reply_format = self._context.replies, resumable.format
        writer = make_send_queue(scope, send)
        response = EventStreamResponse(writer, resumable.info, reply_format, resumable.mode, replies.limits, after)
        response.start_stream()  # the client reads a stream: a failure is its last frame, never an HTTP status
        await replies.run(response, resumable.source.open(), receive)


class ReplyEndpoint:
    """`GET /v1/chat/{response_id}`, the whole reply, and `DELETE`, which stops it."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "DELETE":
            await send_json(send, 200, await self._cancel(_id(scope), scope))
        else:
            await self._send_reply(scope, receive, send)

    async def _send_reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply in the format of its request, as for a request without `stream`. While the reply is not
        complete, the answer is 202."""
        id_, context = _id(scope), self._context
        owner = context.owner(scope)
        with context.admission.try_enter() or await context.wait_for_place(scope, receive):
            if await _is_running(context, id_, owner):
                body = {"response_id": id_, "status": "in_progress"}
                await send_json(send, 202, body, {"retry-after": "1"})
                return
            resumable = await context.replies.find(id_, owner)
            if resumable is None or not resumable.source.complete:
                raise _not_found(scope)
            writer, limits = make_send_queue(scope, send), context.replies.limits
            response = JsonResponse(writer, resumable.info, resumable.format, "whole", limits)
            await context.replies.run(response, resumable.source.open(), receive)

    async def _cancel(self, id_: str, scope: Scope) -> dict[str, Any]:
        """Cancel the reply. Its upstream call goes on while other replies read it."""
        context = self._context
        resumable = context.replies.resumable.find(id_)
        record = None if resumable is not None else await context.replies.find_remote(id_)
        owners = [response.owner for response in context.replies.list_running(id_)]
        owners += [resumable.owner] if resumable is not None else []
        owners += [record.scope] if record is not None else []
        if not owners or any(owner != context.owner(scope) for owner in owners):
            raise _not_found(scope)
        live = (
            not resumable.source.ended
            if resumable is not None
            else record is None or await context.cache.is_running(record.location)
        )
        context.replies.cancel(id_)
        if not await context.cache.publish_cancel(id_) and resumable is None:
            raise StoreDown("the gateway that serves this reply cannot be reached through Redis; try again later")
        return {"response_id": id_, "cancelled": live}


async def _is_running(context: AppContext, id_: str, owner: str) -> bool:
    """Whether a reply to this caller, which can be read when it has ended, is in progress here or at the gateway that
    serves it. A reply of another gateway is not followed for that."""
    reply = context.replies.resumable.find(id_)
    if reply is not None:
        return reply.owner == owner and reply.source.complete and not reply.source.ended
    record = await context.replies.find_remote(id_)
    return record is not None and record.scope == owner and await context.cache.is_running(record.location)


async def _has_ended(context: AppContext, resumable: ResumableReply) -> bool:
    """Whether the reply has ended, here or at the gateway that serves it."""
    id_ = resumable.info.response_id
    if resumable.source.ended or context.replies.resumable.find(id_) is not None:
        return resumable.source.ended
    record = await context.replies.find_remote(id_)
    return record is None or not await context.cache.is_running(record.location)


@asynccontextmanager
async def _keep_open(resumable: ResumableReply) -> AsyncIterator[None]:
    """Keep a reader on the reply while its frames are counted and sent: a call of another gateway is followed only
    while it has a reader here."""
    listening = None if resumable.source.ended else await resumable.source.open()
    try:
        yield
    finally:
        if listening is not None:
            listening.close()


async def _count_frames(resumable: ResumableReply) -> tuple[int, Event]:
    """Return the number of frames in the whole stream of a reply that has ended, and its last event."""
    format_ = resumable.format
    encoder = format_.reply_encoder(resumable.info, resumable.mode)
    frames = encoder.open()
    try:
        batches = await read_reply(await resumable.source.open())
    except ParleyError as error:  # it failed before its first event
        last: Event = Failed(Fault(error.code, error.message, transient=error.retryable))
        return (frames + encoder.fail(error.to_dict(resumable.info.request_id))).count(format_.frame_end), last
    last = batches[-1][-1]
    if format_.reply_stage is not None:
        batches = feed_to_end(format_.reply_stage(resumable.mode), batches)
    return (frames + encode_each(encoder, [events for events in batches if events])).count(format_.frame_end), last


def _id(scope: Scope) -> str:
    id_: str = scope["path_params"]["response_id"]
    return id_


def _make_lost_error(response_id: str) -> NotFound:
    text = f"this gateway cannot continue the reply {response_id!r} exactly where its client stopped"
    return NotFound(f"{text}: read all of it from its start, or send the request again")


def _not_found(scope: Scope) -> NotFound:
    return NotFound(f"there is no reply {_id(scope)!r}, or it ended too long ago: send the request again")


def _parse_last_event_id(scope: Scope) -> int:
    """How many frames the client has read. Raises InvalidInput.

    A browser that reconnects uses the same URL each time: then the number in the header is the larger one.
    """
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    values = [("after", value) for value in query.get("after", ())]
    values += [
        ("Last-Event-ID", value.decode("latin-1")) for name, value in scope["headers"] if name == b"last-event-id"
    ]
    invalid = [name for name, value in values if not re.fullmatch(r"[0-9]{1,15}", value)]
    if invalid:
        raise InvalidInput([Violation(name, "must be the number of the last frame that was read") for name in invalid])
    return max((int(value) for _, value in values), default=0)
