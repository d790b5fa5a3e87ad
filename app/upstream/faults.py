"""What a model server's error means: any error body into one `Fault` with a kind from a closed list.

The words of the error decide before its HTTP status does: a 500 may be a chat template that refuses the messages, a 429
an empty account, a 403 a quota, a 200 an error. HTML never reaches a caller, nor does what looks like a key.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from app.chat.events import Fault
from app.upstream.nesting import too_deep

TRANSIENT = frozenset({"rate_limit", "overloaded", "timeout", "server_error", "upstream_incomplete", "tool_use_failed"})
"""The kinds after which the same request may work later."""

MAX_MESSAGE = 2000
MAX_WORDS = 8192
"""Of an error, how many characters are searched: the cause stands at the beginning or at the end."""
MAX_RETRY_AFTER = 120.0
"""Seconds; what servers ask beyond is cut to it."""

_BY_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("tool_use_failed", r"tool_use_failed|failed to call a function"),
        (
            "context_length_exceeded",
            r"context_length_exceeded|exceed_context_size|maximum context length|context (length|window|size) "
            r"(limit|exceeded)|longer than the model'?s context|exceeds? the (available |model'?s )?context|"
            r"exceeded model token limit|`inputs` tokens \+ `max_new_tokens`|maximum (input|prompt) length|"
            r"(prompt|input|request)[^.]{0,40} (is )?too (long|many tokens)|range of input length should be|"
            r"max_prompt_tokens|string_above_max_length|context_window",
        ),
        (
            "insufficient_quota",
            r"insufficient[_ ](quota|balance|credits?|funds)|exceeded_current_quota|exceeded your current quota|"
            r"usage limit|balance is insufficient|billing_hard_limit|account balance|arrearage|"
            r"billing_not_active|out of credits|quota (has been )?exhausted|payment required",
        ),
        (
            "content_filter",
            r"content_filter|data_inspection_failed|datainspectionfailed|responsibleaipolicyviolation|"
            r"content management policy|inappropriate content|content_policy|moderation|sensitive content|"
            r"output new_sensitive|input new_sensitive",
        ),
        (
            "overloaded",
            r"overloaded|engine_overloaded|loading model|model is (still |currently )?loading|"
            r"no (available|healthy) (worker|server|instance)|at capacity|server is busy|over capacity",
        ),
        (
            "invalid_request",
            r"jinja|chat template|template error|roles must alternate|only user(, | and )assistant|"
            r"must be passed back|unsupported_(parameter|value)|is not supported with this model",
        ),
        ("rate_limit", r"rate[_ -]?limit|too many requests|requests per (minute|second|day)|tokens per (minute|day)"),
        ("authentication", r"invalid_api_key|incorrect api key|invalid api key|invalid_authentication|unauthori[sz]ed"),
        ("not_found", r"model_not_found|notfounderror|model [^ ]{1,200} (does not exist|not found)|no such model"),
        (
            "timeout",
            r"(request|upstream|gateway|generation|idle) ?(has )?timed? ?out$|a timeout occurred|deadline exceeded",
        ),
    )
)

_BY_STATUS = {
    400: "invalid_request",
    401: "authentication",
    402: "insufficient_quota",
    403: "permission",
    404: "not_found",
    408: "timeout",
    424: "server_error",
    425: "overloaded",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    522: "timeout",
    524: "timeout",
    529: "overloaded",
}

_BASE_RESP = {1002: "rate_limit", 1004: "authentication", 1008: "insufficient_quota", 1026: "content_filter"}
_BASE_RESP |= {
    1027: "content_filter",
    1039: "rate_limit",
    1041: "rate_limit",
    2013: "invalid_request",
    2049: "authentication",
}

_SECRET = re.compile(
    r"\b(?:sk|pk|gsk|xai|nvapi|hf|csk|fw|r8|pplx|tgp)[-_][\w*.\-]+|\bbearer\s+[\w*.\-+/=]{4,}|"
    r"(?<=key provided: )\S+|\bAIza[\w*\-]+",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,200}?)\s*</title", re.IGNORECASE)
_HTML = re.compile(r"^\s*<(?:!doctype|html|head|body|\?xml|center|h1)", re.IGNORECASE)


def made(kind: str, message: str, **fields: Any) -> Fault:
    """A fault that the gateway itself noticed."""
    return Fault(kind, message, kind in TRANSIENT, **fields)


def protocol(data: bytes) -> Fault:
    """A reply of 200 that is no reply: HTML, or garbage between the events."""
    text = data.decode("utf-8", "replace")
    if _HTML.match(text):
        return made(
            "upstream_protocol", f"the model server sent a web page{_titled(text)}; is its base_url right?", status=200
        )
    return made("upstream_protocol", "the model server sent something that is no JSON in its reply")


def from_response(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Fault:
    """The fault of an HTTP error response; header names in lower case."""
    return from_body(body, status, retry_after(headers, now))


def from_body(body: bytes, status: int | None, retry_after_seconds: float | None = None) -> Fault:
    text = body.decode("utf-8", "replace").strip()
    value = _parsed(text)
    if isinstance(value, dict | list):
        return from_object(value, status, retry_after_seconds)
    if isinstance(value, str):
        text = value
    if _HTML.match(text):
        message = f"the model server answered with a web page{_titled(text)}"
    else:
        message = text or "the model server gave no reason"
    return _fault("" if _HTML.match(text) else text, message, status, retry_after_seconds)


def from_object(value: Any, status: int | None, retry_after_seconds: float | None = None) -> Fault:
    """The fault in a JSON value of any of the shapes that servers use (docs/errors.md lists them)."""
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), {})
    base = value.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (0, None):
        return _base_resp(base, status, retry_after_seconds)
    error = value.get("error")
    source = error if isinstance(error, dict) else value
    message = _message(error if isinstance(error, str) else source)
    code, type_ = source.get("code"), source.get("type") or value.get("error_type")
    inner = source.get("innererror")
    inner_code = inner.get("code") if isinstance(inner, dict) else None
    words = " ".join(str(word) for word in (code, type_, inner_code, message) if word is not None)
    return _fault(
        words,
        message or "the model server gave no reason",
        status,
        retry_after_seconds,
        code=_http_status(code) or _http_status(source.get("status")) or _http_status(source.get("status_code")),
        type_=str(type_ or ""),
        detail=_detail(source),
    )


def _base_resp(base: dict[str, Any], status: int | None, wait: float | None) -> Fault:
    message = str(base.get("status_msg") or "the model server gave no reason")
    code = base.get("status_code")
    kind = (_BASE_RESP.get(code) if isinstance(code, int) else None) or _by_words(message) or "server_error"
    return Fault(kind, _clean(message), kind in TRANSIENT, status, wait)


def _message(source: Any) -> str:
    """The most telling text of an error: what the provider behind a relay said, before what the relay said."""
    if isinstance(source, str):
        return source
    metadata = source.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if raw:
        nested = _nested(raw)
        if nested:
            return nested
    for key in ("message", "detail", "msg", "error_description", "error", "title"):
        text = _flat(source.get(key))
        if text:
            return _nested(text) if text.startswith(("{", "[")) else text
    return ""


def _nested(raw: Any) -> str:
    if isinstance(raw, str):
        text, raw = raw, _parsed(raw)
        if raw is None:
            return text
    if isinstance(raw, list):
        raw = next((item for item in raw if isinstance(item, dict)), {})
    if not isinstance(raw, dict):
        return str(raw)
    error = raw.get("error")
    return _message(error if isinstance(error, dict | str) and error else raw)


def _parsed(text: str) -> Any:
    """None for what is no JSON."""
    if too_deep(text.encode("utf-8", "replace")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _flat(value: Any) -> str:
    """A message that may be a list of FastAPI's violations."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _flat(value.get("message") or value.get("msg") or value.get("error"))
    if isinstance(value, list):
        pieces = []
        for item in value:
            loc = item.get("loc") if isinstance(item, dict) else None
            where = ".".join(str(step) for step in loc) if isinstance(loc, list) else ""
            text = _flat(item)
            pieces.append(f"{where}: {text}" if where else text)
        return "; ".join(piece for piece in pieces if piece)
    return ""


