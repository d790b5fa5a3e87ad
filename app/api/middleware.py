"""The one middleware: it gives every request its id, checks it, answers its errors and writes its log line.

A request for a reply is logged and counted by its `RequestRecord` instead of a line of its own here.
"""

import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from starlette.routing import Match, Route, WebSocketRoute

from app.access import ANONYMOUS, Caller, KeyRing
from app.access.addresses import NO_PROXIES, TrustedProxies
from app.access.caller import KeysOutdated
from app.access.key_ring import KEY_HEADERS
from app.access.users import find_header_user
from app.api.asgi import ClientDisconnected, Scope, send_error
from app.api.origins import OriginRules, check_content_type, cors_headers, preflight_headers
from app.api.response_writer import find_offered_writer
from app.errors import (
    Forbidden,
    HostNotAllowed,
    Internal,
    InvalidApiKey,
    MethodNotAllowed,
    OriginNotAllowed,
    ParleyError,
    WrongMediaType,
)
from app.formats.base import WriteError, wrap_error
from app.formats.gemini import GEMINI
from app.formats.gemini.paths import KEY_HEADER, find_key, is_gemini_request
from app.observe.logs import log_plain_request
from app.observe.request_record import DISCONNECTED_CODE, DISCONNECTED_STATUS

App: TypeAlias = Callable[[dict[str, Any], Any, Any], Awaitable[None]]

log = logging.getLogger("parley.edge")

_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_OPEN_PATHS = frozenset(("/", "/api/hello", "/healthz", "/readyz", "/openapi.json", "/docs"))
"""These need no API key: load balancers have none, and the pages are the same on every gateway."""
_OPEN_FOLDERS = ("/docs/", "/playground/")
_ADMIN_PATHS = frozenset(("/metrics",))
_API_PATHS = ("/v1/", "/metrics")
"""These name all callers and models, so they need a key with `admin = true` as soon as there are keys."""
_WITHOUT_BODY = frozenset(("GET", "HEAD", "OPTIONS", "DELETE"))
_ANTHROPIC_PATH = "/v1/messages"
"""Every response below it has the header `request-id`, which Anthropic's SDKs read, beside `x-request-id`."""
_REFUSALS = (MethodNotAllowed, HostNotAllowed, OriginNotAllowed, WrongMediaType, InvalidApiKey, Forbidden)
"""The log line of a request that was refused for one of these has the client's address."""

UNKNOWN_ROUTE = "other"
"""The route of a request to no known path."""

ObservePlainRequest: TypeAlias = Callable[[str, int, str | None], None]
"""Called at the end of a request that has no RequestRecord: with its route, its status and its error code."""


def choose_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the client's own request id if it has only safe characters, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return value.decode()
    return make_request_id()


def make_request_id() -> str:
    return f"req-{os.urandom(16).hex()}"


class RequestRules(Struct, frozen=True):
    """What is checked in every request."""

    origins: OriginRules
    keys: KeyRing | None = None
    """None: the gateway has no API keys, and serves everyone."""
    proxies: TrustedProxies = NO_PROXIES
    base_path: str = ""
    """The prefix of every path, such as `/parley`, which a proxy did not remove. Paths without it are served too."""
    error_writers: Mapping[str, WriteError] = {}
    """The formats of errors by the path; of the longest path with which a request's path begins. The default is the
    gateway's own."""

    def find_error_writer(self, scope: Scope) -> WriteError:
        path, state = scope["path"], scope.get("state", {})
        if is_gemini_request(scope["method"], path, scope["query_string"], state.get("headers", {})):
            return GEMINI.error
        found = [prefix for prefix in self.error_writers if path == prefix or path.startswith(prefix + "/")]
        return self.error_writers[max(found, key=len)] if found else wrap_error


class _HeaderSender:
    """An ASGI `send` that adds headers to the response, and keeps its status. What the API answers is stored by no
    proxy or browser, unless its endpoint says otherwise: it is for one caller, and changes."""

    def __init__(self, send: Any, headers: list[tuple[bytes, bytes]], path: str) -> None:
        self._send = send
        self._headers = headers
        self._is_api = path.startswith(_API_PATHS)
        self.status = 0
        """0 before the response starts."""

    def __call__(self, message: dict[str, Any]) -> Any:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = [*message.get("headers", ())]
            if self._is_api and all(name.lower() != b"cache-control" for name, _ in own):
                own.append((b"cache-control", b"no-store"))
            message["headers"] = [*own, *self._headers]
        return self._send(message)


