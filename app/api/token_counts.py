"""The endpoints that count the input tokens of a request. A server of the client's own API is asked for a number.

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
    has_few_values,
    is_large,
    read_body,
    send_json,
    wait_for_parse_memory,
)
from app.api.chat import FindStored
from app.api.context import AppContext
from app.api.context_edits import edit_context, edits_itself
from app.api.end_users import name_user
from app.api.guarding import admit_locally, begin_counting
from app.api.model_rights import apply_rights, find_route
from app.api.open_replies import run_for_client
from app.api.own_bodies import read_passed_headers
from app.api.response_writer import Send
from app.chat.admitted import mark_admitted
from app.chat.messages import ChatRequest, Tool
from app.chat.server_tools import ToolSession
from app.errors import ParleyError, PolicyRefused
from app.formats.body import ParseBody, Parsed, ParsedRequest, RejectedRequest, UnresolvedRequest
from app.formats.request_memory import MIN_BYTES
from app.gateway import Gateway, refuse_foreign, refuse_servers, with_own_urls
from app.routing import ModelRoute
from app.runtime.memory_budget import Lease
from app.upstream.api import ApiName

T = TypeVar("T")


class TokenCountEndpoint(Generic[Parsed]):
    """A plain ASGI callable with the limits of the endpoints for replies."""

    def __init__(
        self,
        context: AppContext,
        parse: ParseBody[Parsed],
        find_stored: FindStored | None = None,
        fields: Mapping[str, Any] | None = None,
        *,
        asks_api: ApiName | None = None,
        write: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        """`find_stored` is for requests that refer to what is stored. `fields` stand before the number. A server of the
        API `asks_api` is asked for it. `write` writes the answer, which has the number as `input_tokens`."""
        self._write = write
        self._asks_api = asks_api
        self._context = context
        self._parse = parse
        self._find_stored = find_stored
        self._fields = fields or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, self._write({**self._fields, **await self._count(scope, receive)}))

    async def _count(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        """Return the answer with the number. Raises ParleyError."""
        context, live = self._context, self._context.live
        server, gateway = live.settings.server, live.gateway
        with context.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease)
            with context.admission.try_enter() or await context.wait_for_place(scope, receive):
                memory = context.open_request_memory(scope) if len(raw) >= MIN_BYTES else None
                large = is_large(raw, memory)
                if large or not has_few_values(raw, memory, server.max_json_values):
                    await wait_for_parse_memory(raw, lease, server.max_json_values, memory)
                try:
                    parsed = await _call(large, self._parse, raw, live.request_limits, memory)
                    if isinstance(parsed, UnresolvedRequest):
                        assert self._find_stored is not None
                        name_user(scope, parsed.user, parsed.metadata)
                        stored = await self._find_stored(scope, lease, parsed)
                        large = large or stored.size > LARGE_BYTES
                        parsed = await _call(large, parsed.resolve, stored)
                    found: ParsedRequest | None = parsed.passed if isinstance(parsed, RejectedRequest) else parsed
                    if isinstance(parsed, RejectedRequest) and (found is None or self._asks_api is None):
                        try:
                            raise parsed.error
                        finally:  # the error's traceback holds this frame, which must not hold the error
                            del parsed, found
                    assert found is not None
                    if memory is not None:
                        memory.remember()
                finally:
                    if memory is not None:
                        memory.refuse()
                model = await gateway.resolve_model(found.settings.model)
                caller = scope["state"]["caller"]
                route = find_route(gateway, model, caller)
                found = replace(found, request=apply_rights(found.request, caller))
                if route.rules is not None:
                    route = await self._choose_route(scope, found, route, large=large)
                found = self._serve_hosted(found, scope, route)
                if found.options.applied_edits is None or edits_itself(found.request, route):
                    return await self._count_conversation(scope, receive, found, route, lease, large=large)
                conversation, applied, _ = edit_context(found.request)
                edited = replace(found, request=conversation)
                count = await self._count_conversation(scope, receive, edited, route, lease, large=large)
                whole = count
                if applied:
                    whole = await self._count_conversation(scope, receive, found, route, lease, large=large)
                return {**count, "context_management": {"original_input_tokens": whole.get("input_tokens")}}

    async def _count_conversation(
        self, scope: Scope, receive: Receive, found: ParsedRequest, route: ModelRoute, lease: Lease, *, large: bool
    ) -> dict[str, Any]:
        """Raises ParleyError, and ClientDisconnected if the client leaves before its server has answered."""
        gateway, request = self._context.live.gateway, found.request
        if self._asks_api is not None and route.deployments[0].target.api == self._asks_api:
            asked = await run_for_client(receive, self._ask(scope, gateway, found, route, lease))
            if asked is not None:
                return asked
        if isinstance(request.refusal, ParleyError):
            raise request.refusal
        refuse_foreign(request.source)
        if request.server_tools is not None or self._context.tools is not None:
            request = await self._add_server_tools(found, scope["state"]["caller"].name, route.model)
        return {"input_tokens": await _call(large, gateway.count_tokens, route, request)}

    def _serve_hosted(self, found: ParsedRequest, scope: Scope, route: ModelRoute) -> ParsedRequest:
        """Return the request with the searches that the gateway would run. Raises ParleyError."""
        tools = found.request.server_tools
        if tools is None or not (tools.hosted or tools.asks):
            return found
        from app.api.hosted_tools import serve_hosted  # few requests offer a search

        state = scope["state"]
        return serve_hosted(found, self._context.tools, state["caller"].name, route, state["headers"])

    async def _choose_route(self, scope: Scope, found: ParsedRequest, route: ModelRoute, *, large: bool) -> ModelRoute:
        """Return the route of the model that would answer for a virtual one. Raises ParleyError."""
        from app.api.route_choice import choose_route  # few gateways have virtual models

        context, endpoint = self._context, self._asks_api or found.reply_format.name
        chosen = await choose_route(context, context.live.gateway, scope, found, route, endpoint=endpoint, large=large)
        return chosen.route

    async def _ask(
        self, scope: Scope, gateway: Gateway, parsed: ParsedRequest, route: ModelRoute, lease: Lease
    ) -> dict[str, Any] | None:
        """Return the answer of the model's server; None if it does not count. Raises ParleyError."""
        context, request = self._context, parsed.request
        guard = None if context.live.guards is None else begin_counting(context, scope, parsed, route)
        if guard is not None:
            guard.check_readable(request)
        if context.tools is not None:
            added = await self._add_server_tools(parsed, scope["state"]["caller"].name, route.model)
            if added is not request:
                request = replace(added, source=None, passed=None)
        if request.source is not None or request.passed is not None:
            request = with_own_urls(replace(request, server_tools=None), read_passed_headers(scope))
        admitted = mark_admitted(request) if guard is None else await admit_locally(guard, request)
        if admitted is None:
            return None
        try:
            return await gateway.ask_token_count(route, admitted, lease.take, context.sharer_id(scope))
        except PolicyRefused:  # of the text of a file
            return None

    async def _add_server_tools(self, parsed: ParsedRequest, key: str, model: str) -> ChatRequest:
        """Return the request with the tools that the gateway would offer. None is run. Raises ParleyError."""
        request, servers = parsed.request, self._context.tools
        given = request.server_tools
        asks = () if given is None else given.asks
        hosted = given is not None and given.hosted is not None
        if servers is None:
            refuse_servers(asks)
        if servers is None or not (asks or hosted or servers.is_offered(model)):
            return request
        session: ToolSession = await servers.open(asks, key, model, approvable=parsed.reply_format.tells_approval)
        if hosted:
            from app.api.hosted_tools import add_hosted

            session = add_hosted(servers, session, request, model, self._context.live.gateway)
        session.close()
        offered = [tool for listed in session.servers for tool in listed.tools if not tool.waits]
        tools = [Tool(tool.name, tool.to_schema()) for tool in offered]
        return replace(request, tools=(*tools, *request.tools), server_tools=None)


async def _call(large: bool, function: Callable[..., T], *arguments: object) -> T:
    """Call a function, in another thread if the request is large."""
    return await call_in_thread(function, *arguments) if large else function(*arguments)
