"""The request log, from the settings."""

from collections.abc import Callable

from app.config.registry import list_secrets
from app.config.settings import Settings
from app.config.tables.storage import RequestLogSettings
from app.observe.request_log.file import LogFile
from app.observe.request_log.log import LogRules, RequestLog
from app.observe.request_log.redaction import Find, make_finder
from app.state.urls import FileUrl, parse_state_url


def open_log_file(settings: RequestLogSettings) -> LogFile | None:
    """Return the file of the log; None if there is none. It is opened with its first use."""
    address = parse_state_url(settings.url or "null:")
    return LogFile(address.path) if isinstance(address, FileUrl) and address.path else None


def make_log_finder(settings: Settings) -> Find:
    """Return what finds keys in every text that is kept, and unless bodies are kept in full also personal data."""
    return make_finder(list_secrets(settings), personal=settings.request_log.content != "full")


def make_request_log(settings: Settings, count: Callable[[str, int], None] | None) -> RequestLog | None:
    """Return the log; None if it is off, or there is no file for it. `count` counts entries by their outcome."""
    row = settings.request_log
    file = None if row.keep == "off" else open_log_file(row)
    if file is None:
        return None
    rules = LogRules(
        row.keep == "all",
        row.sample_ratio if row.keep == "sample" else 0.0,
        row.content,
        row.keys,
        row.models,
        row.max_bytes,
        row.max_entry_bytes,
        row.keep_days,
        row.queue_bytes,
    )
    return RequestLog(file, rules, make_log_finder(settings), count or _count_nothing)


def _count_nothing(outcome: str, entries: int) -> None: ...
