"""Request logs: one line per request, without prompts, keys or bodies; text on a terminal, else JSON."""

import itertools
import json
import logging
import os
import re
import sys
import time
from collections.abc import Mapping, Sized
from typing import Any, Literal, TextIO

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from app.chat.server_tools import ToolCallSummary
from app.chat.stream import Attempt
from app.observe.log_queue import QueuedHandler
from app.observe.request_record import RequestRecord
from app.runtime.secret_forms import find_secrets_in_log

log = logging.getLogger("parley.request")
_tool_log = logging.getLogger("parley.tools")


class _RequestLine(Struct, omit_defaults=True):
    """The fields of the line of one request, in their order. A field that has its default is left out."""

    request_id: str
    endpoint: str
    transport: str = ""
    key: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    model: str = ""
    fallback_model: str | None = None
    stream: bool | UnsetType = UNSET
    metadata: Any = None
    status: int = 0
    cache: str = ""
    error: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | UnsetType = UNSET
    completion_tokens: int | UnsetType = UNSET
    cached_tokens: int = 0
    tokens_estimated: bool = False
    cost: float = 0.0
    searches: int = 0
    fetches: int = 0
    upstream: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    cause: str | None | UnsetType = UNSET
    reason: str | None | UnsetType = UNSET
    attempts: Any = UNSET
    route: str | UnsetType = UNSET
    guards: str | UnsetType = UNSET
    first_token_ms: float | UnsetType = UNSET
    ms: float | UnsetType = UNSET


def log_request(record: RequestRecord) -> None:
    """Log a request that has ended: at warning level if a model server failed, else at info level."""
    failure = record.upstream_failure
    level = logging.INFO if failure is None else logging.WARNING
    if not log.isEnabledFor(level):
        return
    model = record.model or record.requested_model
    tokens, attempts, first = record.tokens, record.attempts, record.first_token_seconds
    line = _RequestLine(
        record.request_id,
        record.endpoint,
        record.transport,
        record.caller,
        record.user,
        record.tags,
        shorten_text(_hide_secrets(model) if record.error else model, MAX_TEXT),
        record.fallback_model,
        record.stream if model else UNSET,
        shorten(record.metadata) if record.metadata else None,
        record.status,
        record.cache,
        record.error,
        record.finish_reason,
        UNSET if tokens is None else tokens.input,
        UNSET if tokens is None else tokens.output,
        0 if tokens is None else tokens.cached_input,
        tokens is not None and record.tokens_estimated,
        record.cost or 0.0,
        record.searches,
        record.fetches,
        attempts[-1].upstream if attempts else UNSET,
        route=shorten_text(record.route, MAX_TEXT) if record.route else UNSET,
        guards=record.guards or UNSET,
        first_token_ms=UNSET if first is None else round(first * 1000, 1),
        ms=round(record.duration * 1000, 1),
    )
    if failure is not None:
        line = replace(line, **_failure_fields(failure, record))
    _log_fields(level, record.ended_at, msgspec.to_builtins(line))


def _failure_fields(failure: Attempt, record: RequestRecord) -> dict[str, Any]:
    """Return the fields about a model server's failure. None of them quotes the request."""
    shown = [_attempt_fields(attempt) for attempt in record.attempts]
    if shown and shown[-1]["upstream"] == failure.upstream and "cause" not in shown[-1] and record.error is not None:
        shown[-1] |= {"cause": failure.cause, "reason": failure.reason}  # it began to answer and failed later
    about = {
        "upstream": failure.upstream,
        "address": failure.address,
        "cause": failure.cause,
        "reason": failure.reason,
    }
    return {**shorten(about), "attempts": shorten(shown, 1)}


def _log_fields(level: int, ended_at: float, fields: dict[str, Any]) -> None:
    """Log a request that ended at this Unix time. The fields are shortened already."""
    record = logging.LogRecord(log.name, level, __file__, 0, "request", (), None)
    record.created, record.msecs = ended_at, int(ended_at % 1 * 1000) + 0.0
    record.fields, record.shortened = fields, True
    log.handle(record)


def log_late_failure(request_id: str, endpoint: str, model: str, attempt: Attempt) -> None:
    """Log a failure in a call that continued after its request had ended, for other readers or to be resumed."""
    fields = {"request_id": request_id, "endpoint": endpoint, "model": model, **_attempt_fields(attempt)}
    log.warning("a call failed after its client had disconnected", extra={"fields": fields})


def log_tool_call(request_id: str, call: ToolCallSummary) -> None:
    """Log a call of a tool that the gateway ran: never its arguments or its result."""
    fields = {
        "request_id": request_id,
        "server": call.server,
        "tool": call.tool,
        "outcome": call.outcome,
        "ms": call.milliseconds,
        "bytes": call.size,
    }
    _tool_log.log(logging.INFO if call.outcome == "ok" else logging.WARNING, "tool", extra={"fields": fields})


