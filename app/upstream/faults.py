"""Parse a model server's error, in any of the shapes servers use, into a `Fault` with a kind from a closed list.

The words of the error take precedence over its HTTP status: a 500 may be a chat template that refuses the messages, a
429 an empty account, a 403 an exhausted quota, and a 200 may carry an error. Callers never see HTML or anything that
looks like an API key.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.chat.events import Fault
from app.upstream.fault_kinds import (
    MAX_WORDS,
    TRANSIENT,
    by_number,
    by_status,
    by_words,
    http_status,
    parse_limit_reset,
    parse_retry_after,
)
from app.upstream.reply.chunk import is_too_deep
from app.upstream.token_limits import find_output_limit

MAX_MESSAGE = 2000
_MAX_TOKENS = "generate_cfg.max_tokens"
_PERHAPS_OUTPUT_LIMIT = (None, "context_length_exceeded", "invalid_request")
"""The kinds of messages that may be about the limit of output tokens."""
_REFUSALS = (200, 400, 413, 422, 500, 503)
"""The statuses with which servers refuse a parameter. A 402 or 429 is about credits."""

SECRET_SHAPES = re.compile(
    r"\b(?:sk|pk|gsk|xai|nvapi|hf|csk|fw|r8|pplx|tgp)[-_][\w*.\-]+|\bbearer\s+[\w*.\-+/=]{4,}|"
    r"(?<=key provided: )\S+|\bAIza[\w*\-]+",
    re.IGNORECASE,
)
_MESSAGES = (
    *("message", "detail", "msg", "error_msg", "error_description", "error", "errors", "title", "Message", "Msg"),
    *("faultstring", "reason"),
)
"""The fields of an error's text, the first of them before the others."""
_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,200}?)\s*</title", re.IGNORECASE)
_SUCCESS_CODE = re.compile(r"0*|2\d\d|ok|success|succeeded|successful|none|null", re.IGNORECASE)
_FAILURE_WORD = re.compile(
    r"(?<![a-z])(?i:error|fail|failed|failure|exception)(?![a-z])|[a-z](Error|Exception|Failure)\b"
)
_JSON_BEGINNINGS = ("{", '"', "[{", '["')
_MESSAGE_KEYS = frozenset(("message", "msg", "code", "id", "request_id", "requestId", "requestid", "timestamp", "data"))
_HTML = re.compile(r"^\s*<(?:!doctype|html|head|body|\?xml|center|h1)", re.IGNORECASE)


def make_fault(kind: str, message: str, **fields: Any) -> Fault:
    """Build a fault that the gateway itself found."""
    return Fault(kind, message, kind in TRANSIENT, **fields)


def make_protocol_fault(data: bytes, reason: str = "") -> Fault:
    """Build the fault of a 200 response that is not a reply: HTML, an error in words, or data that is not JSON."""
    if reason:
        return make_fault("upstream_protocol", reason, status=200)
    text = data.decode("utf-8", "replace")
    if _HTML.match(text):
        return make_fault(
            "upstream_protocol",
            f"the model server sent a web page{_title_suffix(text)}; is its base_url right?",
            status=200,
        )
    if not text.lstrip().startswith(_JSON_BEGINNINGS) and (_names_failure(text) or by_words(text) is not None):
        return from_body(data, None)
    return make_fault("upstream_protocol", "the model server's reply contains data that is not valid JSON")