def _fault(
    words: str,
    message: str,
    status: int | None,
    wait: float | None,
    *,
    code: int | None = None,
    type_: str = "",
    detail: Any = None,
) -> Fault:
    kind = _by_words(words) or _by_status(status, code, type_)
    if kind == "permission" and "quota" in words.lower():
        kind = "insufficient_quota"
    return Fault(kind, _clean(message), kind in TRANSIENT, status, wait, detail)


def _by_words(words: str) -> str | None:
    if len(words) > MAX_WORDS:
        words = f"{words[: MAX_WORDS // 2]} {words[-MAX_WORDS // 2 :]}"
    return next((kind for kind, pattern in _BY_WORDS if pattern.search(words)), None)


def _by_status(status: int | None, code: int | None, type_: str) -> str:
    """An error inside a reply of 200 says its status in `code`."""
    effective = status if status is not None and status >= 400 else code
    if effective is None:
        return "invalid_request" if "invalid_request" in type_ or "badrequest" in type_.lower() else "server_error"
    if effective in _BY_STATUS:
        return _BY_STATUS[effective]
    return "invalid_request" if 400 <= effective < 500 else "server_error"


def _http_status(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch("[45][0-9]{2}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else None


def _detail(source: dict[str, Any]) -> Any:
    failed = source.get("failed_generation")
    return {"failed_generation": _clean(failed)} if isinstance(failed, str) else None


def _titled(html: str) -> str:
    title = _TITLE.search(html, 0, MAX_WORDS)
    return f" ({title.group(1)})" if title else ""


def _clean(message: str) -> str:
    """Without keys, control characters and surplus length."""
    message = _SECRET.sub("[redacted]", message[: MAX_MESSAGE * 2])
    message = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in message)
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait: `retry-after-ms`, then `retry-after` as a number or a date; None when absent or past."""
    try:
        if "retry-after-ms" in headers:
            return _bounded(float(headers["retry-after-ms"]) / 1000)
    except ValueError:
        pass
    value = headers.get("retry-after", "")
    try:
        return _bounded(float(value))
    except ValueError:
        return _until(value, now)


def _until(date: str, now: datetime) -> float | None:
    try:
        when = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return _bounded((when - now).total_seconds())


def _bounded(seconds: float) -> float | None:
    return min(seconds, MAX_RETRY_AFTER) if seconds > 0 else None
