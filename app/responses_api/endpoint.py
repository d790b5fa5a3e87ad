"""The endpoint of `POST /v1/responses`: a `ChatEndpoint` whose requests may refer to stored responses, and whose own
responses are stored."""

import asyncio
import os
from functools import partial
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from app.api.asgi import LARGE_BYTES, Scope, call_in_thread, send_json
from app.api.chat import ChatEndpoint, RequestInProgress
from app.api.context import AppContext, PendingReply
from app.api.reply_response import EventStreamResponse, ReplyResponse
from app.api.response_writer import SendQueue
from app.cache import Apply
from app.chat.stream import Reply
from app.errors import InvalidInput, StoreDown, Violation
from app.formats.base import ReplyInfo
from app.formats.body import ParsedRequest, RejectedRequest, UnresolvedRequest
from app.formats.request_limits import limit_warnings
from app.formats.responses import RESPONSES
from app.formats.responses.stream import describe_unstored
from app.gateway import ReplyOptions
from app.responses_api.background import BackgroundRun, BackgroundRuns, NoClient
from app.responses_api.body import ResponsesRequest, parse_responses_body
from app.responses_api.kept_reply import KeptEnd, find_response_encoder
from app.responses_api.kept_request import KeptRequest
from app.responses_api.stored import InputMemory, RecordTooLarge, StoredResponses
from app.routing import ModelRoute


def new_response_id() -> str:
    return f"resp_{os.urandom(16).hex()}"


class ResponsesEndpoint(ChatEndpoint):
    def __init__(self, context: AppContext, stored: StoredResponses, background: BackgroundRuns, apply: Apply) -> None:
        super().__init__(
            context,
            parse_responses_body,
            "responses",
            RESPONSES.error,
            apply,
            new_reply_id=new_response_id,
            keeps_alias=True,
        )
        self._stored = stored
        self._background = background

    @override
    async def _resolve(
        self, request: RequestInProgress, unresolved: UnresolvedRequest
    ) -> ParsedRequest | RejectedRequest:
        """What is stored counts as if the client had sent it."""
        caller = self._context.caller_id(request.scope)
        memory = InputMemory(request.lease, request.live.settings.server)
        found = await self._stored.find(caller, unresolved.response_id, unresolved.item_ids, memory)
        request.is_large = request.is_large or memory.read_bytes > LARGE_BYTES
        if request.is_large:
            return await call_in_thread(unresolved.resolve, found)
        return unresolved.resolve(found)

    @override
    def _prepare(
        self, request: RequestInProgress, parsed: ParsedRequest, route: ModelRoute
    ) -> tuple[ReplyResponse, PendingReply]:
        assert isinstance(parsed, ResponsesRequest)
        parsed = self._decide_storing(parsed)
        caller = self._context.caller_id(request.scope) if parsed.store else None
        kept = KeptRequest(parsed, caller)
        if not parsed.background:
            response, opening = super()._prepare(request, parsed, route)
            store = None if caller is None else partial(self._store, response, kept)
            return response, _keep(opening, KeptEnd(response, store))
        self._background.check_capacity()
        request.lease, request.writer = request.lease.move(), NoClient()
        try:
            response, opening = super()._prepare(request, parsed, route)
        except BaseException:
            request.lease.release()
            raise
        run = BackgroundRun(response, kept, request.lease, streamed=parsed.streamed)
        self._background.add(run)
        run.openings = (self._begin(opening, run), opening)
        return response, run.openings[0]

    @override
    def _make_options(
        self, request: RequestInProgress, parsed: ParsedRequest, info: ReplyInfo, route: ModelRoute
    ) -> ReplyOptions:
        """A background reply is held, whatever the request says of caches: it has to be read later."""
        options = super()._make_options(request, parsed, info, route)
        assert isinstance(parsed, ResponsesRequest)
        if not parsed.background:
            return options
        return options.with_cache_policy(replace(options.cache_policy, keep=True))

    @override
    async def _deliver(self, request: RequestInProgress, response: ReplyResponse, opening: PendingReply) -> None:
        context = self._context
        run = self._background.find(response.info.response_id, context.caller_id(request.scope))
        if run is None:
            await super()._deliver(request, response, opening)
            return
        request.record.in_background = True
        self._background.start(run, lambda: self._produce(run, request, opening))
        await run.accepted.wait()
        if run.refused is not None:
            request.record.in_background = False
            raise run.refused
        if not run.streamed:
            await send_json(request.send, 200, run.describe(), {"x-parley-response-id": run.id})
            return
        writer = request.offered_writer or SendQueue(request.send)
        follower = context.create_event_stream(writer, response.info, response.format, response.mode)
        follower.start_stream()
        await context.run_response(follower, run.follow(follower), request.receive)

    async def _produce(self, run: BackgroundRun, request: RequestInProgress, opening: PendingReply) -> None:
        """Produce a background response to its end, and report its request."""
        assert isinstance(run.response, EventStreamResponse)
        run.response.start_stream()  # a failure is then a Response, not an HTTP status
        try:
            with run.lease:
                await super()._deliver(request, run.response, opening)
        finally:
            self._context.finish_request(request.record)

    async def _begin(self, opening: PendingReply, run: BackgroundRun) -> Reply:
        """Open the reply of a background response. `BackgroundRuns` stores its end."""
        reply = KeptEnd(run.response, None).read(await opening)
        try:
            await self._background.begin(run)
        except BaseException:
            reply.close()
            raise
        return reply

    @override
    def _get_owner(self, scope: Scope) -> str:
        return self._context.caller_id(scope)

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
        assert kept.caller is not None
        encoder = find_response_encoder(response)
        record = kept.make_record(made, last_number=None if encoder is None else encoder.last_number)
        try:
            await self._stored.put(kept.caller, record)
        except (RecordTooLarge, StoreDown) as error:
            return describe_unstored(made, str(error))
        return made


async def _keep(opening: PendingReply, end: KeptEnd) -> Reply:
    try:
        return end.read(await opening)
    except asyncio.CancelledError:
        end.on_close()
        raise
