"""Check the way to a server step by step: the name, the connection, TLS, the clock."""

import asyncio
import contextlib
import os
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

MIN_CERTIFICATE_DAYS = 14
MAX_CLOCK_SECONDS = 60
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_MAX_SHOWN = 4


class _Way(Struct, frozen=True):
    """The address of a server and the limits of each step."""

    subject: str
    scheme: str
    host: str
    port: int
    seconds: float
    context: ssl.SSLContext | None

    def make_finding(self, check: str, message: str) -> Finding:
        return Finding(self.subject, check, "ok", message)

    def make_problem(self, check: str, cause: Cause, message: str = "", advice: str = "") -> Finding:
        return Finding(self.subject, check, "problem", message or cause.text, advice or cause.advice)


async def check_way(subject: str, base_url: str, seconds: float) -> list[Finding]:
    """Return the findings in the order of the steps; a problem is the last one. Each step takes at most `seconds`."""
    url = httpx.URL(base_url)
    # The same trust as the gateway's own connections.
    context = httpx.create_ssl_context() if url.scheme == "https" else None
    port = url.port or (443 if url.scheme == "https" else 80)
    way = _Way(subject, url.scheme, url.raw_host.decode("ascii"), port, seconds, context)
    findings: list[Finding] = []
    for step in (_check_name, _check_connection, _check_tls, _check_clock):
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
    try:
        async with _open_connection(way, None):
            milliseconds = (time.monotonic() - started) * 1000
    except TimeoutError:
        text = f"no connection to port {way.port} within {way.seconds:g} s"
        return [way.make_problem("tcp", causes.CONNECT_TIMEOUT, text, _advise(way, causes.CONNECT_TIMEOUT))]
    except OSError as error:
        cause = causes.find_connect_cause(error, tls=False)
        return [way.make_problem("tcp", cause, f"port {way.port}: {cause.text}", _advise(way, cause))]
    return [way.make_finding("tcp", f"port {way.port} answers in {milliseconds:.0f} ms")]


def _advise(way: _Way, cause: Cause) -> str:
    advice = [cause.advice]
    if is_loopback(way.host) and Path("/.dockerenv").exists():
        advice.append("in a container this address is the container itself: name the host or the other container")
    elif not is_loopback(way.host) and (proxy := next(filter(os.environ.get, _PROXIES), None)):
        advice.append(f"the gateway connects directly and does not use {proxy}")
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
    context = httpx.create_ssl_context()
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
        _, writer = await asyncio.open_connection(
            way.host, way.port, ssl=context, server_hostname=way.host if context else None
        )
    try:
        yield writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
