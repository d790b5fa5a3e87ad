"""`Alerting`: looks at the gateway every ten seconds, and sends what is wrong to the receivers of the settings.

One process of all that share a state database sends, the holder of a lease; without a database each process does, with
equal fingerprints. What lasts is kept with the lease, so that a restart sends nothing twice and misses no end.
"""

import asyncio
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.alerts.conditions import KINDS, Condition, make_condition
from app.alerts.receiver import Receiver, ReceiverRules
from app.alerts.recent import RecentCounts
from app.alerts.tracker import Alert, AlertTracker
from app.api.context import AppContext
from app.config.access import list_spending_rules
from app.config.alerts import list_receivers
from app.config.settings import Settings
from app.errors import find_responsible
from app.limits import Limiter
from app.limits.values import Rule, describe_owner, find_issuer, is_of_any_user
from app.observe.request_record import RequestRecord
from app.runtime.throttled_log import ThrottledLog
from app.state import Database, StateError
from app.state.leases import keep_value, release_lease, take_lease
from app.upstream.http.transport import UpstreamTransport

log = logging.getLogger("parley.alerts")

CHECK_SECONDS = 10.0
LEASE_SECONDS = 35.0
_LEASE = "alerts"
_CERTIFICATE_DAYS = 14
_OBJECTIVE = 0.005
_FAST_BURN = 14.4 * _OBJECTIVE
_HOUR, _FIVE_MINUTES = 3600.0, 300.0
_GUARD_FAILURES, _GUARD_REFUSALS = 5, 20
"""So many failures of a guard, and more refusals than so many, are an alert if there were so many in five minutes."""
_REFUSALS = ("reject", "withhold")


class ErrorRates:
    """Which part of the requests failed by a fault of the gateway or of a model server."""

    def __init__(self) -> None:
        self.requests = self.failures = 0
        self._samples: deque[tuple[float, int, int]] = deque()
        """Times, and how many requests and failures there were until then."""

    def observe(self, record: RequestRecord) -> None:
        self.requests += 1
        if record.error is not None and not record.disconnected:
            fault = find_responsible(record.error, from_upstream=record.error_from_upstream)
            self.failures += fault in ("gateway", "upstream")

    def sample(self, now: float) -> tuple[float, float]:
        """Return the rates of the last hour and of the last five minutes, as far as they are known."""
        self._samples.append((now, self.requests, self.failures))
        while self._samples[0][0] < now - _HOUR:
            self._samples.popleft()
        return self._rate(now - _HOUR), self._rate(now - _FIVE_MINUTES)

    def _rate(self, since: float) -> float:
        _, requests, failures = next(sample for sample in self._samples if sample[0] >= since)
        made = self.requests - requests
        return (self.failures - failures) / made if made else 0.0


class _Kept(Struct):
    """What is kept with the lease."""

    firing: dict[str, Alert] = {}
    sent_at: dict[str, dict[str, float]] = {}
    """By receiver and fingerprint."""


