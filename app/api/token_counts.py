"""The endpoints that count the input tokens of a request. No model server is asked.

`POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from app.api.asgi import (
    LARGE_BYTES,
    Receive,
    Scope,
    call_in_thread,
    read_body,
    send_json,
    wait_for_parse_memory,
)
from app.api.chat import FindStored, find_route
from app.api.context import AppContext
from app.api.response_writer import Send
from app.chat.messages import ChatRequest, Tool
from app.formats.body import ParseBody, Parsed, ParsedRequest, RejectedRequest, UnresolvedRequest
from app.gateway import refuse_servers

T = TypeVar("T")


class TokenCountEndpoint(Generic[Parsed]):
    """A plain ASGI callable with the limits of the endpoints for replies."""

    def __init__(
        self,
        context: AppContext,
        parse: ParseBody[Parsed],
        find_stored: FindStored | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """`find_stored` is for requests that refer to what is stored. `fields` stand before the number."""
        self._context = context
        self._parse = parse
        self._find_stored = find_stored
        self._fields = fields or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, {**self._fields, "input_tokens": await self._count(scope, receive)})

    async def _count(self, scope: Scope, receive: Receive) -> int:
        """Raises ParleyError."""
        context, live = self._context, self._context.live
        server, gateway = live.settings.server, live.gateway
        with context.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease)
            with context.admission.try_enter() or await context.wait_for_place(scope, receive):
                await wait_for_parse_memory(raw, lease, server.max_json_values)
                large = len(raw) > LARGE_BYTES
                memory = context.open_request_memory(scope, raw)
                parsed = await _call(large, self._parse, raw, live.request_limits, memory)
                if isinstance(parsed, UnresolvedRequest):
                    assert self._find_stored is not None
                    stored = await self._find_stored(scope, lease, parsed)
                    large = large or stored.size > LARGE_BYTES
                    parsed = await _call(large, parsed.resolve, stored)
                if isinstance(parsed, RejectedRequest):
                    raise parsed.error
                model = await gateway.resolve_model(parsed.settings.model)
                caller = scope["state"]["caller"]
                route = find_route(gateway, model, caller)
                request = parsed.request
                if request.server_tools is not None or context.tools is not None:
                    request = await self._add_server_tools(parsed, caller.name, route.model)
                return await _call(large, gateway.count_tokens, route, request)

    async def _add_server_tools(self, parsed: ParsedRequest, key: str, model: str) -> ChatRequest:
        """Return the request with the tools that the gateway would offer. None is run. Raises ParleyError."""
        request, servers = parsed.request, self._context.tools
        asks = () if request.server_tools is None else request.server_tools.asks
        if servers is None:
            refuse_servers(asks)
        if servers is None or not (asks or servers.is_offered(model)):
            return request
        session = await servers.open(asks, key, model, approvable=parsed.reply_format.tells_approval)
        session.close()
        tools = [Tool(tool.name, tool.to_schema()) for listed in session.servers for tool in listed.tools]
        return replace(request, tools=(*tools, *request.tools), server_tools=None)


async def _call(large: bool, function: Callable[..., T], *arguments: object) -> T:
    """Call a function, in another thread if the request is large."""
    return await call_in_thread(function, *arguments) if large else function(*arguments)
