"""Endpoints for a stored response: read it, stream it again, delete it, cancel it, list its input."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from app.api.asgi import Receive, Scope, send_json
from app.api.context import AppContext
from app.api.reply_response import STREAM_HEADERS, EventStreamResponse, ReplyResponse
from app.api.response_writer import Send, make_send_queue
from app.api.resumable import ResumableReply, info_from_record
from app.api.router import AsgiRoute
from app.cache import ReplaySource
from app.chat.stream import Reply
from app.errors import BadRequest, InvalidInput, NotFound, StoreDown, TooLarge, Violation
from app.formats.base import Options, ReplyInfo, ResponsesOptions
from app.formats.responses import RESPONSES
from app.formats.responses.response import describe_unstored, make_response
from app.formats.responses.stored_stream import write_stored_stream
from app.responses_api.background import BackgroundRun, BackgroundRuns
from app.responses_api.pages import parse_query, select_page
from app.responses_api.record import RUNNING, RecordTooLarge, ResponseRecord, StoredResponses, complete_item
from app.responses_api.reply import KeptEnd

READ_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.3)
"""The pauses before a record is read again, in seconds, whose end another gateway stores soon."""
AWAIT_SECONDS = 0.25
"""How often it is looked whether another gateway's reply has begun."""
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


def list_routes(context: AppContext, stored: StoredResponses, background: BackgroundRuns) -> list[AsgiRoute]:
    """Return the routes of the paths with a `response_id`."""
    handlers = _Handlers(context, stored, background)
    paths: dict[str, dict[str, Handler]] = {
        "": {"GET": handlers.get, "DELETE": handlers.delete},
        "/cancel": {"POST": handlers.cancel},
        "/input_items": {"GET": handlers.list_input_items},
    }
    return [
        AsgiRoute(f"/v1/responses/{{response_id}}{path}", MethodEndpoint(context, methods), *methods)
        for path, methods in paths.items()
    ]


class MethodEndpoint:
    """Calls the handler of the request's method, once the request may run."""

    def __init__(self, context: AppContext, handlers: dict[str, Handler]) -> None:
        self._context = context
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._context
        with context.admission.try_enter() or await context.wait_for_place(scope, receive):
            try:
                await self._handlers[scope["method"]](scope, receive, send)
            except RecordTooLarge as error:
                raise TooLarge(str(error)) from error


