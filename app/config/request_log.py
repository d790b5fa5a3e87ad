"""The request log, from the settings."""

from collections.abc import Callable, Set
from typing import Any

from app.config.registry import list_secrets
from app.config.settings import Settings
from app.config.tables.models import Model
from app.config.tables.storage import RequestLogSettings
from app.guards.detectors import DETECTORS, make_pattern
from app.guards.detectors import Find as Detect
from app.observe.request_log.bytes_test import BytesTest, make_bytes_test
from app.observe.request_log.entry import Figures
from app.observe.request_log.file import LogFile, choose_reserve
from app.observe.request_log.log import LogRules, RequestLog
from app.observe.request_log.redaction import Find, Span, make_finder
from app.state.urls import FileUrl, parse_state_url


def open_log_file(settings: RequestLogSettings) -> LogFile | None:
    """Return the file of the log; None if there is none. It is opened with its first use."""
    address = parse_state_url(settings.url or "null:")
    if not isinstance(address, FileUrl) or not address.path:
        return None
    return LogFile(address.path, choose_reserve(settings.max_bytes))


def make_log_finder(settings: Settings) -> Find:
    """Return what finds keys in every text that is kept, and unless bodies are kept in full also personal data."""
    personal = settings.request_log.content != "full"
    return make_finder(list_secrets(settings), personal=personal, others=_list_detectors(settings) if personal else ())


def make_log_test(settings: Settings) -> BytesTest:
    """Return what says fast of bytes that the finder of `make_log_finder` may find something in them."""
    personal = settings.request_log.content != "full"
    others = _list_detectors(settings, TESTED) if personal else []
    test = make_bytes_test(list_secrets(settings), personal=personal)
    return (lambda data: True) if others else test


def make_export_finder(settings: Settings) -> Find:
    """Return what finds keys and personal data, whatever the log keeps."""
    return make_finder(list_secrets(settings), personal=True, others=_list_detectors(settings))


TESTED = frozenset(("email", "card", "iban", "secrets"))
"""The detectors of which `make_bytes_test` knows whether they may find something."""


def _list_detectors(settings: Settings, without: Set[str] = frozenset()) -> list[Find]:
    """Return what finds the values that guards of the settings look for, and the operator's own patterns."""
    patterns = settings.masking.patterns
    names = {name for row in settings.guards.values() for name in row.detectors if name in DETECTORS} - without
    finders = [DETECTORS[name] for name in sorted(names)]
    finders += [make_pattern(name, expression) for name, expression in patterns.items()]
    rules = settings.masking.secret_rules[0]
    if rules:
        from app.guards.secret_rules import make_rules_find  # few gateways have such rules

        finders.append(make_rules_find(rules))
    return [_as_finder(finder) for finder in finders]


def _as_finder(detect: Detect) -> Find:
    return lambda text: [Span(one.start, one.end, f"[{one.kind.upper()}]") for one in detect(text)]


MODEL_FIELDS = frozenset(
    (
        *("upstreams", "name", "defaults", "max_retries", "fallbacks", "fallbacks_on_context_length", "strategy"),
        *("fallbacks_on_content_filter", "hedge", "context_window", "profile"),
    )
)
"""What a report has of a model's settings."""
UPSTREAM_FIELDS = frozenset(("kind", "api", "first_token_seconds", "idle_seconds"))
"""What a report has of a model server's settings: no address and no key."""
LOCAL_FIELDS = frozenset(("tokenizer",))
"""Fields of a profile that name files of this machine."""


def describe_models(settings: Settings, figures: Figures) -> dict[str, Any]:
    """Return the settings of the models and model servers that were asked, as a report has them."""
    tried = {figures.model, figures.fallback_model, *(attempt.model for attempt in figures.attempts)} - {None, ""}
    models = {name: _describe_model(settings.models[name]) for name in tried if name in settings.models}
    asked = {attempt.upstream for attempt in figures.attempts}
    asked |= {row["name"] for model in models.values() for row in model.get("upstreams", ())}
    upstreams = {
        name: settings.upstreams[name].model_dump(mode="json", include=set(UPSTREAM_FIELDS), exclude_defaults=True)
        for name in asked
        if name in settings.upstreams
    }
    return {"models": models, "upstreams": upstreams}


def _describe_model(row: Model) -> dict[str, Any]:
    found: dict[str, Any] = row.model_dump(mode="json", include=set(MODEL_FIELDS), exclude_defaults=True)
    profile = {name: value for name, value in found.get("profile", {}).items() if name not in LOCAL_FIELDS}
    return {**found, "profile": profile} if profile else found


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
    find, may_hold = make_log_finder(settings), make_log_test(settings)
    return RequestLog(file, rules, find, count or _count_nothing, may_hold=may_hold)


def _count_nothing(outcome: str, entries: int) -> None: ...
