"""`AlertTracker`: which alerts begin, last and end, from what is wrong at each look. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from app.alerts.conditions import KINDS, Condition


class Alert(Struct, frozen=True):
    """An alert that has begun. Times are Unix seconds."""

    condition: Condition
    starts_at: float
    ends_at: float | None = None
    """None: it lasts."""


class AlertTracker:
    """Alerts of all receivers; each decides which of them it sends, and when again."""

    def __init__(self, firing: Mapping[str, Alert] | None = None) -> None:
        """`firing` are those of another process, by their fingerprints, which this one goes on with."""
        self.firing: dict[str, Alert] = dict(firing or {})
        self._pending: dict[str, float] = {}
        """Since when something is wrong that is no alert yet, by fingerprint."""

    def update(self, now: float, conditions: Iterable[Condition]) -> list[Alert]:
        """Take what is wrong now, and return the alerts that have begun or ended."""
        found = {condition.fingerprint: condition for condition in conditions}
        changes: list[Alert] = []
        for fingerprint in [one for one in self.firing if one not in found]:
            changes.append(replace(self.firing.pop(fingerprint), ends_at=now))
        self._pending = {
            fingerprint: self._pending.get(fingerprint, now) for fingerprint in found if fingerprint not in self.firing
        }
        for fingerprint, condition in found.items():
            if fingerprint in self.firing:
                self.firing[fingerprint] = replace(self.firing[fingerprint], condition=condition)
            elif now - self._pending[fingerprint] >= KINDS[condition.name].wait_seconds:
                self.firing[fingerprint] = Alert(condition, self._pending.pop(fingerprint))
                changes.append(self.firing[fingerprint])
        return changes
