"""The outermost ASGI layer: request ids, checks of host, origin and content type, direct routing to the endpoints
for replies, and errors of everything else."""

import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from app.api.asgi import Receive, Scope, send_error
from app.api.origins import OriginRules, check_content_type, cors_headers, preflight_headers
from app.errors import (
    HostNotAllowed,
    Internal,
    MethodNotAllowed,
    OriginNotAllowed,
    WrongMediaType,
)
from app.formats.base import WriteError, wrap_error
from app.observe.logs import log_plain_request

App: TypeAlias = Callable[[dict[str, Any], Any, Any], Awaitable[None]]

log = logging.getLogger("parley.edge")

_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


def choose_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the client's own request id if it has only safe characters, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return value.decode()
    return f"req-{os.urandom(16).hex()}"


_READ = frozenset((b"host", b"origin", b"content-type"))
_WITHOUT_BODY = frozenset(("GET", "HEAD", "OPTIONS", "DELETE"))


class DirectEndpoint(Protocol):
    """An endpoint that serves the POST requests of its path without FastAPI, and writes their log lines."""

    write_error: WriteError
    """Writes the errors that are found before the request's own format is known."""

    async def __call__(self, scope: Scope, receive: Receive, send: Any) -> None: ...


class RequestIdMiddleware:
    """Gives each request an id, and passes it to the endpoint of its path in `direct`, or to FastAPI.

    It refuses hosts, origins and content types that `rules` do not allow, and writes the log lines of the requests that
    FastAPI serves.
    """

    def __init__(self, app: App, direct: Mapping[str, DirectEndpoint], rules: OriginRules) -> None:
        self._app = app
        self._direct = direct
        self._rules = rules

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        read = {name: value for name, value in headers if name in _READ}
        id_ = choose_request_id(headers)
        state = scope["state"] = {**scope.get("state", {}), "request_id": id_}
        lines = [(b"x-request-id", id_.encode())]
        started = time.perf_counter()
        status = 0

        def tagged(message: dict[str, Any]) -> Any:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *lines]
            return send(message)

        endpoint = self._direct.get(scope["path"])
        write_error = endpoint.write_error if endpoint is not None else wrap_error
        logs_itself = False
        origin = read.get(b"origin")
        try:
            self._check(scope["method"], read)
            if origin is not None and self._rules.is_configured(origin):
                lines += cors_headers(origin)
            if origin is not None and scope["method"] == "OPTIONS" and len(lines) > 1:
                del lines[1:]
                await _send_empty(tagged, 204, preflight_headers(origin, headers))
            elif endpoint is None:
                await self._app(scope, receive, tagged)
            elif scope["method"] == "POST":
                logs_itself = True
                await endpoint(scope, receive, tagged)
            else:
                raise MethodNotAllowed(f"{scope['path']} accepts POST, not {scope['method']}", "POST")
        except (MethodNotAllowed, HostNotAllowed, OriginNotAllowed, WrongMediaType) as error:
            state["error_code"] = error.code
            await send_error(tagged, error, id_, write_error)
        except Exception:
            log.exception("request %s: defect", id_)
            state["error_code"] = Internal.code
            if status:
                raise
            await send_error(tagged, Internal("the gateway failed"), id_, write_error)
        finally:
            if not logs_itself:
                seconds = time.perf_counter() - started
                log_plain_request(id_, scope["method"], scope["path"], status, state.get("error_code"), seconds)

    def _check(self, method: str, read: Mapping[bytes, bytes]) -> None:
        """Check host, origin and content type. Raises HostNotAllowed, OriginNotAllowed or WrongMediaType."""
        origin, host = read.get(b"origin"), read.get(b"host")
        if origin is not None:
            self._rules.check_origin(origin, host)
        elif host is not None:
            self._rules.check_host(host)
        if method not in _WITHOUT_BODY:
            content_type = read.get(b"content-type")
            if content_type != b"application/json":
                check_content_type(content_type, from_browser=origin is not None)


async def _send_empty(send: Any, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
