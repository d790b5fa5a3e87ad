"""The routes of `/v1/responses` and below it, and the endpoint to which requests are sent.

A request may refer to stored responses, and its response is stored.
"""

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace
from starlette.routing import BaseRoute, WebSocketRoute
from typing_extensions import override

from app.api.asgi import Scope, send_json
from app.api.chat import ChatEndpoint, FindStored
from app.api.context import AppContext
from app.api.open_replies import PendingReply
from app.api.reply_response import STREAM_HEADERS, EventStreamResponse, ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.api.response_writer import SendQueue
from app.api.router import AsgiRoute, list_reply_routes
from app.api.token_counts import TokenCountEndpoint
from app.cache import Apply
from app.chat.stream import Reply
from app.config.settings import Settings
from app.config.storage import keeps_state
from app.errors import InvalidInput, StoreDown, Violation, WebSocketDisabled
from app.formats.base import ReplyInfo
from app.formats.body import ParsedRequest, StoredItems, UnresolvedRequest
from app.formats.request_limits import limit_warnings
from app.formats.responses import RESPONSES
from app.formats.responses.body import ResponsesRequest, parse_responses_body
from app.formats.responses.events import write_event
from app.formats.responses.response import add_warning, describe_unstored, make_response, write_usage
from app.limits import Limiter
from app.observe.logs import log_plain_request
from app.responses_api.background import BackgroundRun, BackgroundRuns, NoClient
from app.responses_api.compact import Compactions
from app.responses_api.conversation_endpoints import list_conversation_routes
from app.responses_api.conversations import Conversations, HeldConversation
from app.responses_api.record import (
    CONTINUABLE,
    InputMemory,
    KeptRequest,
    RecordTooLarge,
    ResponseRecord,
    StoredResponses,
)
from app.responses_api.reply import KeptEnd, find_response_encoder
from app.responses_api.stored_endpoints import list_routes
from app.responses_api.websocket import PATH, SocketEndpoint, SocketMemory, add_models_etag
from app.routing import ModelRoute
from app.runtime.memory_budget import Lease
from app.state import Database

Keep: TypeAlias = Callable[[ResponseRecord], Awaitable[dict[str, Any]]]
Endpoint: TypeAlias = ChatEndpoint[ResponsesRequest]


def make_stored_responses(settings: Settings, context: AppContext) -> StoredResponses:
    return StoredResponses(
        context.state,
        enabled=settings.responses.store and keeps_state(settings),
        ttl_seconds=settings.responses.store_seconds,
        max_bytes=settings.cache.max_entry_bytes,
    )


def list_response_routes(
    context: AppContext,
    stored: StoredResponses,
    background: BackgroundRuns,
    apply: Apply,
    database: Database | None,
) -> list[BaseRoute]:
    """`apply` says for which requests the cache is used. `database` is that of the state, with conversations."""
    conversations = _make_conversations(context, database)
    find_stored = partial(_find_stored, context, stored, conversations)
    create = make_endpoint(context, stored, background, apply, conversations)
    return [
        *list_reply_routes("/v1/responses", create, _PostRoute),
        WebSocketRoute("/v1/responses", SocketEndpoint(context, create, _make_warm_up(context, stored, find_stored))),
        AsgiRoute("/v1/responses/compact", _make_compact(context, find_stored, apply), "POST"),
        AsgiRoute("/v1/responses/input_tokens", _make_token_count(context, find_stored), "POST"),
        *list_routes(context, stored, background),
        *list_conversation_routes(context, conversations),
    ]


def _make_conversations(context: AppContext, database: Database | None) -> Conversations | None:
    settings = context.settings
    if database is None or not settings.responses.store:
        return None
    return Conversations(
        context.state,
        database,
        ttl_seconds=settings.responses.store_seconds,
        max_bytes=settings.cache.max_entry_bytes,
        max_items=settings.server.max_messages,
    )


