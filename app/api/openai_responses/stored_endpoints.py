"""Endpoints for a stored response: read it, stream it again, delete it, cancel it, list its input."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from app.api.asgi import Receive, Scope, send_error, send_json
from app.api.context import AppContext
from app.api.openai_responses.background import BackgroundRun, BackgroundRuns
from app.api.openai_responses.kept_reply import KeptReply
from app.api.openai_responses.stored import RUNNING, ResponseRecord, StoredResponses
from app.api.response_writer import Send, make_send_queue
from app.api.responses import ReplyResponse
from app.api.resumable import ResumableReply, make_other_frames_error
from app.api.resume import has_read_frames, keep_open
from app.cache import ALL, ReplaySource
from app.chat.stream import Reply
from app.errors import BadRequest, InvalidInput, MethodNotAllowed, NotFound, ParleyError, StoreDown, Violation
from app.formats.responses import RESPONSES
from app.formats.responses.stream import make_response

MAX_PAGE = 100
READ_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.3)
"""The pauses before a record is read again, in seconds, whose end another gateway stores soon."""
_PAGE = 20
_Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


class StoredResponseEndpoint:
    """An endpoint of a path with `response_id`. `handlers` has a function for each method."""

    def __init__(self, context: AppContext, handlers: Mapping[str, _Handler]) -> None:
        self._context = context
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            handler = self._handlers.get(scope["method"])
            if handler is None:
                allow = ", ".join(self._handlers)
                raise MethodNotAllowed(f"{scope['path']} accepts {allow}, not {scope['method']}", allow)
            context = self._context
            with context.admission.try_enter() or await context.wait_for_place(scope, receive):
                await handler(scope, receive, send)
        except ParleyError as error:
            scope["state"]["error_code"] = error.code
            await send_error(send, error, scope["state"]["request_id"], RESPONSES.error)


class StoredResponseHandlers:
    def __init__(self, context: AppContext, stored: StoredResponses, background: BackgroundRuns) -> None:
        self._context = context
        self._stored = stored
        self._background = background

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, or with `?stream=true` its events, from the one after `starting_after` on."""
        query = _parse_query(scope)
        if query.get("stream") in ("true", "True", "1"):
            await self._stream(query.get("starting_after"), scope, receive, send)
            return
        record = await self._stored.get(self._context.caller_id(scope), _id(scope))
        await send_json(send, 200, self._describe_running(scope) if record is None else record.response)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = await self._read(scope)
        if record.status in RUNNING:
            raise BadRequest(f"the response {_id(scope)!r} is {record.status}: cancel it first, then delete it")
        await self._stored.delete(self._context.caller_id(scope), _id(scope))
        await send_json(send, 200, {"id": _id(scope), "object": "response", "deleted": True})

    async def cancel(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stop a response that is in progress; one that has ended is sent as it is."""
        context, id_, caller = self._context, _id(scope), self._context.caller_id(scope)
        record = await self._stored.get(caller, id_)
        if record is not None and record.status not in RUNNING:
            await send_json(send, 200, record.response)
            return
        run = self._background.find(id_, caller)
        if run is not None:
            context.cancel(id_)
            await context.cache.publish_cancel(id_)
            await run.ended.wait()
            await send_json(send, 200, run.describe())
            return
        running = self._describe_running(scope) if record is None else record.response
        context.cancel(id_)
        published = await context.cache.publish_cancel(id_)
        if record is None:  # it runs here
            response = running | {"status": "cancelled"}
        elif published:
            response = await self._cancel_elsewhere(caller, record)
        else:
            raise StoreDown("the gateway that serves this response cannot be reached through Redis; try again later")
        await send_json(send, 200, response)

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
        query = _parse_query(scope)
        limit, order = query.get("limit", str(_PAGE)), query.get("order", "desc")
        violations = []
        if not re.fullmatch(r"[0-9]{1,4}", limit) or not 1 <= int(limit) <= MAX_PAGE:
            violations.append(Violation("limit", f"must be a number from 1 to {MAX_PAGE}"))
        if order not in ("asc", "desc"):
            violations.append(Violation("order", "must be asc or desc"))
        if violations:
            raise InvalidInput(violations)
        record = await self._read(scope)
        items = record.items[: record.input_length]
        await send_json(send, 200, _make_page(items if order == "asc" else items[::-1], int(limit), query.get("after")))

    async def _read(self, scope: Scope) -> ResponseRecord:
        record = await self._stored.get(self._context.caller_id(scope), _id(scope))
        if record is None:
            raise _not_found(scope)
        return record

    def _describe_running(self, scope: Scope) -> dict[str, Any]:
        """Return the Response of a reply that is being sent, and is not stored before its end."""
        running = self._context.running_responses(_id(scope))
        owned = [response for response in running if response.owner == self._context.caller_id(scope)]
        if not owned:
            raise _not_found(scope)
        return make_response(owned[0].info, "in_progress")

    async def _stream(self, starting_after: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        if starting_after is not None and not re.fullmatch(r"[0-9]{1,15}", starting_after):
            raise InvalidInput([Violation("starting_after", "must be the sequence_number of an event")])
        skip = 0 if starting_after is None else int(starting_after) + 1
        run = self._background.find(_id(scope), self._context.caller_id(scope))
        if run is not None:
            await self._follow(run, skip, scope, receive, send)
            return
        reply = await self._context.find_resumable(_id(scope), self._context.caller_id(scope), after=skip)
        if reply is None or not reply.source.complete:
            if await self._stored.get(self._context.caller_id(scope), _id(scope)) is None:
                raise _not_found(scope)
            text = "its events are no longer kept (cache.resume_seconds): read the response without `stream`"
            raise NotFound(f"the response {_id(scope)!r} cannot be streamed again: {text}")
        if not skip or reply.equal_until == ALL:
            await self._stream_rest(reply, skip, scope, receive, send)
            return
        async with keep_open(reply):
            if not await has_read_frames(reply, skip):
                raise make_other_frames_error(_id(scope))
            await self._stream_rest(reply, skip, scope, receive, send)

    async def _stream_rest(self, reply: ResumableReply, skip: int, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._context.create_event_stream(
            make_send_queue(scope, send), reply.info, reply.format, reply.mode, skip_frames=skip
        )
        response.start_stream()  # the client reads a stream: a failure is its last frame, never an HTTP status
        await self._context.run_response(response, self._open_stored(reply.source, response, scope), receive)

    async def _open_stored(self, source: ReplaySource, response: ReplyResponse, scope: Scope) -> Reply:
        """Open a reply to send it again. Its last event has the Response that is stored, if that has ended; else it
        waits until another gateway has stored the end."""
        caller, id_ = self._context.caller_id(scope), _id(scope)
        record = await self._stored.get(caller, id_)
        reply = await source.open()
        if record is None:
            return reply
        if record.status in RUNNING:
            return KeptReply(reply, response, lambda _: self._read_end(caller, id_), lambda: None)
        stored = record.response
        return KeptReply(reply, response, lambda _: None, lambda: stored["completed_at"])

    async def _follow(self, run: BackgroundRun, skip: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events of a background response of this gateway that has not ended."""
        made, writer = run.response, make_send_queue(scope, send)
        follower = self._context.create_event_stream(writer, made.info, made.format, made.mode, skip_frames=skip)
        follower.start_stream()
        await self._context.run_response(follower, run.follow(follower), receive)


def _make_page(items: list[Any], limit: int, after: str | None) -> dict[str, Any]:
    ids = [item.get("id") for item in items]
    if after is not None and after not in ids:
        raise InvalidInput([Violation("after", f"there is no item {after!r}")])
    start = 0 if after is None else ids.index(after) + 1
    page = items[start : start + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0].get("id") if page else None,
        "last_id": page[-1].get("id") if page else None,
        "has_more": start + limit < len(items),
    }


def _id(scope: Scope) -> str:
    id_: str = scope["path_params"]["response_id"]
    return id_


def _parse_query(scope: Scope) -> dict[str, str]:
    """Return the last value of each parameter."""
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return {name: values[-1] for name, values in query.items()}


def _not_found(scope: Scope) -> NotFound:
    text = "it expired, was deleted, was not stored, or belongs to another caller"
    return NotFound(f"there is no response {_id(scope)!r}: {text}")
