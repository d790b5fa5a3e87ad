"""The routes of `/v1/responses` and below it, and the endpoint to which requests are sent.

A request may refer to stored responses, and its response is stored.
"""

import os
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace
from typing_extensions import override

from app.api.asgi import Scope, send_json
from app.api.chat import ChatEndpoint, RequestInProgress
from app.api.context import AppContext
from app.api.open_replies import PendingReply
from app.api.reply_response import EventStreamResponse, ReplyResponse
from app.api.response_writer import SendQueue
from app.api.router import AsgiRoute, list_reply_routes
from app.api.token_counts import TokenCountEndpoint
from app.cache import Apply
from app.chat.stream import Reply
from app.config.settings import Settings
from app.config.storage import keeps_state
from app.errors import InvalidInput, StoreDown, Violation, WebSocketDisabled
from app.formats.body import StoredItems, UnresolvedRequest
from app.formats.request_limits import limit_warnings
from app.formats.responses import RESPONSES
from app.formats.responses.body import ResponsesRequest, parse_responses_body
from app.formats.responses.response import describe_unstored
from app.responses_api.background import BackgroundRun, BackgroundRuns, NoClient
from app.responses_api.compact import Compactions
from app.responses_api.record import InputMemory, KeptRequest, RecordTooLarge, StoredResponses
from app.responses_api.reply import KeptEnd, find_response_encoder
from app.responses_api.stored_endpoints import list_routes
from app.routing import ModelRoute
from app.runtime.memory_budget import Lease

Endpoint: TypeAlias = ChatEndpoint[ResponsesRequest]


def make_stored_responses(settings: Settings, context: AppContext) -> StoredResponses:
    return StoredResponses(
        context.state,
        enabled=settings.responses.store and keeps_state(settings),
        ttl_seconds=settings.responses.store_seconds,
        max_bytes=settings.cache.max_entry_bytes,
    )


def list_response_routes(
    context: AppContext, stored: StoredResponses, background: BackgroundRuns, apply: Apply
) -> list[AsgiRoute]:
    """`apply` says for which requests the cache is used."""
    return [
        *list_reply_routes("/v1/responses", make_endpoint(context, stored, background, apply), _PostRoute),
        AsgiRoute("/v1/responses/compact", _make_compact(context, stored, apply), "POST"),
        AsgiRoute("/v1/responses/input_tokens", _make_token_count(context, stored), "POST"),
        *list_routes(context, stored, background),
    ]


class _PostRoute(AsgiRoute):
    @override
    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        # The gateway's own server removes the offer to upgrade itself (RFC 6455, section 4.1).
        if scope["method"] == "GET" and b"sec-websocket-key" in scope["state"]["headers"]:
            raise WebSocketDisabled("responses are not sent over a WebSocket: use POST /v1/responses")
        await super().handle(scope, receive, send)


def make_endpoint(context: AppContext, stored: StoredResponses, background: BackgroundRuns, apply: Apply) -> Endpoint:
    """Return the endpoint of `POST /v1/responses`."""
    replies = _StoredReplies(context, stored, background)
    return ChatEndpoint(
        context,
        parse_responses_body,
        "responses",
        RESPONSES.error,
        apply,
        new_reply_id=_new_response_id,
        keeps_alias=True,
        get_owner=context.caller_id,
        find_stored=partial(_find_stored, context, stored),
        answer=replies.answer,
    )


def _make_token_count(context: AppContext, stored: StoredResponses) -> TokenCountEndpoint[ResponsesRequest]:
    lookup = partial(_find_stored, context, stored)
    fields = {"object": "response.input_tokens"}
    return TokenCountEndpoint(context, parse_responses_body, lookup, fields, asks_api="responses")


def _make_compact(context: AppContext, stored: StoredResponses, apply: Apply) -> Endpoint:
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
        find_stored=partial(_find_stored, context, stored),
        answer=compactions.answer,
    )


def _new_response_id() -> str:
    return f"resp_{os.urandom(16).hex()}"


async def _find_stored(
    context: AppContext, stored: StoredResponses, scope: Scope, lease: Lease, unresolved: UnresolvedRequest[Any]
) -> StoredItems:
    """Look up what a request refers to. It counts as if the client had sent it."""
    memory = InputMemory(lease, context.server)
    return await stored.find(context.caller_id(scope), unresolved.response_id, unresolved.item_ids, memory)


def _serve_codex(parsed: ResponsesRequest, headers: Mapping[bytes, bytes]) -> ResponsesRequest:
    """Codex names itself in `originator` (openai/codex, default_client.rs)."""
    if b"originator" not in headers:
        return parsed
    options = replace(parsed.options.responses, fails_filtered=True)
    return replace(parsed, options=replace(parsed.options, responses=options))


class _StoredReplies:
    """Sends replies and stores them, in the background if the request says so."""

    def __init__(self, context: AppContext, stored: StoredResponses, background: BackgroundRuns) -> None:
        self._context = context
        self._stored = stored
        self._background = background

    def answer(
        self, endpoint: Endpoint, request: RequestInProgress, parsed: ResponsesRequest, route: ModelRoute
    ) -> Coroutine[Any, Any, None]:
        parsed = _serve_codex(self._decide_storing(parsed), request.scope["state"]["headers"])
        self._add_models_etag(request)
        if parsed.background:
            return self._answer_in_background(endpoint, request, parsed, route)
        response, opening = endpoint.prepare(request, parsed, route)
        caller = self._context.caller_id(request.scope) if parsed.store else None
        store = None if caller is None else partial(self._store, response, KeptRequest(parsed, caller))
        response.observe_end(KeptEnd(response, store))
        return endpoint.deliver(request, response, opening)

    def _add_models_etag(self, request: RequestInProgress) -> None:
        """Tell Codex, which sends `originator`, which list of models is valid."""
        state = request.scope["state"]
        if b"originator" in state["headers"]:
            etag = self._context.agent_lists.find_etag(request.live, request.caller)
            if etag is not None:
                state["response_headers"].append((b"x-models-etag", etag.encode()))

    def _decide_storing(self, parsed: ResponsesRequest) -> ResponsesRequest:
        """Return the request with `store` false, and a warning, if its response cannot be stored."""
        if not parsed.store:
            return parsed
        if not self._stored.enabled:
            warning = "store: this gateway stores no responses (cache.url, responses.store), so store is false"
        elif parsed.input_bytes > self._stored.max_bytes // 2:
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

    async def _store(self, response: ReplyResponse, kept: KeptRequest, made: dict[str, Any]) -> dict[str, Any]:
        """Store a response that has ended, and return it. If it cannot be stored, it says so."""
        encoder = find_response_encoder(response)
        record = kept.make_record(made, last_number=None if encoder is None else encoder.last_number)
        try:
            await self._stored.put(kept.caller, record)
        except (RecordTooLarge, StoreDown) as error:
            return describe_unstored(made, str(error))
        return made

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