def _attempt_fields(attempt: Attempt) -> dict[str, Any]:
    fields = {"upstream": attempt.upstream, "address": attempt.address, "ms": attempt.milliseconds}
    return fields | ({"cause": attempt.cause, "reason": attempt.reason} if attempt.cause else {})


def log_plain_request(
    request_id: str,
    method: str,
    path: str,
    status: int,
    error: str | None,
    seconds: float,
    *,
    key: str = "",
    client: str = "",
) -> None:
    """Log a request that has no RequestRecord. Health checks that succeed, and the metrics, are logged at debug level.
    `key` is the name of the API key. `client` is the address of the client, given for requests that were refused before
    their endpoint was called."""
    level = logging.DEBUG if path in _HEALTH_PATHS and status < 400 else logging.INFO
    if log.isEnabledFor(level):
        fields: dict[str, Any] = {"request_id": request_id, "method": method, "path": _hide_secrets(path)}
        fields |= {"key": key} if key else {}
        fields["status"] = status
        fields |= {"error": error} if error else {}
        fields |= {"client": client} if client else {}
        _log_fields(level, time.time(), shorten(fields) | {"ms": round(seconds * 1000, 1)})


_HEALTH_PATHS = ("/healthz", "/readyz", "/metrics")


def _hide_secrets(text: str) -> str:
    """Return what a caller has written, a path or the name of a model, up to what may be a secret. A question mark in a
    path was encoded by mistake: a query follows it, as clients of Google's API send their key."""
    found = [place.start for place in find_secrets_in_log(text)]
    end = min([*found, text.find("?") + 1 or len(text)])
    return text if end == len(text) else f"{text[:end]}…"


MAX_TEXT = 512
"""The limit of one value, in characters: values from callers, such as a model or metadata, may have any length."""
MAX_ITEMS = 16
"""The limit of one list or object. OpenAI allows as many pairs of metadata, and values as long as MAX_TEXT."""
MAX_MESSAGE = 8000
MAX_EXCEPTION = 32_000
_MAX_DEPTH = 3


def shorten(value: Any, depth: int = 0) -> Any:
    """Shorten a value for a log line and count what is left out. Shortening it again changes nothing."""
    if isinstance(value, str):
        return shorten_text(value, MAX_TEXT)
    if isinstance(value, Mapping):
        if depth == _MAX_DEPTH:
            return f"… ({len(value)} items)"
        most = _shown_count(value)
        items = [(shorten_text(str(key), 100), item) for key, item in itertools.islice(value.items(), most)]
        rest = {"…": f"{len(value) - most} more"} if len(value) > most else {}
        return {key: shorten(item, depth + 1) for key, item in items} | rest
    if isinstance(value, (list, tuple)):
        if depth == _MAX_DEPTH:
            return f"… ({len(value)} items)"
        most = _shown_count(value)
        more = [f"… {len(value) - most} more"] if len(value) > most else []
        return [shorten(item, depth + 1) for item in value[:most]] + more
    if value is None or isinstance(value, bool) or (isinstance(value, (int, float)) and abs(value) < 2**63):
        return value
    return "… (a large number)" if isinstance(value, (int, float)) else shorten_text(repr(value), MAX_TEXT)


def _shown_count(items: Sized) -> int:
    """Return how many items to show: up to MAX_ITEMS + 1 all of them, else MAX_ITEMS and a count of the rest."""
    return len(items) if len(items) <= MAX_ITEMS + 1 else MAX_ITEMS


def shorten_text(text: str, most: int) -> str:
    return text if len(text) <= most + _COUNT_LENGTH else f"{text[:most]}… ({len(text)} characters)"


_COUNT_LENGTH = 40
"""An upper limit on the length of the count of what is left out."""


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Line ends, terminal controls, characters that change the direction of text, and half surrogate pairs."""


def escape_control_characters(text: str) -> str:
    """Replace control characters by `\\uXXXX`, so that they cannot end a line or control a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _short_fields(record: logging.LogRecord) -> Any:
    fields = getattr(record, "fields", {})
    return fields if getattr(record, "shortened", False) else shorten(fields)