class _SocketSender:
    """An ASGI `send` of a socket that keeps the status of the handshake."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.status = 0
        """0 before the handshake is answered."""

    def __call__(self, message: dict[str, Any]) -> Any:
        if not self.status:
            kind = message["type"]
            self.status = message.get("status", 101 if kind == "websocket.accept" else 403)
        return self._send(message)


class RequestMiddleware:
    """Applications inside it find in `scope["state"]`: the `request_id`, the `caller`, the `headers` as a
    dictionary, the list `response_headers`, and the `writer` that the server offers, or None.

    An endpoint whose requests have a RequestRecord sets `recorded`. One that answers an error itself sets `error_code`.
    Every other ParleyError that the application raises is answered here, in the format of its path.
    """

    def __init__(
        self, app: App, get_rules: Callable[[], RequestRules], observe: ObservePlainRequest | None = None
    ) -> None:
        """`get_rules` returns the present rules: a reload of the configuration replaces them."""
        self._app = app
        self._get_rules = get_rules
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        rules = self._get_rules()
        if rules.base_path and not await _remove_prefix(scope, rules.base_path, send):
            return
        began = time.perf_counter()
        lines = _begin(scope, rules)
        state = scope["state"]
        id_, headers, writer = state["request_id"], state["headers"], find_offered_writer(scope)
        state["writer"] = writer
        if writer is not None:
            writer.extra_headers = lines
        sender = _HeaderSender(send, lines, scope["path"])
        client = ""
        try:
            _check(scope, headers, rules)
            if scope["method"] == "OPTIONS" and _is_preflight(headers, rules):
                del lines[1:]
                await _send_empty(sender, 204, preflight_headers(headers[b"origin"], scope["headers"]))
            else:
                await authenticate(scope, rules.keys)
                await self._app(scope, receive, sender)
        except ClientDisconnected:
            state["error_code"], sender.status = DISCONNECTED_CODE, DISCONNECTED_STATUS
        except Exception as raised:
            # No other variable of this frame may hold the error: its traceback holds this frame, and what was read of
            # the request would stay in memory until the garbage collector looks for such cycles.
            state["error_code"] = _to_parley_error(raised).code
            if isinstance(raised, _REFUSALS):
                client = self._find_client(scope)
            elif not isinstance(raised, ParleyError):
                log.exception("request %s: defect", id_)
            if sender.status or (writer is not None and writer.response_started):
                raise
            write_error = self._get_rules().find_error_writer(scope)
            await send_error(sender, _to_parley_error(raised), id_, write_error)
        finally:
            if "recorded" not in state:
                self._report(scope, sender.status, time.perf_counter() - began, client)

    async def _serve_socket(self, scope: Scope, receive: Any, send: Any) -> None:
        """Check a handshake as any request. An error before it is accepted is an HTTP response."""
        rules, began = self._get_rules(), time.perf_counter()
        scope["method"] = "GET"  # ASGI has none for sockets
        if scope["path"].startswith(f"{rules.base_path}/"):
            scope["path"] = scope["path"][len(rules.base_path) :]
        _begin(scope, rules)
        state = scope["state"]
        state["writer"] = None
        sender = _SocketSender(send)
        client = self._find_client(scope)
        try:
            _check(scope, state["headers"], rules)
            await authenticate(scope, rules.keys)
            await self._app(scope, receive, sender)
        except Exception as raised:
            error = _to_parley_error(raised)
            state["error_code"] = error.code
            if not isinstance(raised, ParleyError):
                log.exception("socket %s: defect", state["request_id"])
            if not sender.status:
                await _deny_socket(scope, sender, error, rules.find_error_writer(scope))
        finally:
            self._report(scope, sender.status, time.perf_counter() - began, client if sender.status >= 400 else "")

    def _find_client(self, scope: Scope) -> str:
        """Return the address of the client, for the log."""
        peer = scope.get("client")
        return self._get_rules().proxies.find_client(peer[0], scope["headers"]) if peer else ""

    def _report(self, scope: Scope, status: int, seconds: float, client: str) -> None:
        """Log and count a request that has no RequestRecord."""
        state = scope["state"]
        code, key = state.get("error_code"), state["caller"].name
        log_plain_request(
            state["request_id"], scope["method"], scope["path"], status, code, seconds, key=key, client=client
        )
        if self._observe is not None:
            self._observe(_find_route(scope), status, code)


def _to_parley_error(error: Exception) -> ParleyError:
    return error if isinstance(error, ParleyError) else Internal("the gateway failed")


def _begin(scope: Scope, rules: RequestRules) -> list[tuple[bytes, bytes]]:
    """Set the state of the request, and return the headers that its response has in any case."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    read = dict(headers)
    id_ = choose_request_id(headers) if b"x-request-id" in read else make_request_id()
    lines = [(b"x-request-id", id_.encode())]
    scope["state"] = {
        **scope.get("state", {}),
        "request_id": id_,
        "caller": ANONYMOUS,
        "headers": read,
        "response_headers": lines,
    }
    if b"traceparent" in read:
        scope["state"]["traceparent"] = read[b"traceparent"]
    if b"origin" in read and rules.origins.is_configured(read[b"origin"]):
        lines += cors_headers(read[b"origin"])
    if scope["path"].startswith(_ANTHROPIC_PATH):
        lines.append((b"request-id", lines[0][1]))
    return lines


