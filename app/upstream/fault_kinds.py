"""Classify a model server's errors: by the words of the message, else by the status. Parse Retry-After."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER = 120.0
"""The limit of a server's `Retry-After`, in seconds. A longer wait is cut to it."""


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds to wait, from `retry-after-ms`, else from `retry-after` as a number or a date.

    None when both are absent, unreadable or in the past. Header names must be in lower case.
    """
    try:
        if "retry-after-ms" in headers:
            return _cap_seconds(float(headers["retry-after-ms"]) / 1000)
    except ValueError:
        pass
    value = headers.get("retry-after", "").strip()
    try:
        return _cap_seconds(float(value))
    except ValueError:
        duration = _parse_duration(value)
        return _seconds_until(value, now) if duration is None else _cap_seconds(duration)


def parse_limit_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a limit is renewed, from OpenAI's `x-ratelimit-reset-requests` and `-tokens` (`6m0s`,
    `120ms`, or seconds). Of two limits it is the one of which nothing remains, else the one that is renewed first."""
    waits: list[tuple[bool, float]] = []
    for name in ("requests", "tokens"):
        value = headers.get(f"x-ratelimit-reset-{name}", "").strip()
        seconds = float(value) if _SECONDS.fullmatch(value) else _parse_duration(value)
        if seconds is not None and seconds < _MAX_RESET:
            waits.append((headers.get(f"x-ratelimit-remaining-{name}", "").strip() != "0", seconds))
    return _cap_seconds(min(waits)[1]) if waits else None


_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_DURATION = re.compile(
    r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m(?!s))?(?:([0-9]{1,9}(?:\.[0-9]{1,12})?)s)?(?:([0-9.]{1,12})ms)?"
)
_MAX_RESET = 86_400 * 31
"""More seconds are a point in time."""


def _parse_duration(text: str) -> float | None:
    """Return the seconds of `30s`, `1m30s`, `1h0m0s` or `120ms`; None for any other text."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    try:
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    except ValueError:
        return None
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        when = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return _cap_seconds((when - now).total_seconds())


def _cap_seconds(seconds: float) -> float | None:
    return min(seconds, MAX_RETRY_AFTER) if seconds > 0 else None


TRANSIENT = frozenset({"rate_limit", "overloaded", "timeout", "server_error", "upstream_incomplete", "tool_use_failed"})
"""The kinds after which the same request may succeed later."""

MAX_WORDS = 8192
"""How many characters of an error are searched. Of a longer one, only its beginning and its end."""

# The Chinese words: QuantumNous/new-api issues 991 and 6306, songquanpeng/one-api issue 1061, and the error codes of
# docs.bigmodel.cn.
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
            r"max_prompt_tokens|string_above_max_length|context_window|max_tokens must be at least 1, got -|"
            r"(输入|上下文|提示)\w{0,20}(过长|超长|超出|超过)",
        ),
        (
            "insufficient_quota",
            r"insufficient[_ ](quota|balance|credits?|funds)|exceeded_current_quota|exceeded your current quota|"
            r"usage limit|balance is insufficient|billing_hard_limit|account balance|arrearage|"
            r"billing_not_active|out of credits|quota (has been )?exhausted|payment required|quota is not enough|"
            r"(余额|额度|资源包)\w{0,12}(不足|失败|用尽|用完)|欠费",
        ),
        (
            "content_filter",
            r"content_filter|data_inspection_failed|datainspectionfailed|responsibleaipolicyviolation|"
            r"content management policy|inappropriate content|content_policy|moderation|sensitive content|"
            r"output new_sensitive|input new_sensitive|敏感内容",
        ),
        (
            "overloaded",
            r"overloaded|engine_overloaded|loading model|model is (still |currently )?loading|"
            r"no (available|healthy) (worker|server|instance)|at capacity|server is busy|over capacity|"
            r"(负载|访问量)\w{0,8}(饱和|过高|过大|已满)|(系统|服务|服务器)繁忙",
        ),
        (
            "invalid_request",
            r"jinja|chat template|template error|roles must alternate|only user(, | and )assistant|"
            r"must be passed back|unsupported_(parameter|value)|is not supported with this model|"
            r"(image|audio|video|vision|multimodal|file)s?( inputs?| content)? (is|are) not supported|"
            r"does not support (image|audio|video|vision|multimodal|file|tool|function)|"
            r"\d+ validation errors? for \w|requires? --(jinja|mmproj)|unsupported content\[\]\.type",
        ),
        (
            "rate_limit",
            r"rate[_ -]?limit|too many requests|requests per (minute|second|day)|tokens per (minute|day)|"
            r"throttl(ed|ing)|(速率|频率)限制|请求过于频繁",
        ),
        (
            "authentication",
            r"invalid_api_key|incorrect api key|invalid api key|invalid_authentication|unauthori[sz]ed|"
            r"无效的令牌|令牌(无效|已过期)|身份验证失败",
        ),
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


def by_number(code: object) -> str | None:
    """Return the kind of one of MiniMax's `base_resp` status codes."""
    return _BASE_RESP.get(code) if isinstance(code, int) else None


def by_words(words: str) -> str | None:
    """Return the kind whose pattern matches the error's code, type and message; None when no pattern does."""
    if len(words) > MAX_WORDS:
        words = f"{words[: MAX_WORDS // 2]} {words[-MAX_WORDS // 2 :]}"
    return next((kind for kind, pattern in _BY_WORDS if pattern.search(words)), None)


def by_status(status: int | None, code: int | None, type_: str) -> str:
    """Return the kind for an HTTP status; for an error inside a 200 response, for the status in its `code` field."""
    effective = status if status is not None and status >= 400 else code
    if effective is None:
        return "invalid_request" if "invalid_request" in type_ or "badrequest" in type_.lower() else "server_error"
    if effective in _BY_STATUS:
        return _BY_STATUS[effective]
    return "invalid_request" if 400 <= effective < 500 else "server_error"


def http_status(value: object) -> int | None:
    """Return the value as an HTTP error status, 400 to 599, if it is one, as a number or as digits."""
    if isinstance(value, str) and re.fullmatch("[45][0-9]{2}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else None
