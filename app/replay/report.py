"""Read a report of a request, and make the settings of a gateway for it.

A report may come from a stranger. Of its settings only those are taken that a report has, and all model servers are at
the address of the scripted one.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from app.config.request_log import LOCAL_FIELDS, MODEL_FIELDS, UPSTREAM_FIELDS
from app.config.settings import Settings
from app.observe.request_log.exports import REPORT_VERSION

MAX_BYTES = 256 * 1024 * 1024
Json = dict[str, Any]


class ReportError(Exception):
    """The file is no report that can be played back."""


class Message(Struct, frozen=True):
    """A request or a response."""

    headers: list[tuple[str, str]] = field(default_factory=list)
    is_cut: bool = False
    path: str = ""
    text: str = ""
    status: int = 0
    end: str = ""
    reads: list[tuple[float, str]] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """All bytes of a response."""
        return b"".join(encode(text) for _, text in self.reads)


class Exchange(Struct, frozen=True):
    upstream: str
    path: str
    reply: Message | None = None
    """None: the model server did not answer."""


class Client(Struct, frozen=True):
    request: Message
    reply: Message


class ReportFigures(Struct, frozen=True):
    model: str = ""
    requested_model: str = ""
    tokens: Json | None = None


class Report(Struct, frozen=True):
    parley_report: int
    parley: str
    client: Client
    figures: ReportFigures
    exchanges: list[Exchange] = field(default_factory=list)
    models: dict[str, Json] = field(default_factory=dict)
    upstreams: dict[str, Json] = field(default_factory=dict)

    def list_upstreams(self) -> list[str]:
        """Return the names of all model servers, in a fixed order."""
        named = [row.get("name") for model in self.models.values() for row in model.get("upstreams", ())]
        names = [*(one.upstream for one in self.exchanges), *self.upstreams, *map(str, filter(None, named))]
        return list(dict.fromkeys(names)) or ["server"]


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def read_report(path: Path) -> Report:
    """Raises ReportError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ReportError(f"{path} has more than {MAX_BYTES} bytes")
        report = msgspec.convert(_load(path.read_bytes()), Report, strict=False)
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"{path} is no report: {error}") from None
    if report.parley_report != REPORT_VERSION:
        raise ReportError(
            f"{path} is of version {report.parley_report}, and this Parley reads {REPORT_VERSION}: it was written by "
            f"Parley {report.parley}"
        )
    if report.client.request.is_cut or not report.client.request.text:
        raise ReportError(f"{path} does not have the whole request: the log had no place for it, or keeps figures only")
    return report


def _load(data: bytes) -> Any:
    return json.loads(data)  # msgspec refuses half surrogate pairs, which stand for bytes that are no text


def make_settings(report: Report, addresses: dict[str, str]) -> Settings:
    """Return the settings of a gateway whose model servers are at these addresses. Raises ReportError."""
    upstreams = {
        name: {**_choose(report.upstreams.get(name, {}), UPSTREAM_FIELDS), "base_url": address, "api_key": "replay"}
        for name, address in addresses.items()
    }
    models = {name: _make_model(row, [*addresses], set(report.models)) for name, row in report.models.items()}
    called = report.figures.model or report.figures.requested_model
    if called:
        model = models.setdefault(called, {"upstreams": [*addresses][:1]})
        if report.figures.requested_model not in ("", *models):
            model["aliases"] = [report.figures.requested_model]
    tree = {
        "upstreams": upstreams,
        "models": models,
        "cache": {"url": "null:"},
        "state": {"url": "null:"},
        "usage": {"url": "null:"},
        "metrics": {"enabled": False},
        "server": {"log_level": "error", "playground": False},
        **({"default_model": called} if called else {}),
    }
    try:
        settings = Settings.model_validate(tree)
        for name, configured in settings.models.items():
            for upstream in configured.upstreams:
                settings.profile(name, upstream.name)
        return settings
    except ValueError as error:
        raise ReportError(f"the settings of the report cannot be used with this version: {error}") from None


def _make_model(given: Json, upstreams: list[str], models: set[str]) -> Json:
    row = _choose(given, MODEL_FIELDS)
    row["upstreams"] = [one for one in row.get("upstreams", ()) if one.get("name") in upstreams] or upstreams[:1]
    row["profile"] = {name: value for name, value in row.get("profile", {}).items() if name not in LOCAL_FIELDS}
    for name in row:
        if name.startswith("fallbacks"):
            row[name] = [model for model in row[name] if model in models]
    return row


def _choose(given: Json, names: frozenset[str]) -> Json:
    return {name: value for name, value in given.items() if name in names}
