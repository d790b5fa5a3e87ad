"""What `POST /v1/responses/compact` does: a server that makes compactions is asked, else its model for a summary."""

from collections.abc import Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from app.api.chat import ChatEndpoint, RequestInProgress, read_passed_headers
from app.api.context import AppContext
from app.api.guarding import admit_unguarded
from app.api.open_replies import PendingReply
from app.chat.events import Finish, Passed
from app.chat.stream import Receiver, Reply
from app.formats.request_limits import RequestLimits
from app.formats.request_memory import CallerMemory
from app.formats.responses.body import ResponsesRequest
from app.formats.responses.compaction import Compacting, parse_compact_body
from app.routing import ModelRoute
from app.upstream.reply.usage import normalize_usage


class _ServerCompaction:
    """The answer of a server, as a reply."""

    fallback_model: str | None = None

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def start(self, receiver: Receiver) -> None:
        usage = self._body.get("usage")
        data = msgspec.json.encode(self._body).decode()
        end = Finish("stop", normalize_usage(usage if isinstance(usage, dict) else None))
        receiver.on_events([Passed("response.compaction", data), end])

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def tick(self, now: float) -> None:
        pass

    def close(self) -> None:
        pass


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
                route, admit_unguarded(replace(conversation, passed=passed)), request.lease.take, sharer
            )
            opened = answer is None
        finally:
            if not opened:
                summary.close()
        return _ServerCompaction(answer) if answer is not None else await summary
