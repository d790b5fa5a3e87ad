"""`GuardClient`: asks one guard by HTTP. Every failure is a `GuardError`, whose message has no text of a request."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
import msgspec

from app import __version__
from app.guards.presidio import read_spans, write_analysis
from app.guards.rules import GuardRule
from app.guards.services import SERVICES
from app.guards.verdicts import GuardError, Question, Verdict
from app.runtime.throttled_log import ThrottledLog
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import UpstreamTransport

log = logging.getLogger("parley.guards")

_T = TypeVar("_T")

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_FAILURES = 5
"""After so many failures in a row a guard is asked again only after a pause."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 30.0
PRESIDIO_AT_ONCE = 8
_AGAIN = (408, 429)


class _TryAgain(GuardError):
    """A failure after which a second try is worthwhile."""


class GuardClient:
    """One guard, in one event loop."""

    def __init__(self, rule: GuardRule, transport: UpstreamTransport) -> None:
        self._rule = rule
        self._transport = transport
        self._places = asyncio.Semaphore(rule.max_concurrent)
        self._pool_key = PoolKey(f"guard {rule.name}", rule.max_concurrent, rule.connections)
        self._failures = 0
        self._closed_until = 0.0
        """In the event loop's time."""
        self._throttled_log = ThrottledLog(log)

    async def ask(self, question: Question, traceparent: bytes | None = None) -> Verdict:
        """Raises GuardError."""
        rule, service = self._rule, SERVICES[self._rule.api]
        body = service.write(question, rule.name, rule.params)
        answer = await self._post(service.make_url(rule.url, question), body, question, traceparent)
        return self._read(lambda: service.read(answer, question, rule.params))

    async def find_spans(self, texts: list[str], question: Question) -> list[list[tuple[int, int, str]]]:
        """Return the values that Presidio finds in texts: (start, end, kind). Raises GuardError."""
        rule, at_once = self._rule, asyncio.Semaphore(PRESIDIO_AT_ONCE)
        url = rule.url if rule.url.endswith("/analyze") else rule.url.rstrip("/") + "/analyze"

        async def find(text: str) -> list[tuple[int, int, str]]:
            async with at_once:
                answer = await self._post(url, write_analysis(text, rule.params), question, None)
            return self._read(lambda: read_spans(answer, text))

        return list(await asyncio.gather(*map(find, texts)))

    def _read(self, read: Callable[[], _T]) -> _T:
        try:
            verdict = read()
            self._failures = 0
            return verdict
        except GuardError as error:
            self._count_failure(error)
            raise
        except Exception as error:  # an answer of a form that no service gives
            failure = GuardError(f"its answer cannot be read ({type(error).__name__})")
            self._count_failure(failure)
            raise failure from None

    async def _post(self, url: str, body: dict[str, Any], question: Question, traceparent: bytes | None) -> Any:
        loop, rule = asyncio.get_running_loop(), self._rule
        if loop.time() < self._closed_until:
            raise GuardError("it has failed several times, and is asked again later")
        data = msgspec.json.encode(body)
        if len(data) > rule.max_bytes:
            raise GuardError(f"the check has {len(data)} bytes, more than max_bytes ({rule.max_bytes})")
        try:
            async with asyncio.timeout(rule.timeout_seconds), self._places:
                answer = await self._post_twice(url, data, question, traceparent)
        except TimeoutError:
            failure = GuardError(f"it gave no answer within {rule.timeout_seconds:g} s (timeout_seconds)")
            self._count_failure(failure)
            raise failure from None
        except GuardError as error:
            self._count_failure(error)
            raise
        return answer

    async def _post_twice(self, url: str, data: bytes, question: Question, traceparent: bytes | None) -> Any:
        try:
            return await self._post_once(url, data, question, traceparent)
        except _TryAgain:
            return await self._post_once(url, data, question, traceparent)

    async def _post_once(self, url: str, data: bytes, question: Question, traceparent: bytes | None) -> Any:
        try:
            response = await self._transport.handle_async_request(self._make_request(url, data, question, traceparent))
            try:
                return self._decode(response.status_code, await _read_body(response))
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise _TryAgain(f"the connection to it failed ({type(error).__name__})") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            raise GuardError(f"it cannot be reached ({type(error).__name__})") from None

    def _make_request(self, url: str, data: bytes, question: Question, traceparent: bytes | None) -> httpx.Request:
        rule = self._rule
        headers = [
            (b"content-type", b"application/json"),
            (b"accept", b"application/json"),
            (b"accept-encoding", b"identity"),
            (b"user-agent", f"parley/{__version__}".encode()),
            *rule.headers,
        ]
        if traceparent is not None:
            headers.append((b"traceparent", traceparent))
        headers += [(name.encode(), value.encode("latin-1")) for name, value in question.headers.items()]
        seconds = {"connect": rule.timeout_seconds, "read": rule.timeout_seconds}
        extensions = {"timeout": seconds, "pool_key": self._pool_key}
        return httpx.Request("POST", url, headers=headers, content=data, extensions=extensions)

    @staticmethod
    def _decode(status: int, data: bytes) -> Any:
        if status in _AGAIN or status >= 500:
            raise _TryAgain(f"it answers with the status {status}")
        if status != 200:
            raise GuardError(f"it answers with the status {status}")
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise GuardError("its answer is not JSON") from None

    def _count_failure(self, error: GuardError) -> None:
        self._failures += 1
        self._throttled_log.warn(f"the guard {self._rule.name} gave no verdict", error)
        if self._failures >= MAX_FAILURES:
            pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (self._failures - MAX_FAILURES), MAX_PAUSE_SECONDS)
            self._closed_until = asyncio.get_running_loop().time() + pause


async def _read_body(response: httpx.Response) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise GuardError(f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
    return bytes(data)
