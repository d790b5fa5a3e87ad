"""`Receiver`: a webhook that alerts are sent to, one message after the other, again if that fails for a while."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import httpx
import msgspec
from msgspec import Struct

from app import __version__
from app.alerts.bodies import AlertApi, write_bodies
from app.alerts.tracker import Alert
from app.upstream import causes
from app.upstream.http.options import DEFAULT_OPTIONS, ConnectionOptions
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import UpstreamTransport

log = logging.getLogger("parley.alerts")

RETRY_SECONDS = (15.0, 45.0, 135.0, 405.0)
"""The waits between five tries: ten minutes together."""
MAX_WAITING = 1000
SEND_SECONDS = 10.0
_CONNECTIONS = 2
_TOO_MANY, _SERVER_FAULT = 429, 500


class ReceiverRules(Struct, frozen=True):
    name: str
    url: str
    """A secret: anyone who knows it can send messages."""
    api: AlertApi = "alertmanager"
    events: tuple[str, ...] = ("*",)
    """Patterns of the names of alerts."""
    budget_percent: tuple[int, ...] = (80, 100)
    repeat_seconds: float = 14_400.0
    """How long an alert lasts until it is sent again."""
    headers: tuple[tuple[str, str], ...] = ()
    external_url: str = ""
    connections: ConnectionOptions = DEFAULT_OPTIONS

    def wants(self, alert: Alert) -> bool:
        labels, name = dict(alert.condition.labels), alert.condition.name
        if "percent" in labels and int(labels["percent"]) not in self.budget_percent:
            return False
        return any(fnmatchcase(name, pattern) for pattern in self.events)


class NotSent(Exception):
    """The receiver did not take a message. The text does not show its URL."""

    def __init__(self, message: str, *, may_work_later: bool) -> None:
        super().__init__(message)
        self.may_work_later = may_work_later


class Receiver:
    """Belongs to one event loop."""

    def __init__(
        self,
        rules: ReceiverRules,
        transport: UpstreamTransport,
        counts: Counter[tuple[str, str]],
        retry_seconds: Sequence[float] = RETRY_SECONDS,
    ) -> None:
        """`counts` counts alerts by their names and what became of them: `sent`, `failed` or `dropped`."""
        self.rules = rules
        self.sent_at: dict[str, float] = {}
        """When the alerts that last were sent, by their fingerprints, in Unix seconds."""
        self._transport = transport
        self._counts = counts
        self._retry_seconds = retry_seconds
        self._waiting: deque[list[Alert]] = deque()
        self._task: asyncio.Task[None] | None = None

    def take(self, now: float, changes: Sequence[Alert], firing: Mapping[str, Alert]) -> None:
        """Send those of the alerts that begin and end which it wants, and again those that last for long."""
        ended = [alert for alert in changes if alert.ends_at is not None and self.rules.wants(alert)]
        for alert in ended:
            self.sent_at.pop(alert.condition.fingerprint, None)
        due = [
            alert
            for fingerprint, alert in firing.items()
            if self.rules.wants(alert) and now - self.sent_at.get(fingerprint, 0.0) >= self.rules.repeat_seconds
        ]
        self.sent_at |= {alert.condition.fingerprint: now for alert in due}
        if due or ended:
            self._put([*due, *ended])

    def _put(self, alerts: list[Alert]) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._count(self._waiting.popleft(), "dropped")
        self._waiting.append(alerts)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                await self._send_again(self._waiting.popleft())
        finally:
            self._task = None

    async def _send_again(self, alerts: list[Alert]) -> None:
        for wait in (*self._retry_seconds, None):
            try:
                await self.send(alerts)
            except NotSent as error:
                if wait is not None and error.may_work_later:
                    await asyncio.sleep(wait)
                    continue
                names = ", ".join(alert.condition.name for alert in alerts)
                log.warning("alerts were not sent to the receiver %s: %s (%s)", self.rules.name, error, names)
                self._count(alerts, "failed")
                return
            self._count(alerts, "sent")
            return

    async def send(self, alerts: Sequence[Alert]) -> None:
        """Send alerts once. Raises NotSent."""
        for body in write_bodies(self.rules.api, self.rules.name, alerts, self.rules.external_url):
            await self._post(msgspec.json.encode(body))

    async def _post(self, data: bytes) -> None:
        request = httpx.Request(
            "POST",
            self.rules.url,
            headers={
                "content-type": "application/json",
                "accept-encoding": "identity",
                "user-agent": f"parley/{__version__}",
                **dict(self.rules.headers),
            },
            content=data,
            extensions={
                "timeout": {"connect": SEND_SECONDS, "read": SEND_SECONDS},
                "pool_key": PoolKey(f"alerts {self.rules.name}", _CONNECTIONS, self.rules.connections),
            },
        )
        try:
            async with asyncio.timeout(2 * SEND_SECONDS):
                response = await self._transport.handle_async_request(request)
                await response.aclose()
        except (TimeoutError, httpx.TimeoutException):
            raise NotSent(f"no answer within {SEND_SECONDS:g} s", may_work_later=True) from None
        except httpx.ConnectError as error:
            cause = causes.find_connect_cause(error, tls=self.rules.url.startswith("https:"))
            raise NotSent(cause.text, may_work_later=True) from None
        except (httpx.TransportError, OSError) as error:
            raise NotSent(causes.find_exchange_cause(error, answered=False).text, may_work_later=True) from None
        status = response.status_code
        if not 200 <= status < 300:
            may_work_later = status == _TOO_MANY or status >= _SERVER_FAULT
            raise NotSent(f"it answered with the status {status}", may_work_later=may_work_later)

    def _count(self, alerts: Sequence[Alert], outcome: str) -> None:
        for alert in alerts:
            self._counts[alert.condition.name, outcome] += 1

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