def _check(scope: Scope, headers: Mapping[bytes, bytes], rules: RequestRules) -> None:
    """Raises HostNotAllowed, OriginNotAllowed and WrongMediaType."""
    origin, host = headers.get(b"origin"), headers.get(b"host")
    if origin is not None:
        rules.origins.check_origin(origin, host)
    elif host is not None:
        rules.origins.check_host(host)
    if scope["method"] not in _WITHOUT_BODY:
        content_type = headers.get(b"content-type")
        if content_type != b"application/json":
            check_content_type(content_type, scope["path"], from_browser=origin is not None)


def _is_preflight(headers: Mapping[bytes, bytes], rules: RequestRules) -> bool:
    return b"origin" in headers and rules.origins.is_configured(headers[b"origin"])


async def authenticate(scope: Scope, keys: KeyRing | None) -> None:
    """Set the caller of a request to a path that needs an API key. Raises InvalidApiKey, Forbidden and StoreDown."""
    path = scope["path"]
    if keys is None or path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS):
        return
    headers = _with_query_key(scope)
    try:
        caller = keys.authenticate(headers)
    except KeysOutdated as error:
        caller = await _authenticate_again(headers, keys, error)
    if caller.users is not None and caller.users.source.place == "header":
        caller = caller.with_user(find_header_user(scope["state"]["headers"], caller.users.source))
    scope["state"]["caller"] = caller
    if path in _ADMIN_PATHS and not caller.admin:
        raise Forbidden(f"{path} needs an API key with admin = true")


def _with_query_key(scope: Scope) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers, with the key that a client of Google's API has in its query. One in a header counts more."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    key = find_key(scope["query_string"]) if scope["query_string"] else None
    read = scope["state"]["headers"]
    if key is None or not is_gemini_request(scope["method"], scope["path"], scope["query_string"], read):
        return headers
    if not KEY_HEADERS.isdisjoint(read):
        return headers
    return [*headers, (KEY_HEADER, key.encode("latin-1", "replace"))]


async def _authenticate_again(headers: Sequence[tuple[bytes, bytes]], keys: KeyRing, outdated: KeysOutdated) -> Caller:
    """Fetch the keys of a JWT's issuer, and return the caller if they are new and verify it."""
    if await outdated.refresh():
        try:
            return keys.authenticate(headers)
        except KeysOutdated as error:
            outdated = error
    raise outdated.answer


def _find_route(scope: Scope) -> str:
    """Return the pattern of the request's path, also if it was refused before its route was looked for."""
    route = scope.get("route")
    if route is None and "app" in scope:
        routes = (route for route in scope["app"].routes if isinstance(route, Route | WebSocketRoute))
        matches = [(route, route.matches(scope)[0]) for route in routes]
        found = [route for wanted in (Match.FULL, Match.PARTIAL) for route, match in matches if match is wanted]
        route = found[0] if found else None
    return getattr(route, "path", UNKNOWN_ROUTE)


async def _remove_prefix(scope: Scope, prefix: str, send: Any) -> bool:
    """Remove the prefix from the path of a request. The prefix alone is sent to the page below it, whose links are
    relative; then the result is False."""
    path: str = scope["path"]
    if path == prefix:
        await _send_empty(send, 307, [(b"location", f"{prefix}/".encode()), (b"content-length", b"0")])
        return False
    if path.startswith(f"{prefix}/"):
        scope["path"] = path[len(prefix) :]
        scope["raw_path"] = scope["raw_path"][len(prefix) :]
    return True


async def _send_empty(send: Any, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _deny_socket(scope: Scope, send: Any, error: ParleyError, write_error: WriteError) -> None:
    """Answer a handshake with an error; with 403 where the server offers nothing else."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return

    def send_part(message: dict[str, Any]) -> Any:
        return send({**message, "type": f"websocket.{message['type']}"})

    sender = _HeaderSender(send_part, scope["state"]["response_headers"], scope["path"])
    await send_error(sender, error, scope["state"]["request_id"], write_error)