class _PostRoute(AsgiRoute):
    @override
    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        # The gateway's own server removes the offer to upgrade itself (RFC 6455, section 4.1).
        # A socket is another kind of scope, so here none can be opened.
        if scope["method"] == "GET" and b"sec-websocket-key" in scope["state"]["headers"]:
            raise WebSocketDisabled("responses are not sent over a WebSocket: use POST /v1/responses")
        await super().handle(scope, receive, send)


def make_endpoint(
    context: AppContext,
    stored: StoredResponses,
    background: BackgroundRuns,
    apply: Apply,
    conversations: Conversations | None = None,
) -> Endpoint:
    """Return the endpoint of `POST /v1/responses`."""
    replies = _StoredReplies(context, stored, background, conversations)
    return ChatEndpoint(
        context,
        parse_responses_body,
        "responses",
        RESPONSES.error,
        apply,
        new_reply_id=_new_response_id,
        keeps_alias=True,
        get_owner=context.caller_id,
        find_stored=partial(_find_stored, context, stored, conversations),
        answer=replies.answer,
    )


def _make_token_count(context: AppContext, find_stored: FindStored) -> TokenCountEndpoint[ResponsesRequest]:
    fields = {"object": "response.input_tokens"}
    return TokenCountEndpoint(context, parse_responses_body, find_stored, fields, asks_api="responses")


class _WarmUps(ChatEndpoint[ResponsesRequest]):
    """Answers requests of sockets that ask no model. They use nothing of a limit."""

    @override
    async def _reserve(
        self, limiter: Limiter, request: RequestInProgress, parsed: ParsedRequest, route: ModelRoute
    ) -> None:
        pass


def _make_warm_up(context: AppContext, stored: StoredResponses, find_stored: FindStored) -> Endpoint:
    """Return the endpoint of a socket's requests with `generate: false`."""
    return _WarmUps(
        context,
        parse_responses_body,
        "responses",
        RESPONSES.error,
        "on_request",
        new_reply_id=_new_response_id,
        find_stored=find_stored,
        answer=partial(_warm_up, context, stored),
    )


async def _warm_up(
    context: AppContext,
    stored: StoredResponses,
    endpoint: Endpoint,
    request: RequestInProgress,
    parsed: ResponsesRequest,
    route: ModelRoute,
) -> None:
    """Answer with an empty Response, which the next request of the socket continues. It counts as no request for a
    reply."""
    if parsed.conversation is not None:
        raise InvalidInput([Violation("generate", "is not possible with a conversation: add items to it instead")])
    parsed = _decide_storing(stored, parsed)
    model = parsed.settings.model or route.model
    info = ReplyInfo(
        _new_response_id(), request.id, model, int(time.time()), warnings=parsed.warnings, options=parsed.options
    )
    made = make_response(info, "completed", [], usage=write_usage({}), completed_at=info.created)
    kept = KeptRequest(parsed, context.caller_id(request.scope))
    made = await _keep(stored, kept, kept.make_record(made), stores=parsed.store, socket=_find_socket(request.scope))
    request.in_background = True
    log_plain_request(
        request.id, "POST", PATH, 200, None, time.perf_counter() - request.record.started_at, key=request.caller.name
    )
    frames = (
        {"type": "response.created", "sequence_number": 0, "response": make_response(info, "in_progress")},
        {"type": "response.completed", "sequence_number": 1, "response": made},
    )
    await request.send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
    await request.send({"type": "http.response.body", "body": b"".join(map(write_event, frames))})


def _find_socket(scope: Scope) -> "tuple[SocketMemory, str] | None":
    """Return what the request's socket remembers, and the name of its stream; None over HTTP."""
    socket: tuple[SocketMemory, str] | None = scope["state"].get("socket")
    return socket


async def _keep(
    stored: StoredResponses,
    kept: KeptRequest,
    record: ResponseRecord,
    *,
    stores: bool,
    socket: "tuple[SocketMemory, str] | None",
    held: HeldConversation | None = None,
) -> dict[str, Any]:
    """Keep a response that has ended in its socket, and store it. Return it; if it cannot be stored, it says so."""
    if socket is not None:
        memory, stream_id = socket
        memory.put(stream_id, record)
    made = record.response
    if held is not None and record.status in CONTINUABLE:
        reason = await held.append(record.items[kept.context_length :])
        if reason is not None:
            made = add_warning(made, f"conversation: input and output were not added: {reason}")
    if not stores:
        return made
    try:
        await stored.put(kept.caller, replace(record, response=made))
    except (RecordTooLarge, StoreDown) as error:
        return describe_unstored(made, str(error))
    return made