_encode_leniently = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _encode_json(line: dict[str, Any]) -> str:
    """Encode a line. What JSON cannot express, such as half a surrogate pair, is left to the lenient encoder."""
    try:
        return msgspec.json.encode(line).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
        return _encode_leniently(line)


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON."""

    def __init__(self) -> None:
        super().__init__()
        self._second = 0
        self._second_text = self._offset = ""

    def _format_time(self, record: logging.LogRecord) -> str:
        """Return the local time with its offset from UTC, as in RFC 3339."""
        second = int(record.created)
        if second != self._second:
            local = time.localtime(second)
            offset = time.strftime("%z", local)
            self._second, self._second_text = second, time.strftime("%Y-%m-%dT%H:%M:%S", local)
            self._offset = f"{offset[:3]}:{offset[3:5]}"
        return f"{self._second_text}.{int(record.msecs):03d}{self._offset}"

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self._format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": shorten_text(record.getMessage(), MAX_MESSAGE),
            **_short_fields(record),
        }
        if record.exc_info:
            line["exception"] = _shorten_traceback(self.formatException(record.exc_info))
        return _escape_json(_hide_keys(_encode_json(line)))


_KEY = re.compile(r"(?<![\w-])parley-[\w-]{43}(?![\w-])", re.ASCII)
"""A key as `app.access.make_key` makes it. Callers put theirs into a path or into the name of a model."""


def _hide_keys(text: str) -> str:
    return text if "parley-" not in text else _KEY.sub("parley-…", text)


def _escape_json(text: str) -> str:
    """Replace control characters in JSON, which itself escapes those of ASCII but one."""
    return text if text.isascii() and "\x7f" not in text else escape_control_characters(text)


_COLORS = {"WARNING": "33", "ERROR": "31", "CRITICAL": "31"}


class ConsoleFormatter(logging.Formatter):
    """Formats each record as one line of text: time, level, message, and the fields as `name=value`."""

    def __init__(self, *, color: bool) -> None:
        super().__init__()
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        zone = self.formatTime(record, "%z")
        time_of_day = f"{self.formatTime(record, '%H:%M:%S')}.{int(record.msecs):03d}{zone[:3]}:{zone[3:]}"
        level = f"{record.levelname.lower():7}"
        message = escape_control_characters(shorten_text(record.getMessage(), MAX_MESSAGE))
        fields = _short_fields(record)
        text = " ".join(f"{escape_control_characters(name)}={_console_value(value)}" for name, value in fields.items())
        line = f"{self._colorize(time_of_day, '2')} {self._colorize(level, _COLORS.get(record.levelname))} {message}"
        line += f"  {text}" if text else ""
        if record.exc_info:
            traceback = _shorten_traceback(self.formatException(record.exc_info))
            line += "".join(f"\n    {escape_control_characters(row)}" for row in traceback.split("\n"))
        return _hide_keys(line)

    def _colorize(self, text: str, color: str | None) -> str:
        return f"\x1b[{color}m{text}\x1b[0m" if self._color and color else text


def _console_value(value: Any) -> str:
    """Format single words as they are and other values as JSON."""
    plain = isinstance(value, str) and re.fullmatch(r"[^\s\"'=,{}\[\]]+", value)
    return escape_control_characters(value if plain else json.dumps(value, ensure_ascii=False))


def _shorten_traceback(text: str) -> str:
    """Cut the middle of a long traceback: its end says what happened, its beginning where it came from."""
    half = MAX_EXCEPTION // 2
    if len(text) <= MAX_EXCEPTION:
        return text
    return f"{text[:half]}\n… ({len(text) - 2 * half} characters left out)\n{text[-half:]}"


def log_format(setting: Literal["auto", "console", "json"], stream: TextIO) -> Literal["console", "json"]:
    """Return the format for a stream: `auto` means text on a terminal, else JSON."""
    if setting != "auto":
        return setting
    return "console" if stream.isatty() else "json"


def configure(level: str, setting: Literal["auto", "console", "json"] = "auto") -> None:
    """Log everything to stderr, one line per record, through a queue that never blocks."""
    stream = sys.stderr
    formatter: logging.Formatter = JsonFormatter()
    if log_format(setting, stream) == "console":
        formatter = ConsoleFormatter(color=stream.isatty() and not os.environ.get("NO_COLOR"))

    def dropped_line(count: int) -> str:
        text = "log lines were dropped, because what reads the log was too slow"
        record = logging.LogRecord("parley.log", logging.WARNING, "", 0, text, (), None)
        record.fields = {"dropped": count}
        return formatter.format(record)

    handler = QueuedHandler(stream, dropped_line)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").disabled = True
    set_level(level)


def set_level(level: str) -> None:
    """Set the lowest level that is logged."""
    logging.root.setLevel(level.upper())
    for name in ("uvicorn.error", "watchfiles.main"):  # at info level, their lines repeat ours
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else logging.WARNING)


def flush() -> None:
    """Wait until the lines so far are written, at most two seconds."""
    for handler in logging.root.handlers:
        handler.flush()
