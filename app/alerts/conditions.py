"""The alerts: their names, severities and how long something must be wrong. Names are those of
deploy/prometheus/alerts.yml, so that each has its section in docs/operate/alerts.md. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["critical", "warning"]


class AlertKind(Struct, frozen=True):
    name: str
    severity: Severity
    wait_seconds: float
    """How long it must last before it is an alert."""
    summary: str
    """With the names of labels in braces."""


_KINDS = (
    AlertKind("ParleyBudget", "warning", 0, "{owner} has spent {percent} % of its limit per {period}."),
    AlertKind("ParleyUpstreamUnavailable", "warning", 120, "The model server {upstream} gets no requests."),
    AlertKind("ParleyErrorBudgetFast", "critical", 120, "{percent} % of the requests of the last hour failed."),
    AlertKind(
        "ParleyConfigRefused",
        "warning",
        60,
        "The changed configuration was refused, and the gateway runs with the one before.",
    ),
    AlertKind("ParleyJwksUnavailable", "warning", 900, "The keys of the JWT issuer {issuer} cannot be fetched."),
    AlertKind(
        "ParleyCredentialFailing", "critical", 60, "The credential for the model server {upstream} cannot be renewed."
    ),
    AlertKind("ParleyGuardFailing", "critical", 60, "The guard {guard} gives no verdicts."),
    AlertKind("ParleyGuardRefusals", "warning", 0, "The guard {guard} has refused {count} texts in five minutes."),
    AlertKind("ParleyRequestLogDropping", "warning", 60, "The request log loses entries ({outcome})."),
    AlertKind("ParleyRedisDown", "critical", 60, "The gateway serves without Redis ({use})."),
    AlertKind("ParleyStateDown", "critical", 60, "The state database cannot be used."),
    AlertKind(
        "ParleyCertificateExpiring", "warning", 0, "The client certificate for {upstream} ends within {days} days."
    ),
    AlertKind("ParleyTest", "warning", 0, "A test of the receiver {receiver}: nothing is wrong."),
)
KINDS: Mapping[str, AlertKind] = {kind.name: kind for kind in _KINDS}


class Condition(Struct, frozen=True):
    """Something that is wrong now."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    """What it is about, sorted. They tell it from others of this name."""
    details: tuple[tuple[str, str], ...] = ()
    """What the summary shows besides, and may change while it lasts."""

    @property
    def kind(self) -> AlertKind:
        return KINDS[self.name]

    @property
    def summary(self) -> str:
        return self.kind.summary.format(**dict(self.labels), **dict(self.details))

    @property
    def runbook(self) -> str:
        return f"docs/operate/alerts.md#{self.name.lower()}"

    @property
    def all_labels(self) -> dict[str, str]:
        return {"alertname": self.name, "severity": self.kind.severity, **dict(self.labels)}

    @property
    def fingerprint(self) -> str:
        """The same in all processes and gateways."""
        text = "\x00".join(f"{name}\x01{value}" for name, value in sorted(self.all_labels.items()))
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def make_condition(
    name: str, labels: Mapping[str, str] | None = None, details: Mapping[str, object] | None = None
) -> Condition:
    shown = tuple(sorted((key, str(value)) for key, value in (details or {}).items()))
    return Condition(name, tuple(sorted((labels or {}).items())), shown)