async def _store_end(response: ReplyResponse, kept: KeptRequest, keep: Keep, made: dict[str, Any]) -> dict[str, Any]:
    encoder = find_response_encoder(response)
    return await keep(kept.make_record(made, last_number=None if encoder is None else encoder.last_number))


def _decide_storing(stored: StoredResponses, parsed: ResponsesRequest) -> ResponsesRequest:
    """Return the request with `store` false, and a warning, if its response cannot be stored."""
    if not parsed.store:
        return parsed
    if not stored.enabled:
        warning = "store: this gateway stores no responses (cache.url, responses.store), so store is false"
    elif parsed.input_bytes > stored.max_bytes // 2:
        size = f"{parsed.input_bytes} bytes of input"
        warning = f"store: {size} are too many to store (cache.max_entry_bytes), so store is false"
    else:
        return parsed
    if parsed.background:
        raise InvalidInput([Violation("background", f"needs a stored response; {warning}")])
    options = parsed.options.responses
    unstored = replace(options, fields=options.fields | {"store": False}, sealed=True)
    return replace(
        parsed,
        store=False,
        options=replace(parsed.options, responses=unstored),
        warnings=limit_warnings([*parsed.warnings, warning]),
    )


def _make_compact(context: AppContext, find_stored: FindStored, apply: Apply) -> Endpoint:
    compactions = Compactions(context)
    return ChatEndpoint(
        context,
        compactions.parse,
        "compact",
        RESPONSES.error,
        apply,
        new_reply_id=_new_response_id,
        keeps_alias=True,
        get_owner=context.caller_id,
        find_stored=find_stored,
        answer=compactions.answer,
    )


def _new_response_id() -> str:
    return f"resp_{os.urandom(16).hex()}"


async def _find_stored(
    context: AppContext,
    stored: StoredResponses,
    conversations: Conversations | None,
    scope: Scope,
    lease: Lease,
    unresolved: UnresolvedRequest[Any],
) -> StoredItems:
    """Look up what a request refers to. It counts as if the client had sent it."""
    memory = InputMemory(lease, context.server)
    id_, caller, conversation = unresolved.response_id, context.caller_id(scope), None
    if unresolved.conversation_id is not None and conversations is not None:
        conversation = await conversations.find(caller, unresolved.conversation_id, memory)
    kept = scope["state"]["socket"][0].find(id_) if id_ is not None and "socket" in scope["state"] else None
    if kept is None:
        found = await stored.find(caller, id_, unresolved.item_ids, memory)
        return replace(found, conversation=conversation, keeps_conversations=conversations is not None)
    found = await stored.find(caller, None, unresolved.item_ids, memory)
    items, size = kept
    return replace(
        found, responses={**found.responses, str(id_): items}, size=found.size + size, conversation=conversation
    )


def _serve_codex(parsed: ResponsesRequest, headers: Mapping[bytes, bytes]) -> ResponsesRequest:
    """Codex names itself in `originator` (openai/codex, default_client.rs)."""
    if b"originator" not in headers:
        return parsed
    options = replace(parsed.options.responses, fails_filtered=True)
    return replace(parsed, options=replace(parsed.options, responses=options))


