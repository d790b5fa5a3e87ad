"""The endpoint of `POST /v1/messages/count_tokens`: counts the input tokens of a request. No model is called."""

import time
from collections.abc import Callable

from app.api.asgi import (
    LARGE_BYTES,
    ClientDisconnected,
    Receive,
    Scope,
    call_in_thread,
    read_body,
    send_error,
    send_json,
    wait_for_parse_memory,
)
from app.api.chat import find_route
from app.api.context import AppContext
from app.api.response_writer import Send
from app.errors import ParleyError
from app.formats.base import WriteError, choose_status
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.request_limits import RequestLimits
from app.observe.logs import log_plain_request
from app.observe.request_record import DISCONNECTED_CODE, DISCONNECTED_STATUS


class TokenCountEndpoint:
    """A plain ASGI callable with the limits of the chat endpoints."""

    def __init__(
        self,
        context: AppContext,
        parse: Callable[[bytes | bytearray, RequestLimits], ParsedRequest | RejectedRequest],
        write_error: WriteError,
    ) -> None:
        self.write_error = write_error
        self.sends_request_id = True
        self._context = context
        self._parse = parse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id: str = scope["state"]["request_id"]
        began = time.perf_counter()
        status, error_code = 200, None
        try:
            await send_json(send, 200, {"input_tokens": await self._count(scope, receive)})
        except ParleyError as error:
            status, error_code = choose_status(self.write_error, error), error.code
            await send_error(send, error, request_id, self.write_error)
        except ClientDisconnected:
            status, error_code = DISCONNECTED_STATUS, DISCONNECTED_CODE
        finally:
            seconds = time.perf_counter() - began
            path, key = scope["path"], scope["state"]["caller"].name
            log_plain_request(request_id, scope["method"], path, status, error_code, seconds, key=key)

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
