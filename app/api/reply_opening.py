"""What each call to a model needs: its limits, its media, reasoning that the client dropped, and the opening of its
reply."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from app.api.asgi import Scope, call_in_thread
from app.api.context import AppContext
from app.api.reply_response import EventStreamResponse, JsonResponse, ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.api.resumable import ResumableReply
from app.cache import Found, InFlightCall, Join, New, ReplaySource
from app.chat.admitted import Admitted, mark_admitted
from app.chat.messages import ChatRequest
from app.chat.stream import Origin, Reply
from app.chat.token_estimate import DEFAULT_REPLY_TOKENS, estimate_prompt_tokens
from app.errors import CacheMiss, UpstreamFailed
from app.formats import FORMATS
from app.formats.base import DescribedMedium, ReplyInfo
from app.formats.body import ParsedRequest
from app.gateway import Gateway, ReplyOptions
from app.limits import Limiter, Reservation
from app.observe.trace_context import RequestTrace
from app.params import find_max_tokens
from app.routing import ModelRoute, PreparedRequest
from app.routing.reply_bound import find_most_reply_tokens
from app.steps.dropped_reasoning import NOTHING_WANTED, DroppedReasoning, Wanted
from app.steps.media import MediaRequest
from app.steps.output_check import has_new_schema, prepare_check


class TurnOpening:
    """One call to the model, while it is opened. It takes what a response takes of the call that it sends."""

    def __init__(self) -> None:
        self.origin = Origin()
        self.warnings: tuple[str, ...] = ()
        self.descriptions: tuple[DescribedMedium, ...] = ()
        self.source: ReplaySource | None = None
        self.call: InFlightCall | None = None

    @property
    def info(self) -> "TurnOpening":
        return self

    def set_origin(self, origin: Origin) -> None:
        self.origin = origin

    def add_warnings(self, warnings: Sequence[str]) -> None:
        self.warnings = (*self.warnings, *warnings)

    def add_descriptions(self, descriptions: Sequence[DescribedMedium]) -> None:
        self.descriptions = (*self.descriptions, *descriptions)


class UnpreparedReply(Struct, frozen=True):
    """A reply whose request must wait for something before it can be prepared."""

    gateway: Gateway
    route: ModelRoute
    request: Admitted
    media_requests: list[MediaRequest] | None
    """None: not looked for yet, which takes long for a large request."""
    options: ReplyOptions
    response: ReplyResponse | TurnOpening


class ReplyOpener:
    """Makes the response to a request, and opens replies for it."""

    def __init__(self, context: AppContext, get_owner: Callable[[Scope], str]) -> None:
        """`get_owner` returns the caller who may resume the reply to a request."""
        self._context = context
        self._get_owner = get_owner

    def create_response(self, request: RequestInProgress, parsed: ParsedRequest, info: ReplyInfo) -> ReplyResponse:
        context, settings, trace = self._context, parsed.settings, request.record.trace
        # Spans never have what guards mask or refuse, and what they do is known later.
        if request.guard is None and context.captures_content and isinstance(trace, RequestTrace) and trace.sampled:
            request.record.record_content(parsed.request.messages)
        create = EventStreamResponse if settings.stream else JsonResponse
        response = create(request.writer, info, parsed.reply_format, settings.mode, context.replies.limits)
        response.attempts = request.attempts
        response.owner = self._get_owner(request.scope)
        return response

    async def open_admitted(
        self,
        request: RequestInProgress,
        route: ModelRoute,
        admitted: Admitted,
        options: ReplyOptions,
        opening: ReplyResponse | TurnOpening,
    ) -> Reply:
        """Open the reply to a request whose guards let it pass. Raises ParleyError."""
        gateway, kept = request.live.gateway, self._context.reasoning
        media_requests = None if request.is_large else gateway.find_media_requests(route, admitted)
        unprepared = UnpreparedReply(gateway, route, admitted, media_requests, options, opening)
        passes = admitted.source is not None or admitted.passed is not None
        wanted = route.wanted if kept is not None and not passes else NOTHING_WANTED
        in_thread = media_requests is None or bool(media_requests) or checks_new_schema(route, admitted)
        if kept is not None and wanted != NOTHING_WANTED:
            dropped = kept.find_dropped(admitted, wanted)
            if dropped:
                caller = self._context.caller_id(request.scope)
                return await self.restore(unprepared, dropped, wanted, caller, in_thread=in_thread)
        if in_thread:
            return await self.prepare_in_thread(unprepared)
        return await self.open_reply(gateway, gateway.prepare(route, admitted), options, opening)

    async def restore(
        self,
        unprepared: UnpreparedReply,
        dropped: Sequence[DroppedReasoning],
        wanted: Wanted,
        caller: str,
        *,
        in_thread: bool,
    ) -> Reply:
        """Put back reasoning that the client dropped, and prepare the request."""
        assert self._context.reasoning is not None
        found, warnings = await self._context.reasoning.restore(unprepared.request, dropped, wanted, caller)
        guard = unprepared.request.guard
        given = unprepared.request.messages
        request = mark_admitted(found) if guard is None else await guard.admit_restored(found, given)
        if warnings:
            unprepared.response.add_warnings(warnings)
        if in_thread:
            return await self.prepare_in_thread(replace(unprepared, request=request))
        gateway, options = unprepared.gateway, unprepared.options
        return await self.open_reply(gateway, gateway.prepare(unprepared.route, request), options, unprepared.response)

    async def prepare_in_thread(self, unprepared: UnpreparedReply) -> Reply:
        """Load media, and prepare the request in another thread. Meanwhile the stream may open."""
        gateway, options, response = unprepared.gateway, unprepared.options, unprepared.response
        media_requests = unprepared.media_requests
        if media_requests is None:
            media_requests = await call_in_thread(gateway.find_media_requests, unprepared.route, unprepared.request)
        if checks_new_schema(unprepared.route, unprepared.request):
            await call_in_thread(prepare_check, unprepared.request)
        media = await gateway.load_media(
            unprepared.route, unprepared.request, media_requests, options.lease.take, options.find_sharer()
        )
        preparing = call_in_thread(gateway.prepare, unprepared.route, unprepared.request, media)
        del unprepared, media_requests, media  # the wait for the model server may be long
        prepared = await preparing
        options.lease.change(prepared.size)
        return await self.open_reply(gateway, prepared, options, response)

    async def open_reply(
        self,
        gateway: Gateway,
        prepared: PreparedRequest,
        options: ReplyOptions,
        response: ReplyResponse | TurnOpening,
    ) -> Reply:
        """Open the reply. It can be resumed before the model server has answered."""
        if prepared.warnings:
            response.add_warnings(prepared.warnings)
        try:
            found = await gateway.find(prepared, options)
        except CacheMiss:
            if options.cache_policy.read:
                response.set_origin(Origin("miss"))
            raise
        joins = 1 + prepared.max_retries
        self.set_source(response, found, found.origin, options)
        while True:
            try:
                reply = await self._context.cache.open(found)
                break
            except UpstreamFailed as error:
                if not (isinstance(found, Join) and error.retryable and joins):
                    raise
            joins -= 1
            found = gateway.find_again(prepared, options)
            self.set_source(response, found, found.origin, options)
        origin = found.origin
        if reply.fallback_model is not None:
            origin = replace(origin, fallback_model=reply.fallback_model)
        if origin != response.info.origin:
            self.set_source(response, found, origin, options)
        return reply

    def set_source(
        self, response: ReplyResponse | TurnOpening, found: Found, origin: Origin, options: ReplyOptions
    ) -> None:
        response.set_origin(origin)
        response.source = found.source
        response.call = found.source if isinstance(found, New) else None
        if found.source is not None and isinstance(response, EventStreamResponse):
            info, format_, mode = response.info, FORMATS[response.format.name], response.mode
            reply = ResumableReply(info, format_, mode, response.owner, found.source, options.unread_seconds)
            self._context.replies.resumable.put(reply)


def checks_new_schema(route: ModelRoute, request: ChatRequest) -> bool:
    """Whether a schema must be read before the reply can be checked at once."""
    if request.params.get("response_format") is None:
        return False
    checks = any(deployment.profile.check_output != "off" for deployment in route.deployments)
    return checks and has_new_schema(request)


async def reserve_limits(
    limiter: Limiter, request: RequestInProgress, route: ModelRoute, conversation: ChatRequest
) -> Reservation | None:
    """Reserve the limits of one call to a model; None if it has none. Raises RateLimited or QuotaExceeded."""
    live = request.live

    def find_most_tokens() -> int:
        routes = [route, *(live.gateway.route(name) for name in route.list_fallbacks())]
        return find_most_reply_tokens(routes, conversation, live.settings.usage.reserved_reply_tokens)

    return await limiter.reserve(
        request.caller,
        route.model,
        lambda: estimate_prompt_tokens(conversation),
        find_max_tokens(route.defaults, conversation.params),
        DEFAULT_REPLY_TOKENS,
        find_most_tokens,
    )