class Alerting:
    """Runs in one event loop, from `start` to `aclose`."""

    def __init__(
        self,
        context: AppContext,
        database: Database | None,
        transport: UpstreamTransport,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` returns Unix seconds."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """Alerts by their names and what became of them."""
        self.rates = ErrorRates()
        self._context = context
        self._database = database
        self._transport = transport
        self._clock = clock
        self._holder = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._holds: bool | None = None
        """Whether this process sends; None: not known yet."""
        self._state_error = ""
        self._tracker = AlertTracker()
        self._verdicts: RecentCounts[tuple[str, str]] = RecentCounts(_FIVE_MINUTES)
        self._log_entries: RecentCounts[str] = RecentCounts(_FIVE_MINUTES)
        self._receivers: dict[str, Receiver] = {}
        self._former: list[Receiver] = []
        """Receivers that a reload has replaced: they may still send."""
        self._kept = _Kept()
        self._task: asyncio.Task[None] | None = None
        self._throttled_log = ThrottledLog(log)

    def configure(self, settings: Settings) -> None:
        """Send to the receivers of these settings from now on."""
        found: dict[str, Receiver] = {}
        for rules in list_receivers(settings):
            before = self._receivers.get(rules.name)
            found[rules.name] = before if before is not None and before.rules == rules else self._make_receiver(rules)
        self._former = [*self._former, *(one for one in self._receivers.values() if one not in found.values())]
        self._receivers = found

    def _make_receiver(self, rules: ReceiverRules) -> Receiver:
        receiver = Receiver(rules, self._transport, self.counts)
        before = self._receivers.get(rules.name)
        receiver.sent_at = dict(before.sent_at if before else self._kept.sent_at.get(rules.name, {}))
        return receiver

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                if self._receivers:
                    await self.check()
            except Exception:
                log.exception("defect while looking for alerts")
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Look once at what is wrong, and send what has changed."""
        await self._take_lease()
        now = self._clock()
        hour, minutes = self.rates.sample(time.monotonic())
        recent = [*self._find_recent(now)]
        if self._holds is False:
            self._end_outage(now)
            return
        certificates = await asyncio.to_thread(list_expiring, self._context.settings, now)
        conditions = [*await self._find_budgets(), *self._find_conditions(hour, minutes), *recent, *certificates]
        changes = self._tracker.update(now, conditions)
        for receiver in self._receivers.values():
            receiver.take(now, changes, self._tracker.firing)
        await self._keep()

    async def _take_lease(self) -> None:
        if self._database is None:
            self._holds = True
            return
        try:
            lease = await asyncio.to_thread(
                take_lease, self._database, _LEASE, self._holder, self._clock(), LEASE_SECONDS
            )
        except StateError as error:
            # Who held it goes on; a process that does not know it rather sends too much than nothing.
            self._state_error = str(error)
            self._throttled_log.warn("the lease of alerts could not be taken", error)
            return
        self._state_error = ""
        if lease.is_held and not self._holds:
            self._go_on_with(lease.value)
        self._holds = lease.is_held

    def _go_on_with(self, value: Any) -> None:
        try:
            self._kept = msgspec.convert(value or {}, _Kept)
        except msgspec.ValidationError:  # of another version
            self._kept = _Kept()
        known = {key: alert for key, alert in self._kept.firing.items() if alert.condition.name in KINDS}
        self._tracker = AlertTracker(known | self._find_outage())
        for name, receiver in self._receivers.items():
            receiver.sent_at = dict(self._kept.sent_at.get(name, {}))

    def _find_outage(self) -> dict[str, Alert]:
        """Return what this process has sent of the state database while that could not be used."""
        firing = self._tracker.firing.items()
        return {key: alert for key, alert in firing if alert.condition.name == "ParleyStateDown"}

    def _end_outage(self, now: float) -> None:
        """End what this process has sent while no lease was known: the one that sends now does not know of it."""
        ended = [replace(alert, ends_at=now) for alert in self._find_outage().values()]
        self._tracker = AlertTracker()
        for receiver in self._receivers.values() if ended else ():
            receiver.take(now, ended, {})

    async def _keep(self) -> None:
        sent_at = {name: dict(receiver.sent_at) for name, receiver in self._receivers.items()}
        kept = _Kept(dict(self._tracker.firing), sent_at)
        if self._database is None or kept == self._kept or self._state_error:
            return
        try:
            await asyncio.to_thread(keep_value, self._database, _LEASE, self._holder, msgspec.to_builtins(kept))
            self._kept = kept
        except StateError as error:
            self._throttled_log.warn("the alerts that last could not be kept", error)

    def _find_conditions(self, hour: float, minutes: float) -> Iterator[Condition]:
        """Yield what is wrong now, but for budgets. The rates are those of failed requests."""
        context, now = self._context, asyncio.get_running_loop().time()
        for state in context.upstreams:
            if not state.is_available(now):
                yield make_condition("ParleyUpstreamUnavailable", {"upstream": state.name})
        if min(hour, minutes) > _FAST_BURN:
            yield make_condition("ParleyErrorBudgetFast", {}, {"percent": round(hour * 100)})
        if context.reloader is not None and context.reloader.last_succeeded is False:
            yield make_condition("ParleyConfigRefused")
        for source in context.jwks:
            if source.error:
                yield make_condition("ParleyJwksUnavailable", {"issuer": source.location.name})
        for upstream, credential in context.list_credentials():
            if credential.error:
                yield make_condition("ParleyCredentialFailing", {"upstream": upstream})
        limiter = context.limiter
        uses = {
            "cache": context.cache.is_redis_connected,
            "limits": None if limiter is None else limiter.is_redis_connected,
        }
        for use, connected in uses.items():
            if connected is False:
                yield make_condition("ParleyRedisDown", {"use": use})
        if self._state_error:
            yield make_condition("ParleyStateDown")

    def _find_recent(self, now: float) -> Iterator[Condition]:
        """Yield what guards and the request log of this process have done too often lately."""
        guards, log = self._context.live.guards, self._context.request_log
        verdicts = self._verdicts.update(now, {} if guards is None else guards.verdicts)
        for guard in sorted({guard for guard, _ in verdicts}):
            if verdicts[guard, "failed"] >= _GUARD_FAILURES:
                yield make_condition("ParleyGuardFailing", {"guard": guard})
            refused = sum(verdicts[guard, verdict] for verdict in _REFUSALS)
            if refused > _GUARD_REFUSALS:
                yield make_condition("ParleyGuardRefusals", {"guard": guard}, {"count": refused})
        entries = self._log_entries.update(now, {} if log is None else log.counts)
        for outcome in ("dropped", "failed"):
            if entries[outcome]:
                yield make_condition("ParleyRequestLogDropping", {"outcome": outcome})

    async def _find_budgets(self) -> list[Condition]:
        """Return the limits of spending of which a percentage is spent that some receiver wants."""
        limiter, watcher, found = self._context.limiter, self._context.key_watcher, list[Condition]()
        steps = sorted({step for receiver in self._receivers.values() for step in receiver.rules.budget_percent})
        knows_keys = watcher is None or watcher.has_read
        if not steps or (knows_keys and limiter is None):
            return found
        read = await self._read_spent(limiter, steps[0]) if knows_keys and limiter is not None else None
        if read is None:  # what is not known has not ended
            return [one.condition for one in self._tracker.firing.values() if one.condition.name == "ParleyBudget"]
        for rule, spent in read:
            scope, name = describe_owner(rule)
            for step in steps:
                if spent * 100 >= rule.limit * step:
                    period = "day" if rule.kind == "spend_per_day" else "month"
                    labels = {"scope": scope, "owner": rule.owner, "period": period, "percent": str(step), "name": name}
                    found.append(make_condition("ParleyBudget", labels))
        return found

    async def _read_spent(self, limiter: Limiter, percent: int) -> list[tuple[Rule, int]] | None:
        """Return what is spent of each limit of money, but for those of end users; of those that each caller of an
        issuer of JWTs has, where it is at least so many percent. None while it cannot be read."""
        rules = [rule for rule in list_spending_rules(self._context.settings).values() if rule.limit > 0]
        own = [rule for rule in rules if not is_of_any_user(rule) and find_issuer(rule) is None]
        found = await limiter.read_spent(own)
        for rule in rules:
            issuer = find_issuer(rule)
            if found is not None and issuer is not None:
                spenders = await limiter.find_spenders(rule, issuer, rule.limit * percent // 100)
                found = None if spenders is None else [*found, *spenders]
        return found

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for receiver in (*self._former, *self._receivers.values()):
            await receiver.aclose()
        if self._database is not None and self._holds:
            try:
                await asyncio.to_thread(release_lease, self._database, _LEASE, self._holder)
            except StateError as error:
                log.debug("the lease of alerts was not released: %s", error)


def list_expiring(settings: Settings, now: float) -> list[Condition]:
    """Return the client certificates that end soon. It reads their files."""
    found: list[Condition] = []
    for name, row in settings.upstreams.items():
        if row.client_certificate is not None:
            ends_at = read_certificate_end(row.client_certificate)
            if ends_at is not None and ends_at - now < _CERTIFICATE_DAYS * 86_400:
                details = {"days": _CERTIFICATE_DAYS}
                found.append(make_condition("ParleyCertificateExpiring", {"upstream": name}, details))
    return found


def read_certificate_end(path: str) -> float | None:
    """Return when the first certificate of a PEM file ends, in Unix seconds; None if it cannot be read."""
    from cryptography.x509 import load_pem_x509_certificate  # it takes time to import

    try:
        certificate = load_pem_x509_certificate(Path(path).read_bytes())
    except (OSError, ValueError):
        return None
    ends: datetime = certificate.not_valid_after_utc
    return ends.astimezone(UTC).timestamp()
