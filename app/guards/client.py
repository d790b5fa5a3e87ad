"""`GuardClient`: asks one guard by HTTP. Every failure is a `GuardError`, whose message has no text of a request."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import httpx
import msgspec

from app import __version__
from app.guards.presidio import read_spans, write_analysis
from app.guards.rules import GuardRule
from app.guards.services import SERVICES
from app.guards.verdicts import GuardError, Question, Replace, TextPart, Verdict
from app.runtime.throttled_log import ThrottledLog
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import BodyTooLarge, RequestHead, UpstreamTransport, make_request_head, read_whole

log = logging.getLogger("parley.guards")

_T = TypeVar("_T")

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_FAILURES = 5
"""After so many failures in a row a guard is asked again only after a pause."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, MAX_DOUBLINGS = 0.5, 30.0, 6
PRESIDIO_AT_ONCE = 8
_AGAIN = (408, 429)
_OF_ONE_CHECK = (400, 413, 422)
"""What a service says of one body: it says nothing of other checks."""


class _TryAgain(GuardError):
    """A failure after which a second try is worthwhile."""


class _Unanswered(_TryAgain):
    """There was no answer, or the connection broke."""


class _NotTaken(GuardError):
    """It has answered, and does not take this check."""


class _Paused(GuardError):
    """It was not asked."""


