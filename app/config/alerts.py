"""The receivers of alerts, from the settings."""

from app.alerts.receiver import ReceiverRules
from app.config.settings import Settings


def list_receivers(settings: Settings) -> list[ReceiverRules]:
    return [
        ReceiverRules(
            name,
            row.url.get_secret_value(),
            row.api,
            row.events,
            row.budget_percent,
            row.repeat_seconds,
            tuple(sorted((header.lower(), value.get_secret_value()) for header, value in row.headers.items())),
            row.external_url or "",
            row.connections,
        )
        for name, row in settings.alerts.items()
    ]
