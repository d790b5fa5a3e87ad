"""`POST /v1/responses/input_tokens`: counts the tokens of a request. No model server is asked."""

from app.api.asgi import (
    Receive,
    Scope,
    call_in_thread,
    read_body,
    send_json,
    wait_for_parse_memory,
)
from app.api.chat import find_route
from app.api.context import AppContext
from app.api.live_configuration import request_limits
from app.api.response_writer import Send
from app.formats.body import RejectedRequest, UnresolvedRequest
from app.formats.responses.body import parse_responses_body
from app.responses_api.record import InputMemory, StoredResponses


class InputTokensEndpoint:
    def __init__(self, context: AppContext, stored: StoredResponses) -> None:
        self._context = context
        self._stored = stored
        self._limits = request_limits(context.server)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context, server = self._context, self._context.server
        with context.budget.lease() as lease:
            raw = await read_body(scope, receive, server.max_body_bytes, server.body_seconds, lease)
            with context.admission.try_enter() or await context.wait_for_place(scope, receive):
                await wait_for_parse_memory(raw, lease, server.max_json_values)
                parsed = await call_in_thread(parse_responses_body, raw, self._limits)
                if isinstance(parsed, UnresolvedRequest):
                    caller, memory = context.caller_id(scope), InputMemory(lease, server)
                    found = await self._stored.find(caller, parsed.response_id, parsed.item_ids, memory)
                    parsed = await call_in_thread(parsed.resolve, found)
                if isinstance(parsed, RejectedRequest):
                    raise parsed.error
                model = await context.gateway.resolve_model(parsed.settings.model)
                route = find_route(context.gateway, model, scope["state"]["caller"])
                tokens = await call_in_thread(context.gateway.count_tokens, route, parsed.request)
                await send_json(send, 200, {"object": "response.input_tokens", "input_tokens": tokens})
