"""The outermost ASGI layers: request ids, checks of host, origin and content type, and the errors of defects.

`DirectRoutes` serves the endpoints for replies, `RequestIdMiddleware` stands before all others.
"""

import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from app.access import ANONYMOUS, KeyRing
from app.access.addresses import NO_PROXIES, TrustedProxies
from app.api.asgi import Receive, Scope, send_error
from app.api.origins import OriginRules, check_content_type, cors_headers, preflight_headers
from app.api.response_writer import find_offered_writer
from app.errors import (
    Forbidden,
    HostNotAllowed,
    Internal,
    InvalidApiKey,
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
    return make_request_id()


def make_request_id() -> str:
    return f"req-{os.urandom(16).hex()}"


_OPEN_PATHS = frozenset(("/", "/healthz", "/readyz", "/openapi.json", "/docs"))
"""These need no API key: load balancers have none, and the pages are the same on every gateway."""
_OPEN_FOLDERS = ("/docs/", "/playground/")
_ADMIN_PATHS = frozenset(("/metrics",))
"""These name all callers and models, so they need a key with `admin = true` as soon as there are keys."""
_WITHOUT_BODY = frozenset(("GET", "HEAD", "OPTIONS", "DELETE"))


UNKNOWN_ROUTE = "other"
"""The route of a request to no known path, or that was refused before its route was looked for."""


class DirectEndpoint(Protocol):
    """An endpoint that serves the POST requests of its path without FastAPI, and writes their log lines."""

    write_error: WriteError
    """Writes the errors that are found before the request's own format is known."""
    sends_request_id: bool
    """Every response has the header `request-id`, which Anthropic's SDKs read, beside `x-request-id`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Any) -> None: ...


ObservePlainRequest: TypeAlias = Callable[[str, int, str | None], None]
"""Called at the end of a request that has no RequestRecord: with its route, its status and its error code."""


class RequestRules(Struct, frozen=True):
    """What is checked in every request."""

    origins: OriginRules
    keys: KeyRing | None = None
    """None: the gateway has no API keys, and serves everyone."""
    proxies: TrustedProxies = NO_PROXIES
    error_writers: Mapping[str, WriteError] = {}
    """The formats of errors by the path; of the longest path with which a request's path begins. The default is the
    gateway's own."""

    observe_plain: ObservePlainRequest | None = None

    def find_error_writer(self, path: str) -> WriteError:
        found = [prefix for prefix in self.error_writers if path == prefix or path.startswith(prefix + "/")]
        return self.error_writers[max(found, key=len)] if found else wrap_error


class _RequestChecks:
    """The first steps of every request: its id, and the checks of host, origin and content type."""

    def __init__(self, get_rules: Callable[[], RequestRules]) -> None:
        """`get_rules` returns the present rules: a reload of the configuration replaces them."""
        self._get_rules = get_rules

    def _begin(self, scope: Scope, rules: RequestRules) -> tuple[str, dict[bytes, bytes], list[tuple[bytes, bytes]]]:
        """Return the id of the request, its headers, and those that every response has."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        read = dict(headers)
        id_ = choose_request_id(headers) if b"x-request-id" in read else make_request_id()
        lines = [(b"x-request-id", id_.encode())]
        scope["state"] = {
            **scope.get("state", {}),
            "request_id": id_,
            "caller": ANONYMOUS,
            "response_headers": lines,
            "headers": read,
        }
        if b"traceparent" in read:
            scope["state"]["traceparent"] = read[b"traceparent"]
        if b"origin" in read and rules.origins.is_configured(read[b"origin"]):
            lines += cors_headers(read[b"origin"])
        return id_, read, lines

    def _check(self, method: str, read: Mapping[bytes, bytes], rules: RequestRules) -> None:
        """Raises HostNotAllowed, OriginNotAllowed and WrongMediaType."""
        origin, host = read.get(b"origin"), read.get(b"host")
        if origin is not None:
            rules.origins.check_origin(origin, host)
        elif host is not None:
            rules.origins.check_host(host)
        if method not in _WITHOUT_BODY:
            content_type = read.get(b"content-type")
            if content_type != b"application/json":
                check_content_type(content_type, from_browser=origin is not None)

    def _find_client(self, scope: Scope) -> str:
        """Return the address of the client, for the log."""
        peer = scope.get("client")
        return self._get_rules().proxies.find_client(peer[0], scope["headers"]) if peer else ""


def _is_preflight(method: str, read: Mapping[bytes, bytes], rules: RequestRules) -> bool:
    return method == "OPTIONS" and b"origin" in read and rules.origins.is_configured(read[b"origin"])


class _HeaderSender:
    """An ASGI `send` that adds headers to the response, and keeps its status."""

    def __init__(self, send: Any, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.status = 0
        """0 before the response starts."""

    def __call__(self, message: dict[str, Any]) -> Any:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers]
        return self._send(message)


class DirectRoutes(_RequestChecks):
    """Serves the endpoints for replies without FastAPI."""

    def __init__(self, get_rules: Callable[[], RequestRules], endpoints: Mapping[str, DirectEndpoint]) -> None:
        super().__init__(get_rules)
        self._endpoints = endpoints

    def find(self, scope: Scope) -> DirectEndpoint | None:
        """Return the endpoint of a path, which may end with a slash: some clients add one."""
        if scope["type"] != "http":
            return None
        path: str = scope["path"]
        return self._endpoints.get(path) or self._endpoints.get(path.removesuffix("/"))

    async def serve(self, endpoint: DirectEndpoint, scope: Scope, receive: Receive, send: Any) -> None:
        rules = self._get_rules()
        id_, read, lines = self._begin(scope, rules)
        if endpoint.sends_request_id:
            lines.append((b"request-id", lines[0][1]))
        writer = scope["state"]["writer"] = find_offered_writer(scope)
        if writer is not None:
            writer.extra_headers = lines
        sender = _HeaderSender(send, lines)
        method, error_code, client = scope["method"], None, ""
        began = time.perf_counter()
        try:
            self._check(method, read, rules)
            if method == "POST":
                if rules.keys is not None:
                    scope["state"]["caller"] = rules.keys.authenticate(scope["headers"])
                await endpoint(scope, receive, sender)
                return
            if _is_preflight(method, read, rules):
                del lines[1:]
                await _send_empty(sender, 204, preflight_headers(read[b"origin"], scope["headers"]))
            else:
                raise MethodNotAllowed(f"{scope['path']} accepts POST, not {method}", "POST")
        except _REFUSALS as error:
            error_code, client = error.code, self._find_client(scope)
            await send_error(sender, error, id_, endpoint.write_error)
        except Exception:
            log.exception("request %s: defect", id_)
            if sender.status or (writer is not None and writer.response_started):
                raise
            await send_error(sender, Internal("the gateway failed"), id_, endpoint.write_error)
            return
        seconds = time.perf_counter() - began
        log_plain_request(id_, method, scope["path"], sender.status, error_code, seconds, client=client)
        observe = self._get_rules().observe_plain
        if observe is not None:
            observe(scope["path"], sender.status, error_code)


class RequestIdMiddleware(_RequestChecks):
    """Takes these steps for the requests that FastAPI serves, and writes their log lines."""

    def __init__(self, app: App, get_rules: Callable[[], RequestRules]) -> None:
        super().__init__(get_rules)
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rules = self._get_rules()
        id_, read, lines = self._begin(scope, rules)
        state = scope["state"]
        began = time.perf_counter()
        sender = _HeaderSender(send, lines)
        client = ""
        try:
            self._check(scope["method"], read, rules)
            if _is_preflight(scope["method"], read, rules):
                del lines[1:]
                await _send_empty(sender, 204, preflight_headers(read[b"origin"], scope["headers"]))
            else:
                self._authenticate(scope, rules.keys)
                await self._app(scope, receive, sender)
        except _REFUSALS as error:
            state["error_code"], client = error.code, self._find_client(scope)
            await send_error(sender, error, id_, self._get_rules().find_error_writer(scope["path"]))
        except Exception:
            log.exception("request %s: defect", id_)
            state["error_code"] = Internal.code
            if sender.status:
                raise
            await send_error(sender, Internal("the gateway failed"), id_)
        finally:
            seconds = time.perf_counter() - began
            code = state.get("error_code")
            path, key = scope["path"], state["caller"].name
            log_plain_request(id_, scope["method"], path, sender.status, code, seconds, key=key, client=client)
            observe = self._get_rules().observe_plain
            if observe is not None:
                # FastAPI sets the route only of its own endpoints
                route = scope.get("route") or scope.get("endpoint")
                observe(getattr(route, "path", UNKNOWN_ROUTE), sender.status, code)

    def _authenticate(self, scope: Scope, keys: KeyRing | None) -> None:
        """Set the caller of a request to a path that needs an API key. Raises InvalidApiKey and Forbidden."""
        path = scope["path"]
        if keys is None or path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS):
            return
        caller = scope["state"]["caller"] = keys.authenticate(scope["headers"])
        if path in _ADMIN_PATHS and not caller.admin:
            raise Forbidden(f"{path} needs an API key with admin = true")


_REFUSALS = (MethodNotAllowed, HostNotAllowed, OriginNotAllowed, WrongMediaType, InvalidApiKey, Forbidden)


async def _send_empty(send: Any, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
