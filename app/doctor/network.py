"""Check the way to a server step by step: the name, the connection, TLS, the clock."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
from msgspec import Struct

from app.access.addresses import is_loopback
from app.doctor.findings import Finding
from app.upstream import causes
from app.upstream.causes import Cause
from app.upstream.http.options import DEFAULT_OPTIONS, ConnectionOptions, make_ssl_context

MIN_CERTIFICATE_DAYS = 14
MAX_CLOCK_SECONDS = 60
_MAX_SHOWN = 4


class _Way(Struct, frozen=True):
    """The address of a server and the limits of each step."""

    subject: str
    scheme: str
    host: str
    port: int
    seconds: float
    context: ssl.SSLContext | None
    socket_path: str | None = None
    """The Unix socket that is used instead of host and port."""

    def make_finding(self, check: str, message: str) -> Finding:
        return Finding(self.subject, check, "ok", message)

    def make_problem(self, check: str, cause: Cause, message: str = "", advice: str = "") -> Finding:
        return Finding(self.subject, check, "problem", message or cause.text, advice or cause.advice)


async def check_way(subject: str, base_url: str, options: ConnectionOptions, seconds: float) -> list[Finding]:
    """Return the findings in the order of the steps; a problem is the last one. Each step takes at most `seconds`.

    Behind a proxy only the way to the proxy is checked, because the proxy finds the server.
    """
    url = httpx.URL(base_url)
    steps = [_check_name, _check_connection, _check_tls, _check_clock]
    if options.socket_path is not None:
        way = _Way(subject, url.scheme, options.socket_path, 0, seconds, None, options.socket_path)
        steps = [_check_connection]
    elif options.proxy is not None:
        scheme, host, port, _ = options.proxy
        context = make_ssl_context(DEFAULT_OPTIONS) if scheme == "https" else None
        way = _Way(f"{subject} through the proxy {host}:{port}", scheme, host, port, seconds, context)
        steps = [_check_name, _check_connection, _check_tls]
    else:
        # The same trust as the gateway's own connections.
        context = make_ssl_context(options) if url.scheme == "https" else None
        port = url.port or (443 if url.scheme == "https" else 80)
        way = _Way(subject, url.scheme, url.raw_host.decode("ascii"), port, seconds, context)
    findings: list[Finding] = []
    for step in steps:
        findings += await step(way)
        if any(finding.status == "problem" for finding in findings):
            break
    return findings


async def _check_name(way: _Way) -> list[Finding]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(way.seconds):
            rows = await loop.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return [way.make_problem("dns", causes.NAME_NOT_FOUND, f"no answer for {way.host} within {way.seconds:g} s")]
    except (OSError, UnicodeError):
        return [way.make_problem("dns", causes.NAME_NOT_FOUND, f"the name {way.host} is not found")]
    addresses = list(dict.fromkeys(str(row[4][0]) for row in rows))
    if addresses == [way.host]:
        return []
    shown = ", ".join(addresses[:_MAX_SHOWN]) + (", …" if len(addresses) > _MAX_SHOWN else "")
    return [way.make_finding("dns", f"{way.host} is {shown}")]


async def _check_connection(way: _Way) -> list[Finding]:
    started = time.monotonic()
    where = f"port {way.port}" if way.socket_path is None else f"the socket {way.socket_path}"
    try:
        async with _open_connection(way, None):
            milliseconds = (time.monotonic() - started) * 1000
    except TimeoutError:
        text = f"no connection to {where} within {way.seconds:g} s"
        return [way.make_problem("tcp", causes.CONNECT_TIMEOUT, text, _advise(way, causes.CONNECT_TIMEOUT))]
    except OSError as error:
        cause = causes.find_connect_cause(error, tls=False)
        return [way.make_problem("tcp", cause, f"{where}: {cause.text}", _advise(way, cause))]
    return [way.make_finding("tcp", f"{where} answers in {milliseconds:.0f} ms")]


def _advise(way: _Way, cause: Cause) -> str:
    advice = [cause.advice]
    if is_loopback(way.host) and Path("/.dockerenv").exists():
        advice.append("in a container this address is the container itself: name the host or the other container")
    return "; ".join(advice)


async def _check_tls(way: _Way) -> list[Finding]:
    if way.context is None:
        return []
    try:
        async with _open_connection(way, way.context) as writer:
            certificate = writer.get_extra_info("peercert") or {}
            version = writer.get_extra_info("ssl_object").version()
    except TimeoutError:
        text = f"no TLS handshake within {way.seconds:g} s"
        return [way.make_problem("tls", causes.TLS_FAILED, text)]
    except OSError as error:
        cause = causes.find_connect_cause(error, tls=True)
        names = await _read_names(way) if cause is causes.TLS_HOST else ""
        return [way.make_problem("tls", cause, f"{cause.text}{names}")]
    days = int((ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()) / 86400)
    text = f"{version}; the certificate is valid for {days} more days"
    if days < MIN_CERTIFICATE_DAYS:
        return [Finding(way.subject, "tls", "warning", text, "renew the server's certificate")]
    return [way.make_finding("tls", text)]


async def _read_names(way: _Way) -> str:
    """Describe the names in a certificate that is valid for other names only."""
    context = make_ssl_context(DEFAULT_OPTIONS)
    context.check_hostname = False
    try:
        async with _open_connection(way, context) as writer:
            names = [name for _, name in (writer.get_extra_info("peercert") or {}).get("subjectAltName", ())]
    except (TimeoutError, OSError):
        return ""
    return f": it names {', '.join(names[:_MAX_SHOWN])}, not {way.host}" if names else ""


async def _check_clock(way: _Way) -> list[Finding]:
    """Compare the server's header `Date` with this machine's clock. A server without the header is not reported."""
    limits = httpx.Timeout(way.seconds)
    host = f"[{way.host}]" if ":" in way.host else way.host
    try:
        async with (
            asyncio.timeout(way.seconds),
            httpx.AsyncClient(trust_env=False, verify=way.context or False, timeout=limits) as client,
            client.stream("GET", f"{way.scheme}://{host}:{way.port}/") as response,
        ):
            theirs = parsedate_to_datetime(response.headers["date"]).timestamp()
    except (TimeoutError, httpx.HTTPError, KeyError, ValueError, TypeError):
        return []
    seconds = theirs - time.time()
    if abs(seconds) <= MAX_CLOCK_SECONDS:
        return [way.make_finding("clock", "this machine and the server have the same time")]
    order = "ahead of" if seconds > 0 else "behind"
    text = f"the server's clock is {abs(seconds):.0f} s {order} this machine's"
    advice = "set both clocks by NTP: expiry dates of keys and certificates and the days of usage depend on them"
    return [Finding(way.subject, "clock", "warning", text, advice)]


@contextlib.asynccontextmanager
async def _open_connection(way: _Way, context: ssl.SSLContext | None) -> AsyncIterator[asyncio.StreamWriter]:
    """Open a connection, and close it. Raises OSError or TimeoutError."""
    async with asyncio.timeout(way.seconds):
        if way.socket_path is not None:
            _, writer = await asyncio.open_unix_connection(way.socket_path)
        else:
            _, writer = await asyncio.open_connection(
                way.host, way.port, ssl=context, server_hostname=way.host if context else None
            )
    try:
        yield writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