class _StoredReplies:
    """Sends replies and stores them, in the background if the request says so."""

    def __init__(
        self,
        context: AppContext,
        stored: StoredResponses,
        background: BackgroundRuns,
        conversations: Conversations | None,
    ) -> None:
        self._context = context
        self._stored = stored
        self._background = background
        self._conversations = conversations

    def answer(
        self, endpoint: Endpoint, request: RequestInProgress, parsed: ResponsesRequest, route: ModelRoute
    ) -> Coroutine[Any, Any, None]:
        parsed = _serve_codex(_decide_storing(self._stored, parsed), request.scope["state"]["headers"])
        add_models_etag(self._context, request.live, request.scope)
        if parsed.background:
            return self._answer_in_background(endpoint, request, parsed, route)
        if parsed.conversation is not None:
            return self._answer_in_conversation(endpoint, request, parsed, route)
        return self._answer(endpoint, request, parsed, route, None)

    async def _answer_in_conversation(
        self, endpoint: Endpoint, request: RequestInProgress, parsed: ResponsesRequest, route: ModelRoute
    ) -> None:
        """Answer while no other response runs in the conversation. Raises ParleyError."""
        assert self._conversations is not None and parsed.conversation is not None
        async with self._conversations.hold(self._context.caller_id(request.scope), parsed.conversation) as held:
            await self._answer(endpoint, request, parsed, route, held)

    def _answer(
        self,
        endpoint: Endpoint,
        request: RequestInProgress,
        parsed: ResponsesRequest,
        route: ModelRoute,
        held: HeldConversation | None,
    ) -> Coroutine[Any, Any, None]:
        response, opening = endpoint.prepare(request, parsed, route)
        socket = _find_socket(request.scope)
        store = None
        if parsed.store or socket is not None or held is not None:
            kept = KeptRequest(parsed, self._context.caller_id(request.scope))
            keep = partial(_keep, self._stored, kept, stores=parsed.store, socket=socket, held=held)
            store = partial(_store_end, response, kept, keep)
        response.observe_end(KeptEnd(response, store))
        return endpoint.deliver(request, response, opening)

    def _answer_in_background(
        self, endpoint: Endpoint, request: RequestInProgress, parsed: ResponsesRequest, route: ModelRoute
    ) -> Coroutine[Any, Any, None]:
        """The reply is held, whatever the request says of caches: it has to be read later."""
        self._background.check_capacity()
        request.lease, request.writer = request.lease.move(), request.record_writes(NoClient())
        try:
            response, opening = endpoint.prepare(request, parsed, route, keep=True)
        except BaseException:
            request.lease.release()
            raise
        kept = KeptRequest(parsed, self._context.caller_id(request.scope))
        run = BackgroundRun(response, kept, request.lease, streamed=parsed.streamed)
        self._background.add(run)
        run.openings = (self._begin(opening, run), opening)
        return self._run(endpoint, request, run)

    async def _run(self, endpoint: Endpoint, request: RequestInProgress, run: BackgroundRun) -> None:
        """Start a background response, and send what its client wants of it. Raises ParleyError if the response cannot
        be stored."""
        request.in_background = True
        self._background.start(run, lambda: self._produce(endpoint, request, run))
        await run.accepted.wait()
        if run.refused is not None:
            request.in_background = False
            raise run.refused
        if not run.streamed:
            await send_json(request.send, 200, run.describe(), {"x-parley-response-id": run.id})
            return
        response, writer = run.response, request.offered_writer or SendQueue(request.send)
        replies = self._context.replies
        follower = EventStreamResponse(writer, response.info, response.format, response.mode, replies.limits)
        follower.start_stream()
        await replies.run(follower, run.follow(follower), request.receive)

    async def _produce(self, endpoint: Endpoint, request: RequestInProgress, run: BackgroundRun) -> None:
        """Produce a background response to its end, and report its request."""
        assert isinstance(run.response, EventStreamResponse)
        run.response.start_stream()  # a failure is then a Response, not an HTTP status
        try:
            with run.lease:
                await endpoint.deliver(request, run.response, run.openings[0])
        finally:
            self._context.finish_request(request.record)

    async def _begin(self, opening: PendingReply, run: BackgroundRun) -> Reply:
        """Open the reply of a background response. `BackgroundRuns` stores its end."""
        run.response.observe_end(KeptEnd(run.response, None))
        reply = await opening
        try:
            await self._background.begin(run)
        except BaseException:
            reply.close()
            raise
        return reply