class _Handlers:
    def __init__(self, context: AppContext, stored: StoredResponses, background: BackgroundRuns) -> None:
        self._context = context
        self._stored = stored
        self._background = background

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, or with `?stream=true` its events, from the one after `starting_after` on."""
        query = parse_query(scope)
        if query.get("stream") in ("true", "True", "1"):
            await self._stream(query.get("starting_after"), scope, receive, send)
        else:
            await send_json(send, 200, await self._describe(scope))

    async def _describe(self, scope: Scope) -> dict[str, Any]:
        """Return the Response as it is stored, or as it is now. Raises NotFound, and StoreDown."""
        caller, id_ = self._context.caller_id(scope), _id(scope)
        try:
            record = await self._stored.get(caller, id_)
        except StoreDown:
            run = self._background.find(id_, caller)
            if run is not None:
                return run.describe()
            running = self._find_running(scope)
            if running is None:
                raise
            return running
        if record is not None:
            return record.response
        info = await self._find_running_elsewhere(scope)
        running = self._find_running(scope) if info is None else make_response(info, "in_progress")
        if running is None:
            raise _not_found(scope)
        return running

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = await self._read(scope)
        if record.status in RUNNING:
            raise BadRequest(f"the response {_id(scope)!r} is {record.status}: cancel it first, then delete it")
        await self._stored.delete(self._context.caller_id(scope), _id(scope))
        await send_json(send, 200, {"id": _id(scope), "object": "response", "deleted": True})

    async def cancel(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stop a response that is in progress; one that has ended is sent as it is."""
        context, id_, caller = self._context, _id(scope), self._context.caller_id(scope)
        run = self._background.find(id_, caller)
        if run is not None:
            context.replies.cancel(id_)
            await context.cache.publish_cancel(id_)
            await run.ended.wait()
            await send_json(send, 200, run.describe())
            return
        running = self._find_running(scope)
        if running is not None:
            context.replies.cancel(id_)
            await context.cache.publish_cancel(id_)
            await send_json(send, 200, await self._read_cancelled(caller, running | {"status": "cancelled"}))
            return
        record = await self._stored.get(caller, id_)
        if record is not None and record.status not in RUNNING:
            await send_json(send, 200, record.response)
            return
        info = None if record is not None else await self._find_running_elsewhere(scope)
        if record is None and info is None:
            raise _not_found(scope)
        if not await context.cache.publish_cancel(id_):
            raise StoreDown("the gateway that serves this response cannot be reached through Redis; try again later")
        if record is not None:
            response = await self._cancel_elsewhere(caller, record)
        else:
            assert info is not None
            response = await self._read_cancelled(caller, make_response(info, "cancelled"))
        await send_json(send, 200, response)

    async def _read_cancelled(self, caller: str, cancelled: dict[str, Any]) -> dict[str, Any]:
        """Return the Response of a foreground reply that was cancelled, as it is stored if it is."""
        if not cancelled["store"]:
            return cancelled
        try:
            found = await self._read_end(caller, cancelled["id"])
        except StoreDown:
            return describe_unstored(cancelled, "the store of responses failed")
        return cancelled if found is None else found.response

    async def _cancel_elsewhere(self, caller: str, record: ResponseRecord) -> dict[str, Any]:
        """Return the Response whose end another gateway stores when it gets the notice. If it stores none, store here
        that the response is cancelled."""
        found = await self._read_end(caller, record.response["id"])
        if found is not None and found.status not in RUNNING:
            return found.response
        cancelled = record.response | {"status": "cancelled"}
        if found is not None:
            await self._stored.put(caller, ResponseRecord(cancelled, found.items, found.input_length))
        return cancelled

    async def _read_end(self, caller: str, response_id: str) -> ResponseRecord | None:
        """Read a record until it is that of a response that has ended, for about a second."""
        record = None
        for pause in READ_PAUSES:
            await asyncio.sleep(pause)
            record = await self._stored.get(caller, response_id)
            if record is not None and record.status not in RUNNING:
                break
        return record

    async def list_input_items(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = await self._read(scope)
        items = list(map(complete_item, record.items[: record.input_length]))
        await send_json(send, 200, select_page(items, parse_query(scope)))

    async def _read(self, scope: Scope) -> ResponseRecord:
        record = await self._stored.get(self._context.caller_id(scope), _id(scope))
        if record is None:
            raise _not_found(scope)
        return record

    def _find_running(self, scope: Scope) -> dict[str, Any] | None:
        """Return the Response of a reply that this gateway is sending, which is not stored before its end."""
        caller = self._context.caller_id(scope)
        for response in self._context.replies.list_running(_id(scope)):
            if response.owner == caller:
                return make_response(response.info, "in_progress")
        return None

    async def _find_running_elsewhere(self, scope: Scope) -> ReplyInfo | None:
        """Return what is known about a reply that another gateway is sending. Raises StoreDown."""
        context, id_ = self._context, _id(scope)
        record = await context.replies.find_remote(id_)
        if record is None or record.scope != context.caller_id(scope):
            return None
        return info_from_record(record, id_) if await context.cache.is_running(record.location) else None

    # Streams.

    async def _stream(self, starting_after: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events of a response: those of the reply if they are kept, else what the stored response has. If the
        reply has not begun yet, wait for it."""
        if starting_after is not None and not re.fullmatch(r"[0-9]{1,15}", starting_after):
            raise InvalidInput([Violation("starting_after", "must be the sequence_number of an event")])
        after = None if starting_after is None else int(starting_after)
        stream = _Stream(self._context.caller_id(scope), _id(scope), after, scope, receive, send)
        run = self._background.find(stream.id, stream.caller)
        if run is not None:
            await self._follow(run, stream)
            return
        reply = await self._find_reply(stream)
        if reply is not None:
            await self._stream_reply(reply, stream)
            return
        record = await self._stored.get(stream.caller, stream.id)
        if record is None:
            raise _not_found(scope)
        if record.status in RUNNING:
            response = self._create_response(stream, _info_from_stored(record.response, scope))
            response.await_reply()
            await self._context.replies.run(response, self._await_reply(stream, response), receive)
            return
        headers = (*STREAM_HEADERS, (b"x-parley-response-id", stream.id.encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": _write_stored(record, after)})

    async def _find_reply(self, stream: "_Stream") -> ResumableReply | None:
        reply = await self._context.replies.find(stream.id, stream.caller)
        return None if reply is None or not reply.source.complete else reply

    async def _stream_reply(self, reply: ResumableReply, stream: "_Stream") -> None:
        response = self._create_response(stream, reply.info)
        response.start_stream()  # the client reads a stream: a failure is its last frame, never an HTTP status
        await self._context.replies.run(response, self._open_kept(reply.source, response, stream), stream.receive)

    async def _open_kept(self, source: ReplaySource, response: ReplyResponse, stream: "_Stream") -> Reply:
        """Open a reply to send it again. Its last event has the Response that is stored."""
        response.observe_end(KeptEnd(response, lambda made: self._wait_for_end(made, stream)))
        return await source.open()

    async def _wait_for_end(self, made: dict[str, Any], stream: "_Stream") -> dict[str, Any]:
        """Return the Response that is stored at the end, here or by the gateway that produces the reply; `made` if none
        is stored in time."""
        try:
            record = await self._read_end(stream.caller, stream.id)
        except StoreDown:
            return made
        return made if record is None or record.status in RUNNING else record.response

    async def _await_reply(self, stream: "_Stream", response: EventStreamResponse) -> Reply:
        """Open a reply that another gateway has not begun when its stream is asked for. Its head is sent already."""
        while True:
            await asyncio.sleep(AWAIT_SECONDS)
            reply = await self._find_reply(stream)
            if reply is not None:
                response.set_info(reply.info)
                response.start_stream()
                return await self._open_kept(reply.source, response, stream)
            record = await self._stored.get(stream.caller, stream.id)
            if record is None:
                raise _not_found(stream.scope)
            if record.status not in RUNNING:
                response.end_with(_write_stored(record, stream.after))
                await response.done  # which cancels this wait

    async def _follow(self, run: BackgroundRun, stream: "_Stream") -> None:
        """Send the events of a background response of this gateway that has not ended."""
        follower = self._create_response(stream, run.response.info)
        follower.start_stream()
        await self._context.replies.run(follower, run.follow(follower), stream.receive)

    def _create_response(self, stream: "_Stream", info: ReplyInfo) -> EventStreamResponse:
        writer = make_send_queue(stream.scope, stream.send)
        limits = self._context.replies.limits
        return EventStreamResponse(writer, info, RESPONSES, "delta", limits, stream.skip, keep_last=False)


class _Stream(NamedTuple):
    """A request for the events of a response."""

    caller: str
    id: str
    after: int | None
    """The sequence number of the last event that the client has read."""
    scope: Scope
    receive: Receive
    send: Send

    @property
    def skip(self) -> int:
        """How many events the client has read."""
        return 0 if self.after is None else self.after + 1


def _write_stored(record: ResponseRecord, after: int | None) -> bytes:
    return write_stored_stream(record.response, record.last_number, after)


_STATE = ("id", "object", "created_at", "status", "model", "output", "error", "incomplete_details", "usage")
"""The fields of a Response that the request does not set."""


def _info_from_stored(response: dict[str, Any], scope: Scope) -> ReplyInfo:
    """Return what is known about a reply from its stored Response."""
    fields = {name: value for name, value in response.items() if name not in (*_STATE, "completed_at", "parley")}
    return ReplyInfo(
        response["id"],
        scope["state"]["request_id"],
        response["model"],
        response["created_at"],
        options=Options(responses=ResponsesOptions(fields=fields)),
    )


def _id(scope: Scope) -> str:
    id_: str = scope["path_params"]["response_id"]
    return id_


def _not_found(scope: Scope) -> NotFound:
    text = "it expired, was deleted, was not stored, or belongs to another caller"
    return NotFound(f"there is no response {_id(scope)!r}: {text}")
