"""The bodies of alerts: Alertmanager's webhook, Slack's incoming webhooks, and one object for each alert. Pure.

Alertmanager: prometheus.io/docs/alerting/latest/configuration, "webhook_config". Slack: docs.slack.dev, "Formatting
message text": of a text only `&`, `<` and `>` are escaped.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from app.alerts.tracker import Alert

AlertApi: TypeAlias = Literal["alertmanager", "slack", "json"]
MAX_SLACK_CHARACTERS = 3000
_NOT_ENDED = "0001-01-01T00:00:00Z"
"""Go's zero time, which Alertmanager sends while an alert lasts."""


def write_bodies(api: AlertApi, receiver: str, alerts: Sequence[Alert], external_url: str) -> list[dict[str, Any]]:
    """Return what is sent of some alerts that have begun or ended at the same time."""
    match api:
        case "alertmanager":
            return [_write_group(receiver, alerts, external_url)]
        case "slack":
            return [_write_text(alerts)]
        case "json":
            return [_write_alert(alert) for alert in alerts]


def _write_group(receiver: str, alerts: Sequence[Alert], external_url: str) -> dict[str, Any]:
    labels = [alert.condition.all_labels for alert in alerts]
    annotations = [_annotate(alert) for alert in alerts]
    return {
        "version": "4",
        "groupKey": f"{{}}:parley/{receiver}",
        "truncatedAlerts": 0,
        "status": "firing" if any(alert.ends_at is None for alert in alerts) else "resolved",
        "receiver": receiver,
        "groupLabels": {},
        "commonLabels": _find_common(labels),
        "commonAnnotations": _find_common(annotations),
        "externalURL": external_url,
        "alerts": [
            {
                "status": _name_status(alert),
                "labels": labels[number],
                "annotations": annotations[number],
                "startsAt": format_time(alert.starts_at),
                "endsAt": _NOT_ENDED if alert.ends_at is None else format_time(alert.ends_at),
                "generatorURL": external_url,
                "fingerprint": alert.condition.fingerprint,
            }
            for number, alert in enumerate(alerts)
        ],
    }


def _find_common(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = rows
    return {name: value for name, value in first.items() if all(row.get(name) == value for row in others)}


def _write_text(alerts: Sequence[Alert]) -> dict[str, Any]:
    lines = [
        f"*{_name_status(alert).upper()}* {alert.condition.name} ({alert.condition.kind.severity}): "
        f"{alert.condition.summary}"
        for alert in alerts
    ]
    text = "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text if len(text) <= MAX_SLACK_CHARACTERS else f"{text[: MAX_SLACK_CHARACTERS - 1]}…"}


def _write_alert(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.condition.name,
        "status": _name_status(alert),
        "severity": alert.condition.kind.severity,
        "labels": dict(alert.condition.labels),
        **_annotate(alert),
        "starts_at": format_time(alert.starts_at),
        "ends_at": None if alert.ends_at is None else format_time(alert.ends_at),
        "fingerprint": alert.condition.fingerprint,
    }


def _annotate(alert: Alert) -> dict[str, str]:
    return {"summary": alert.condition.summary, "runbook": alert.condition.runbook}


def _name_status(alert: Alert) -> Literal["firing", "resolved"]:
    return "firing" if alert.ends_at is None else "resolved"


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