class GuardClient:
    """One guard, in one event loop."""

    def __init__(self, rule: GuardRule, transport: UpstreamTransport) -> None:
        self._rule = rule
        self._transport = transport
        self._places = asyncio.Semaphore(rule.max_concurrent)
        self._pool_key = PoolKey(f"guard {rule.name}", rule.max_concurrent, rule.connections)
        self._failures = 0
        self._last_failed = ""
        """The request of the last failure that was counted."""
        self._paused_until = 0.0
        """In the event loop's time."""
        self._throttled_log = ThrottledLog(log)
        self._heads: dict[str, RequestHead] = {}
        """By their URLs."""

    async def ask(self, question: Question, traceparent: bytes | None = None) -> Verdict:
        """Raises GuardError."""
        rule, service = self._rule, SERVICES[self._rule.api]
        body = service.write(question, rule.name, rule.params)
        return await self._ask(
            service.make_url(rule.url, question),
            body,
            question,
            traceparent,
            lambda answer: check_replacements(service.read(answer, question, rule.params), question),
        )

    async def find_spans(
        self, texts: Sequence[str], question: Question, traceparent: bytes | None = None
    ) -> list[list[tuple[int, int, str]] | GuardError]:
        """Return the values that Presidio finds in each text, (start, end, kind), or why it has not looked at it."""
        rule, at_once = self._rule, asyncio.Semaphore(PRESIDIO_AT_ONCE)
        url = rule.url if rule.url.endswith("/analyze") else rule.url.rstrip("/") + "/analyze"

        async def find(text: str) -> list[tuple[int, int, str]] | GuardError:
            body = write_analysis(text, rule.params)
            try:
                async with at_once:
                    return await self._ask(url, body, question, traceparent, lambda answer: read_spans(answer, text))
            except GuardError as error:
                return error

        return list(await asyncio.gather(*map(find, texts)))

    async def _ask(
        self,
        url: str,
        body: dict[str, Any],
        question: Question,
        traceparent: bytes | None,
        read: Callable[[Any], _T],
    ) -> _T:
        """Return what is read of the answer. Raises GuardError."""
        loop, rule = asyncio.get_running_loop(), self._rule
        began = loop.time()
        self._check_pause(began)
        data = msgspec.json.encode(body)
        if len(data) > rule.max_bytes:
            raise GuardError(f"the check has {len(data)} bytes, more than max_bytes ({rule.max_bytes})")
        try:
            async with asyncio.timeout(rule.timeout_seconds), self._places:
                self._check_pause(loop.time())  # it may have failed for others meanwhile
                try:
                    answer = await self._post(url, data, question, traceparent)
                except _TryAgain:
                    answer = await self._post(url, data, question, traceparent)
            verdict = read(answer)
        except TimeoutError:
            error: GuardError = _Unanswered(f"it gave no answer within {rule.timeout_seconds:g} s (timeout_seconds)")
        except _Paused:
            raise
        except GuardError as failure:
            error = failure
        except Exception as defect:  # an answer of a form that no service gives
            error = GuardError(f"its answer cannot be read ({type(defect).__name__})")
        else:
            self._failures = 0
            return verdict
        self._count_failure(error, question.request_id, began)
        raise error from None

    def _check_pause(self, now: float) -> None:
        """Raises _Paused while the guard is not asked."""
        if now < self._paused_until:
            raise _Paused("it has failed several times, and is asked again later")

    async def _post(self, url: str, data: bytes, question: Question, traceparent: bytes | None) -> Any:
        seconds = self._rule.timeout_seconds
        headers = [(name.encode(), value.encode("latin-1")) for name, value in question.headers.items()]
        if traceparent is not None:
            headers.append((b"traceparent", traceparent))
        try:
            reply = await self._transport.post(self._find_head(url), data, seconds, seconds, headers)
            return self._decode(reply.status, await read_whole(reply, MAX_ANSWER_BYTES))
        except BodyTooLarge:
            raise GuardError(f"its answer is larger than {MAX_ANSWER_BYTES} bytes") from None
        except httpx.TransportError as error:
            raise _Unanswered(f"the connection to it failed ({type(error).__name__})") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            raise GuardError(f"it cannot be reached ({type(error).__name__})") from None

    def _find_head(self, url: str) -> RequestHead:
        """Return what all requests to this URL begin with: a service has one or two."""
        head = self._heads.get(url)
        if head is None:
            own = [
                (b"content-type", b"application/json"),
                (b"accept", b"application/json"),
                (b"accept-encoding", b"identity"),
                (b"user-agent", f"parley/{__version__}".encode()),
            ]
            request = httpx.Request("POST", url, headers=[*own, *self._rule.headers])
            head = self._heads[url] = make_request_head(b"POST", request.url, request.headers, self._pool_key)
        return head

    @staticmethod
    def _decode(status: int, data: bytes) -> Any:
        if status in _AGAIN or status >= 500:
            raise _TryAgain(f"it answers with the status {status}")
        if status in _OF_ONE_CHECK:
            raise _NotTaken(f"it answers with the status {status}")
        if status != 200:
            raise GuardError(f"it answers with the status {status}")
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise GuardError("its answer is not JSON") from None

    def _count_failure(self, error: GuardError, request_id: str, began: float) -> None:
        """Count a failure of a check that began at this time. One that began before the last pause says nothing new:
        many checks may be in progress when a guard dies. What a service has answered may be about the texts, which
        are a caller's: a request counts only once by that, and not at all if the service says so itself."""
        self._throttled_log.warn(f"the guard {self._rule.name} at {self._rule.url} gave no verdict", error)
        if began < self._paused_until or isinstance(error, _NotTaken):
            return
        if request_id and request_id == self._last_failed and not isinstance(error, _Unanswered):
            return
        self._last_failed = request_id
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            doublings = min(self._failures - MAX_FAILURES, MAX_DOUBLINGS)
            pause = min(FIRST_PAUSE_SECONDS * 2.0**doublings, MAX_PAUSE_SECONDS)
            self._paused_until = asyncio.get_running_loop().time() + pause


def check_replacements(verdict: Verdict, question: Question) -> Verdict:
    """Return a verdict whose new texts can be put in the places of the old ones. Raises GuardError."""
    if isinstance(verdict, Replace):
        for part in question.parts:
            if part.id in verdict.texts:
                _check_replacement(part, verdict.texts[part.id])
    return verdict


def _check_replacement(part: TextPart, text: str) -> None:
    """Raises GuardError for a tool, and for arguments that are no JSON object."""
    if part.kind == "tool":
        raise GuardError("it replaces the definition of a tool")
    if part.kind != "arguments":
        return
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise GuardError("it replaces the arguments of a call by what is not a JSON object")
