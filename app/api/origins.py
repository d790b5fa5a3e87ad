"""Check the `Host`, `Origin` and `Content-Type` of a request.

A web page can make its visitor's browser send requests to a gateway that only this visitor's machine or network can
reach. Three checks stop that. `Host` must be a name of this gateway: after DNS rebinding it is the name of the web
page's server. `Origin`, which browsers add, must be allowed. The content type must be JSON, or that of a form where a
path takes files: a page of another origin can send JSON only after a CORS preflight.

A gateway on a loopback address accepts only loopback names. A gateway on a network may have names that it cannot know,
so without `allowed_hosts` it accepts every name in a request without `Origin`, which no browser sent. With an `Origin`,
the host must be an IP address, a name without a dot, or configured: an attacker cannot register such a name.
"""

from collections.abc import Sequence
from ipaddress import ip_address

from app.access.addresses import is_loopback
from app.endpoints.kinds import MULTIPART_PATHS
from app.errors import HostNotAllowed, OriginNotAllowed, WrongMediaType

MAX_KNOWN_HOSTS = 256
"""How many allowed hosts are cached, so that they are not checked again with every request."""
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_EXPOSED_HEADERS = ", ".join(
    (
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "request-id",
        "x-request-id",
        "x-parley-response-id",
        "x-parley-cache",
        "x-parley-route",
        "x-parley-attempts",
        "x-parley-guards",
        "x-parley-usage-estimated",
        "x-parley-warnings",
        *(f"x-ratelimit-{what}-{unit}" for unit in ("requests", "tokens") for what in ("limit", "remaining", "reset")),
    )
).encode()

Headers = list[tuple[bytes, bytes]]


class OriginRules:
    def __init__(self, bound: str, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        """`bound` is the address at which the gateway listens; `hosts` and `origins` are `server.allowed_hosts` and
        `server.allowed_origins`."""
        self._bound = bound.strip("[]").rstrip(".").lower()
        self._local = is_loopback(self._bound)
        self._hosts = tuple(hosts)
        self._origins = frozenset(origins)
        self._known: set[bytes] = set()

    def check_host(self, host: bytes) -> None:
        """Check the host of a request without an origin. Raises HostNotAllowed."""
        if host in self._known:
            return
        if not self._trusts(_parse_host(host)) and (self._local or self._hosts):
            raise HostNotAllowed(_host_error_message(host))
        if len(self._known) < MAX_KNOWN_HOSTS:
            self._known.add(host)

    def check_origin(self, origin: bytes, host: bytes | None) -> None:
        """Check the origin and the host of a browser's request. Raises HostNotAllowed or OriginNotAllowed."""
        if host is not None and not self._trusts(_parse_host(host)):
            raise HostNotAllowed(_host_error_message(host))
        text = origin.decode("latin-1").lower()
        if self.is_configured(origin):
            return
        scheme, _, authority = text.partition("://")
        name = _parse_host(authority.encode("latin-1"))
        if scheme in _DEFAULT_PORTS and (is_loopback(name) or name == self._bound):
            return
        if host is not None and _without_default_port(authority, scheme) == _without_default_port(
            host.decode("latin-1").lower(), scheme
        ):
            return
        raise OriginNotAllowed(
            f"web pages of {text[:200]!r} may not use this gateway; its operator can add that origin to "
            "server.allowed_origins"
        )

    def is_configured(self, origin: bytes) -> bool:
        """Whether pages of this origin may also read the responses (CORS)."""
        return "*" in self._origins or origin.decode("latin-1").lower() in self._origins

    def _trusts(self, name: str) -> bool:
        """Whether an attacker cannot have made this name resolve to this gateway."""
        if is_loopback(name) or name == self._bound or any(_matches(name, pattern) for pattern in self._hosts):
            return True
        return not self._local and bool(name) and (_is_address(name) or "." not in name)


def is_form(path: str, content_type: bytes | None) -> bool:
    """Whether a body is a form with files, at a path that takes one."""
    return path in MULTIPART_PATHS and (content_type or b"").lower().startswith(b"multipart/form-data")


def check_content_type(content_type: bytes | None, path: str, *, from_browser: bool) -> None:
    """Check that a body is JSON, or a form at a path that takes one; only browsers must send the header. Raises
    WrongMediaType."""
    if (content_type is None and not from_browser) or is_form(path, content_type):
        return
    given = (content_type or b"").decode("latin-1")
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        actual = f"it is {given[:100]!r}" if content_type is not None else "it is missing"
        raise WrongMediaType(f"the header content-type must be application/json, but {actual}")


def cors_headers(origin: bytes) -> Headers:
    """Return the headers that let a page of this origin read the response."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED_HEADERS),
        (b"vary", b"origin"),
    ]


def preflight_headers(origin: bytes, headers: Headers) -> Headers:
    """Return the headers of the answer to a CORS preflight."""
    requested = b", ".join(value for name, value in headers if name == b"access-control-request-headers")
    answer = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", requested or b"content-type"),
        (b"access-control-max-age", b"600"),
        (b"vary", b"origin, access-control-request-headers"),
        (b"content-length", b"0"),
    ]
    if any(name == b"access-control-request-private-network" for name, _ in headers):
        answer.append((b"access-control-allow-private-network", b"true"))
    return answer


def _host_error_message(host: bytes) -> str:
    return (
        f"this gateway does not serve the host {host.decode('latin-1')[:200]!r}; its operator can add that name to "
        "server.allowed_hosts"
    )


def _parse_host(host: bytes) -> str:
    """Return the host without port, brackets and a final dot; "" if it is not a valid host."""
    text = host.decode("latin-1").strip().lower()
    if text.startswith("["):
        inside, _, after = text[1:].partition("]")
        return inside if _is_address(inside) and (not after or after[1:].isdigit()) else ""
    name, _, port = text.partition(":")
    if port and not port.isdigit():
        return ""
    return name.removesuffix(".") if all(part.isalnum() or part in "-._" for part in name) else ""


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return name.endswith(pattern[1:])
    return pattern in ("*", name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _without_default_port(authority: str, scheme: str) -> str:
    return authority.removesuffix(":" + _DEFAULT_PORTS.get(scheme, "-"))