def from_response(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Fault:
    """Parse an HTTP error response. Header names must be in lower case."""
    wait = parse_retry_after(headers, now)
    return from_body(body, status, parse_limit_reset(headers) if wait is None and status == 429 else wait)


def from_body(body: bytes, status: int | None, retry_after_seconds: float | None = None) -> Fault:
    """Parse an error body: JSON, HTML or plain text."""
    text = body.decode("utf-8", "replace").strip()
    value = _parse_json(text)
    if isinstance(value, dict | list):
        return from_object(value, status, retry_after_seconds)
    if isinstance(value, str):
        text = value
    if _HTML.match(text):
        message = f"the model server answered with a web page{_title_suffix(text)}"
    else:
        message = text or "the model server gave no reason"
    return _classify("" if _HTML.match(text) else text, message, status, retry_after_seconds)


def from_object(value: Any, status: int | None, retry_after_seconds: float | None = None) -> Fault:
    """Parse an error from a JSON value in any of the shapes that docs/reference/errors.md lists."""
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), {})
    base = value.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (0, None):
        return _from_base_resp(base, status, retry_after_seconds)
    error = value.get("error")
    if error is None and (source := _find_named_error(value)) is not None:
        return from_object({**value, "error": source}, status, retry_after_seconds)
    source = error if isinstance(error, dict) else value
    message = find_message(error if isinstance(error, str) else source)
    first = source.get("errors")
    first = first[0] if isinstance(first, list) and first else first
    inner_error = first if isinstance(first, dict) else {}
    code = inner_error.get("code") if source.get("code") is None else source.get("code")
    type_ = source.get("type") or source.get("__type") or value.get("error_type") or inner_error.get("type")
    inner = source.get("innererror")
    inner_code = inner.get("code") if isinstance(inner, dict) else None
    words = " ".join(str(word) for word in (code, type_, inner_code, message) if word is not None)
    return _classify(
        words,
        message or "the model server gave no reason",
        status,
        retry_after_seconds,
        code=http_status(code) or http_status(source.get("status")) or http_status(source.get("status_code")),
        type_=str(type_ or ""),
        detail=_find_detail(source),
    )


def _find_named_error(value: dict[str, Any]) -> Any:
    """Return the error of an object that has it under another name than `error` and has no message of its own."""
    if any(value.get(name) for name in _MESSAGES):
        return None
    nested = find_nested_error(value)
    holder = value if nested is None else nested
    names = [name for name in holder if isinstance(holder[name], dict | str) and _is_failure_key(name)]
    return next((holder[name] for name in names if holder[name] and name not in _MESSAGES), None)


def reports_failure(value: Mapping[str, Any]) -> bool:
    """Whether an object that is not a part of a reply says that something failed.

    It does by `error` and other fields that begin with `err` or have the name of a failure, also one level deeper, by
    `detail`, by `success: false`, by a word or number in `status`, `type`, `object` or `code`, by a message with a code
    that does not stand for success, or by a message alone that names a failure.
    """
    if value.get("detail") or value.get("success") is False:
        return True
    if "choices" not in value and find_nested_error(value) is not None:
        return True
    if any(_is_failure_key(name) and not is_success(value[name]) for name in value):
        return True
    if any(_names_failure(value.get(name)) for name in ("status", "type", "object", "event", "__type")):
        return True
    if any(http_status(value.get(name)) is not None for name in ("code", "status", "status_code", "statusCode")):
        return True
    message = value.get("message") or value.get("msg")
    if not message or is_success(message):
        return False
    return not is_success(value.get("code")) or _says_failure(message, value)


def _says_failure(message: Any, value: Mapping[str, Any]) -> bool:
    """Whether a message is all that an object has, and is in the words of a failure: AWS's API Gateway sends
    `{"message": "Internal server error"}`."""
    if not isinstance(message, str) or not value.keys() <= _MESSAGE_KEYS:
        return False
    return _names_failure(message) or by_words(message) is not None


