"""What `POST /v1/responses/compact` does: a server that makes compactions is asked, else its model for a summary."""

from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from app.api.chat import ChatEndpoint
from app.api.context import AppContext
from app.api.open_replies import PendingReply
from app.api.own_bodies import read_passed_headers
from app.api.request_in_progress import RequestInProgress
from app.calls.known_reply import KnownReply
from app.chat.admitted import mark_admitted
from app.chat.events import Finish, Passed
from app.chat.stream import Reply
from app.chat.token_estimate import BYTES_PER_TOKEN, estimate_prompt_tokens
from app.formats.request_limits import RequestLimits
from app.formats.request_memory import CallerMemory
from app.formats.responses.body import ResponsesRequest
from app.formats.responses.compaction import Compacting, parse_compact_body
from app.routing import ModelRoute
from app.upstream.reply.usage import normalize_usage
from app.usage.meter import CallMeter


def _make_reply(body: dict[str, Any], meter: CallMeter) -> Reply:
    """Return the answer of a server as a reply, whose usage is billed as that of any other call."""
    usage, data = body.get("usage"), msgspec.json.encode(body).decode()
    end = Finish("stop", normalize_usage(usage if isinstance(usage, dict) else None))
    return KnownReply(meter.end([Passed("response.compaction", data), end], len(data) // BYTES_PER_TOKEN))


class Compactions:
    """What is particular to the endpoint: how it parses a body, and how it answers."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    def parse(self, raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None, /) -> Compacting:
        return parse_compact_body(raw, limits, memory, user_tokens=self._context.settings.responses.compact_user_tokens)

    def answer(
        self,
        endpoint: ChatEndpoint[ResponsesRequest],
        request: RequestInProgress,
        parsed: ResponsesRequest,
        route: ModelRoute,
    ) -> Coroutine[Any, Any, None]:
        passed = parsed.request.passed
        speaks = passed is not None and route.deployments[0].takes_body_of(passed.api)
        own = replace(parsed, request=replace(parsed.request, passed=None))
        response, opening = endpoint.prepare(request, own, route)
        if speaks and request.guard is None:  # what a server makes of the client's own body, no guard could look at
            opening = self._ask(request, parsed, route, opening)
        return endpoint.deliver(request, response, opening)

    async def _ask(
        self, request: RequestInProgress, parsed: ResponsesRequest, route: ModelRoute, summary: PendingReply
    ) -> Reply:
        """Open the server's own compaction, or if it makes none the summary."""
        conversation, opened = parsed.request, False
        assert conversation.passed is not None
        passed = replace(conversation.passed, headers=read_passed_headers(request.scope))
        sharer = self._context.sharer_id(request.scope)
        try:
            answer = await request.live.gateway.ask_compaction(
                route, mark_admitted(replace(conversation, passed=passed)), request.lease.take, sharer
            )
            opened = answer is None
        finally:
            if not opened:
                summary.close()
        if answer is None:
            return await summary
        return _make_reply(answer, CallMeter(request.attempts, route.price, estimate_prompt_tokens(conversation)))
