"""Replies of several calls to a model: how each call is opened and limited."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from app.api.context import AppContext
from app.api.guarding import admit
from app.api.reply_opening import ReplyOpener, TurnOpening, reserve_limits
from app.api.reply_response import ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.cache import CacheRequest
from app.cache.policy import OFF
from app.chat.admitted import Admitted, mark_admitted
from app.chat.messages import ChatRequest
from app.chat.stream import AttemptLog, Origin, Receiver, Reply
from app.chat.token_usage import CallUsage
from app.gateway import ReplyOptions
from app.limits import Limiter
from app.limits.limiter import Reservation
from app.routing import ModelRoute
from app.steps.pipeline import has_media
from app.tool_loop.loop import OpenedTurn, do_nothing

TICK_SECONDS = 0.5
"""How often the timeouts of a call are checked while no response does it."""


class TurnLimits:
    """What one call to the model has taken from the limits of its caller."""

    def __init__(self, limiter: Limiter, reservation: Reservation, attempts: AttemptLog) -> None:
        self._limiter = limiter
        self._reservation = reservation
        self._attempts = attempts
        self._before = attempts.usage

    def settle(self, opening: TurnOpening) -> None:
        """Give back what the call did not use. The estimate remains for a call that goes on for others."""
        usage = self._attempts.usage
        if opening.call is not None and not opening.call.ended:
            self._limiter.settle(self._reservation, None, None)
        elif usage is None or usage is self._before:
            self._limiter.settle(self._reservation, 0, None)
        else:
            tokens, cost = _subtract(usage, self._before)
            self._limiter.settle(self._reservation, tokens, cost, usage.fallback_model)


def _subtract(usage: CallUsage, before: CallUsage | None) -> tuple[int, float | None]:
    if before is None:
        return usage.tokens.total, usage.cost
    cost = None if usage.cost is None else usage.cost - (before.cost or 0.0)
    return usage.tokens.total - before.tokens.total, cost


class ReplyOfCalls:
    """Opens one reply, and each call to the model in it. The calls are answered by the cache, but the reply is never an
    answer to another request."""

    def __init__(
        self,
        opener: ReplyOpener,
        context: AppContext,
        request: RequestInProgress,
        route: ModelRoute,
        options: ReplyOptions,
        response: ReplyResponse,
    ) -> None:
        self._opener = opener
        self._context = context
        self._request = request
        self._route = route
        self._options = options
        self._response = response
        self._known_values = 0
        """How many masked values other gateways know, at which the reply can be resumed."""

    async def open(self, start: Callable[[], Awaitable[Reply]]) -> Reply:
        """Return the reply that `start` opens, for any number of readers. Raises ParleyError."""
        cache, options = self._context.cache, self._options
        policy = replace(OFF, keep=options.cache_policy.keep)
        held = CacheRequest("", self._route.model, policy, 0.0, options.unread_seconds)
        found = await cache.find(held, start)
        self._opener.set_source(self._response, found, self._response.info.origin, options)
        return await cache.open(found)

    async def open_turn(self, conversation: ChatRequest, number: int, fallback: ModelRoute | None = None) -> OpenedTurn:
        """Open one call to the model, or to another model, with limits of its own. Raises ParleyError."""
        route, opening = fallback or self._route, TurnOpening()
        limits = await self._reserve(conversation, number, route)
        lease = self._context.budget.lease() if number else self._request.lease
        try:
            reply = await self._open_call(conversation, route, self._options.copy_for_turn(number, lease), opening)
        except BaseException:
            if limits is not None:
                limits.settle(opening)
            raise
        finally:
            lease.release()
        if not number:
            self._describe_first(opening)
        await self._publish_values(number)
        free = opening.origin.label in ("hit", "shared")
        on_end = do_nothing if limits is None else partial(limits.settle, opening)
        return OpenedTurn(reply, opening.origin.cached, free, on_end)

    async def _publish_values(self, number: int) -> None:
        """Let other gateways know values that were found behind the first call: results of tools may have some."""
        guard = self._request.guard
        if guard is None or not self._context.cache.is_shared:
            return
        before, self._known_values = self._known_values, len(guard.placeholders.values)
        if number and self._known_values > before:
            await self._context.replies.publish_record(self._response.info.response_id)

    async def _open_call(
        self, conversation: ChatRequest, route: ModelRoute, options: ReplyOptions, opening: TurnOpening
    ) -> Reply:
        if route.described and has_media(conversation):
            from app.api.descriptions import MediaDescriber  # few models need it

            describer = MediaDescriber(self._context, self._request, route)
            conversation = await describer.describe(conversation, opening)
        admitted = await self.admit(conversation)
        return await self._opener.open_admitted(self._request, route, admitted, options, opening)

    async def admit(self, conversation: ChatRequest) -> Admitted:
        """Show a request to its guards. Raises ParleyError."""
        guard = self._request.guard
        return mark_admitted(conversation) if guard is None else await admit(self._request, guard, conversation)

    def _describe_first(self, opening: TurnOpening) -> None:
        """Add what is known of the first call to the model to the response, unless results of approved calls came
        before. Whether the later calls will be from the cache is not known yet."""
        origin = opening.origin
        if self._response.first_at is not None:
            return
        label = origin.label if origin.label in ("bypass", "refresh") else "miss"
        self._response.set_origin(Origin(label, None, origin.fallback_model))
        if opening.warnings:
            self._response.add_warnings(opening.warnings)
        if opening.descriptions:
            self._response.add_descriptions(opening.descriptions)

    async def _reserve(self, conversation: ChatRequest, number: int, route: ModelRoute) -> TurnLimits | None:
        """Reserve the limits of a call to the model. Those of the first one were reserved with the request. Raises
        RateLimited or QuotaExceeded."""
        limiter, request = self._context.limiter, self._request
        if limiter is None:
            return None
        reservation = request.record.take_reservation()
        if number:
            reservation = await reserve_limits(limiter, request, route, conversation)
        return TurnLimits(limiter, reservation, request.attempts) if isinstance(reservation, Reservation) else None


class TurnReply(ABC):
    """A reply that is one call to the model, whose events reach its receiver changed."""

    def __init__(self, turn: OpenedTurn) -> None:
        self._turn = turn
        self._closed = False
        self.fallback_model = turn.reply.fallback_model

    @abstractmethod
    def start(self, receiver: Receiver) -> None: ...

    def pause(self) -> None:
        self._turn.reply.pause()

    def resume(self) -> None:
        self._turn.reply.resume()

    def tick(self, now: float) -> None:
        self._turn.reply.tick(now)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._turn.reply.close()
            self._turn.on_end()
