"""The endpoint of `POST /v1/messages/count_tokens`: counts the input tokens of a request. No model is called."""

from collections.abc import Callable

from app.api.asgi import (
    LARGE_BYTES,
    Receive,
    Scope,
    call_in_thread,
    read_body,
    send_json,
    wait_for_parse_memory,
)
from app.api.chat import find_route
from app.api.context import AppContext
from app.api.response_writer import Send
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.request_limits import RequestLimits


class TokenCountEndpoint:
    """A plain ASGI callable with the limits of the chat endpoints."""

    def __init__(
        self,
        context: AppContext,
        parse: Callable[[bytes | bytearray, RequestLimits], ParsedRequest | RejectedRequest],
    ) -> None:
        self._context = context
        self._parse = parse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, {"input_tokens": await self._count(scope, receive)})

    async def _count(self, scope: Scope, receive: Receive) -> int:
        """Raises ParleyError."""
        context, live = self._context, self._context.live
        server, gateway = live.settings.server, live.gateway
        with context.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease)
            with context.admission.try_enter() or await context.wait_for_place(scope, receive):
                await wait_for_parse_memory(raw, lease, server.max_json_values)
                large = len(raw) > LARGE_BYTES
                if large:
                    parsed = await call_in_thread(self._parse, raw, live.request_limits)
                else:
                    parsed = self._parse(raw, live.request_limits)
                if isinstance(parsed, RejectedRequest):
                    raise parsed.error
                model = await gateway.resolve_model(parsed.settings.model)
                route = find_route(gateway, model, scope["state"]["caller"])
                if large:
                    return await call_in_thread(gateway.count_tokens, route, parsed.request)
                return gateway.count_tokens(route, parsed.request)