def find_nested_error(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the object with an error that is the value of a field: `{"Response": {"Error": {…}}}` (Tencent Cloud)."""
    for inner in value.values():
        if isinstance(inner, dict):
            errors = (inner[name] for name in inner if name.lower() in ("error", "errors"))
            if any(isinstance(error, dict | str) and error for error in errors):
                return inner
    return None


def _is_failure_key(name: str) -> bool:
    return name[:3].lower() == "err" or name.lower() in ("fault", "exception", "failure") or _names_failure(name)


def _names_failure(word: Any) -> bool:
    """Whether a word such as `error`, `failed`, `response.failed` or `InternalServerError` stands for a failure."""
    return isinstance(word, str) and _FAILURE_WORD.search(word[:MAX_WORDS]) is not None


def is_success(code: Any) -> bool:
    """Whether a code or message is absent, or stands for success: 0, "200", "ok"."""
    if isinstance(code, str):
        return _SUCCESS_CODE.fullmatch(code.strip()) is not None
    return not code or (isinstance(code, int) and (code is True or 200 <= code < 300))


def is_empty_error(error: Any) -> bool:
    """Whether an `error` says nothing: songquanpeng/one-api writes one with empty fields into replies that succeed."""
    return isinstance(error, dict) and all(map(is_success, error.values()))


def _from_base_resp(base: dict[str, Any], status: int | None, wait: float | None) -> Fault:
    message = str(base.get("status_msg") or "the model server gave no reason")
    code = base.get("status_code")
    kind = by_number(code) or by_words(message) or "server_error"
    return Fault(kind, _clean(message), kind in TRANSIENT, status, wait)


def find_message(source: Any) -> str:
    """Return the most specific message of an error: that of the provider behind a relay (OpenRouter), before the
    relay's own; "" if there is none."""
    if isinstance(source, str):
        return _find_nested_message(source) if source.startswith(("{", "[")) else source
    metadata = source.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if raw:
        nested = _find_nested_message(raw)
        if nested:
            return nested
    for key in _MESSAGES:
        text = _flatten_message(source.get(key))
        if text:
            return _find_nested_message(text) if text.startswith(("{", "[")) else text
    return ""


def _find_nested_message(raw: Any) -> str:
    if isinstance(raw, str):
        text, raw = raw, _parse_json(raw)
        if raw is None:
            return text
    if isinstance(raw, list):
        raw = next((item for item in raw if isinstance(item, dict)), {})
    if not isinstance(raw, dict):
        return str(raw)
    error = raw.get("error")
    return find_message(error if isinstance(error, dict | str) and error else raw)


def _parse_json(text: str) -> Any:
    """Parse JSON; None for text that is not JSON or is nested too deeply."""
    if is_too_deep(text.encode("utf-8", "replace")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _flatten_message(value: Any) -> str:
    """Return the text of a message that may be an object, or a list of FastAPI's validation errors."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _flatten_message(value.get("message") or value.get("msg") or value.get("error"))
    if isinstance(value, list):
        lines = []
        for item in value:
            loc = item.get("loc") if isinstance(item, dict) else None
            path = ".".join(str(step) for step in loc) if isinstance(loc, list) else ""
            text = _flatten_message(item)
            lines.append(f"{path}: {text}" if path else text)
        return "; ".join(line for line in lines if line)
    return ""


def _classify(
    words: str,
    message: str,
    status: int | None,
    wait: float | None,
    *,
    code: int | None = None,
    type_: str = "",
    detail: Any = None,
) -> Fault:
    found = by_words(words)
    limit = find_output_limit(message[:MAX_WORDS]) if found in _PERHAPS_OUTPUT_LIMIT else None
    if limit is not None and (status is None or status in _REFUSALS):
        text = _clean(f"{_MAX_TOKENS} is too large for this model: {message}")
        return Fault("invalid_request", text, False, status, wait, limit.to_detail(), param=_MAX_TOKENS)
    kind = found or by_status(status, code, type_)
    if kind == "permission" and "quota" in words.lower():
        kind = "insufficient_quota"
    return Fault(kind, _clean(message), kind in TRANSIENT, status, wait, detail)


def _find_detail(source: dict[str, Any]) -> Any:
    failed = source.get("failed_generation")
    return {"failed_generation": _clean(failed)} if isinstance(failed, str) else None


def _title_suffix(html: str) -> str:
    title = _TITLE.search(html, 0, MAX_WORDS)
    return f" ({title.group(1)})" if title else ""


def _clean(message: str) -> str:
    """Remove API keys and control characters, and cut the message to MAX_MESSAGE characters, ending with `…`."""
    cut = len(message) > MAX_MESSAGE * 2
    message = SECRET_SHAPES.sub("[redacted]", message[: MAX_MESSAGE * 2])
    message = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in message)
    return message[: MAX_MESSAGE - 1] + "…" if cut or len(message) > MAX_MESSAGE else message
