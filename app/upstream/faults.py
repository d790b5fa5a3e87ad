"""Parse a model server's error, in any of the shapes servers use, into a `Fault` with a kind from a closed list.

The words of the error take precedence over its HTTP status: a 500 may be a chat template that refuses the messages, a
429 an empty account, a 403 an exhausted quota, and a 200 may carry an error. Callers never see HTML or anything that
looks like an API key.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec.structs import replace

from app.chat.events import Fault
from app.errors import find_code
from app.upstream.google_errors import GoogleError, read_google_error
from app.upstream.long_prompts import is_long_prompt
from app.upstream.reply.chunk import is_too_deep
from app.upstream.token_limits import find_excess, find_output_limit

MAX_RETRY_AFTER = 120.0
"""The limit of a server's `Retry-After`, in seconds. A longer wait is cut to it."""
MAX_PARAM_CHARS = 200
"""The limit of the name of a parameter that a server refuses."""
_MAX_SPACES = 3
"""In such a name. MiMo has a sentence there, and "Param Incorrect" as the message (decolua/9router#1321)."""


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
_WAIT = re.compile(
    r"\b(?:try again|retry|wait|available)\b[^\d\n]{0,30}(?=\d)"
    r"(?:([0-9]{1,6}(?:\.[0-9]{1,12})?) ?(milliseconds?|seconds?|secs?|minutes?|mins?)\b|"
    r"((?:[0-9]{1,6}h)?(?:[0-9]{1,6}m(?!s))?(?:[0-9]{1,9}(?:\.[0-9]{1,12})?s)?(?:[0-9.]{1,12}ms)?)(?![\w.]\w))",
    re.IGNORECASE,
)
"""A wait in words: "try again in 7.66s" (OpenAI), "retry after 26 seconds" (Azure), "Wait 29s."
(lbjlaq/Antigravity-Manager issue 3414)."""
_UNITS = {"mil": 0.001, "sec": 1.0, "min": 60.0}


def find_wait(message: str) -> float | None:
    """Return the seconds to wait that a message names."""
    match = _WAIT.search(message)
    if match is None:
        return None
    number, unit, duration = match.groups()
    seconds = _parse_duration(duration) if number is None else float(number) * _UNITS[unit[:3].lower()]
    return None if seconds is None else _cap_seconds(seconds)


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


MAX_WORDS = 8192
"""How many characters of an error are searched. Of a longer one, only its beginning and its end."""

# The Chinese words: QuantumNous/new-api issues 991 and 6306, songquanpeng/one-api issue 1061, and the error codes of
# docs.bigmodel.cn.
_BY_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        # llama.cpp: what the model wrote, mostly a call, cannot be read (ggml-org/llama.cpp issues 26381, 27025, 27733)
        (
            "tool_use_failed",
            r"tool_use_failed|failed to call a function|model produced output that does not match the expected|"
            r"validation errors? for AnthropicContentBlock",  # vLLM over Messages: arguments that are no object
        ),
        (
            "insufficient_quota",
            r"insufficient[_ ](quota|balance|credits?|funds)|exceeded_current_quota|exceeded your current quota|"
            r"usage limit|balance is insufficient|billing_hard_limit|account balance|arrearage|"
            r"billing_not_active|credit balance is too low|"
            r"out of credits|quota (has been )?exhausted|payment required|quota is not enough|"
            r"budget has been exceeded|budget_?exceeded|exceeded_?budget|"  # LiteLLM
            r"(余额|额度|资源包)\w{0,12}(不足|失败|用尽|用完)|欠费",
        ),
        (
            "content_filter",
            r"content_filter|data_inspection_failed|datainspectionfailed|responsibleaipolicyviolation|"
            r"content management policy|blocked by content filtering policy|"
            r"inappropriate content|content_policy|flagged as potentially violating|moderation|"
            r"sensitive content|"
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
            r"jinja|chat template|template error|while executing \w{1,40} at line \d|roles must alternate|"
            r"only user(, | and )assistant|system messages? must be|no user query found|"
            r"must be passed back|unsupported_(parameter|value)|is not supported with this model|"
            r"(image|audio|video|vision|multimodal|file)s?( inputs?| content)? (is|are) not supported|"
            r"does not support (image|audio|video|vision|multimodal|file|tool|function)|"
            r"\d+ validation errors? for \w|requires? --(jinja|mmproj)|unsupported content\[\]\.type|"
            # OpenRouter, with 404 (rbb-dev/Open-WebUI-OpenRouter-pipe#58); Zhipu, in a stream (zai-org/feedback#81)
            r"no endpoints found that support|invalid api parameter|参数(有误|非法|错误)|"
            # llama.cpp, with status 500 (tools/server/server-common.cpp, common/chat.cpp)
            r"failed to (parse (messages|tools|tool call arguments)|load image or audio|tokenize prompt)|"
            r"invalid base64 value|unknown reasoning format|cannot (use both json_schema and|specify) grammar",
        ),
        (
            "rate_limit",
            r"rate[_ -]?limit|too many requests|requests per (minute|second|day)|tokens per (minute|day)|"
            r"throttl(ed|ing)|(速率|频率)限制|请求过于频繁",
        ),
        (
            "authentication",
            r"invalid_api_key|incorrect api key|invalid api key|invalid_authentication|unauthori[sz]ed|"
            r"(api key|security token)\b[\w ]{0,40}\b(expired|revoked|invalid|not valid)|"
            r"无效的令牌|令牌(无效|已过期)|身份验证失败",
        ),
        (
            "permission",
            r"(account|organi[sz]ation|workspace) (has been|is|was) (disabled|deactivated|restricted|suspended)|"
            r"deactivated account|account_deactivated|(region|territory|location) (is )?not supported|"
            r"unsupported_country",
        ),
        (
            "not_found",
            r"model_not_found|notfounderror|\bmodel not (found|exist)\b|no such model|"
            r"model [^ ]{1,200} (does not exist|not found|(is|has been|was) (retired|decommissioned|discontinued))|"
            r"model_decommissioned|\binvalid_model(_id)?\b|invalid model[.:]|not a valid model|"
            r"model (id|identifier|name) is (invalid|not valid)",
        ),
        (
            "timeout",
            r"(request|upstream|gateway|generation|idle) ?(has )?timed? ?out$|a timeout occurred|deadline exceeded",
        ),
    )
)

_BY_CODE = {
    "slow_down": "overloaded",
    "invalid_prompt": "invalid_request",
    "bio_policy": "content_filter",
    "cyber_policy": "content_filter",
    "vector_store_timeout": "timeout",
}
"""Codes of OpenAI's Responses API (openai 3.57.0, types/responses/response_error.py) whose words say nothing else."""
_BY_TYPE = {
    "authentication_error": "authentication",
    "billing_error": "insufficient_quota",
    "not_found_error": "not_found",
    "permission_error": "permission",
    "request_too_large": "invalid_request",
    "timeout_error": "timeout",
}
"""Types of Anthropic's Messages API (platform.claude.com/docs/en/api/errors) whose words say nothing else."""
_IMAGE_CODE = re.compile(
    r"image_\w+|invalid_(?:base64_)?image\w*|(?:empty|failed_to_download)_image\w*|unsupported_image\w*"
)
"""Codes of the same API for images that it refuses."""

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
    found = next((kind for kind, pattern in _BY_WORDS if pattern.search(words)), None)
    return "context_length_exceeded" if found != "tool_use_failed" and is_long_prompt(words) else found


def by_code(code: object) -> str | None:
    """Return the kind of a code of OpenAI's Responses API; None for any other."""
    if not isinstance(code, str):
        return None
    return "invalid_request" if _IMAGE_CODE.fullmatch(code) else _BY_CODE.get(code)


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


_REFUSED_REASONING = re.compile(
    r"invalid_encrypted_content|encrypted.content.*(?:could not be verified|decrypt|not issued to this caller)|"
    r"signature\b.*\bthinking|\bthinking\b.*\bsignature|"
    r"thinking.? blocks?.*(?:cannot be modified|must contain thinking)|"
    r"item with id .rs_\w*. not found|of type .reasoning. was provided without|"
    r"(?:corrupted|invalid) thought.?signature|thought.?signature is (?:not valid|invalid)",
    re.IGNORECASE | re.DOTALL,
)
"""What servers of Responses and Messages say of reasoning of earlier turns that they cannot verify or do not find:
OpenAI, xAI, Anthropic, Bedrock (experientiallabs/experiential issue 965, vercel/ai issue 7543), and Gemini
("Corrupted thought signature.")."""
_REASONING_REFUSED = "reasoning_refused"
"""`causes.REASONING_REFUSED`."""
MAX_MESSAGE = 2000
_MAX_TOKENS = "max_tokens"
"""The parameter, whatever its path is in a body: requests of several APIs may share the call."""
_PERHAPS_OUTPUT_LIMIT = (None, "context_length_exceeded", "invalid_request")
"""The kinds of messages that may be about the limit of output tokens."""
_PASSING = ("rate_limit", "overloaded")
"""The kinds that are over after some time."""
_REFUSALS = (200, 400, 413, 422, 500, 503)
"""The statuses with which servers refuse a parameter. A 402 or 429 is about credits."""

SECRET_SHAPES = re.compile(
    r"\b(?:sk|pk|gsk|xai|nvapi|hf|csk|fw|r8|pplx|tgp)[-_][\w*.\-]+|\bbearer\s+[\w*.\-+/=]{4,}|"
    r"(?<=key provided: )\S+|\bAIza[\w*\-]+",
    re.IGNORECASE,
)
_MESSAGES = (
    *("message", "detail", "msg", "error_msg", "error_message", "error_description", "error", "errors", "title"),
    *("Message", "Msg", "faultstring", "reason", "upstream_error"),
)
"""The fields of an error's text, the first of them before the others."""
_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,200}?)\s*</title", re.IGNORECASE)
_SUCCESS_CODE = re.compile(r"0*|2\d\d|ok|success|succeeded|successful|none|null", re.IGNORECASE)
_FAILURE_WORD = re.compile(
    r"(?<![a-z])(?i:error|fail|failed|failure|exception)(?![a-z])|[a-z](Error|Exception|Failure)\b"
)
_JSON_BEGINNINGS = ("{", '"', "[{", '["')
_MESSAGE_KEYS = frozenset(("message", "msg", "code", "id", "request_id", "requestId", "requestid", "timestamp", "data"))
_FEW_WORDS = re.compile(rb"[A-Za-z][\w ,.:;!-]{0,60}", re.ASCII)
_HTML = re.compile(r"^\s*<(?:!doctype|html|head|body|\?xml|center|h1)", re.IGNORECASE)


def make_fault(kind: str, message: str, **fields: Any) -> Fault:
    """Build a fault that the gateway itself found."""
    return Fault(kind, message, find_code(kind).retryable, **fields)


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


def is_skippable(data: bytes, reason: str) -> bool:
    """Whether a data line that is not JSON can be left out with a warning: a few words that name no failure, which are
    no part of a reply."""
    if reason or _FEW_WORDS.fullmatch(data) is None:
        return False
    text = data.decode()
    return not _names_failure(text) and by_words(text) is None


def describe_skipped(data: bytes) -> str:
    """Return the warning of a data line that was left out."""
    return f"the model server sent a line that is not JSON, which is left out: {data.decode()!r}"


def from_response(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Fault:
    """Parse an HTTP error response. Header names must be in lower case."""
    wait = parse_retry_after(headers, now)
    if status != 429:
        return from_body(body, status, wait)
    fault = from_body(body, status, parse_limit_reset(headers) if wait is None else wait)
    kept = {name: value for name, value in headers.items() if _CLIENT_LIMIT.fullmatch(name)}
    return replace(fault, headers=kept) if kept else fault


_CLIENT_LIMIT = re.compile(r"anthropic-ratelimit-unified-[a-z0-9-]{1,40}")
"""The headers by which Claude Code knows that a limit is used up, so that it does not ask again (BerriAI/litellm issue
37754)."""


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
    message = (
        _find_longer_message(error, value) if isinstance(error, str) else find_message(_add_metadata(source, value))
    )
    first = source.get("errors")
    first = first[0] if isinstance(first, list) and first else first
    inner_error = first if isinstance(first, dict) else {}
    code = inner_error.get("code") if source.get("code") is None else source.get("code")
    type_ = source.get("type") or source.get("__type") or value.get("error_type") or inner_error.get("type")
    inner = source.get("innererror")
    inner_code = inner.get("code") if isinstance(inner, dict) else None
    name = error if isinstance(error, str) and error != message else None
    param = source.get("param")
    if isinstance(param, str) and param.count(" ") > _MAX_SPACES:
        message, param = f"{message}: {param}".removeprefix(": "), None
    words = " ".join(str(word) for word in (code, type_, inner_code, name, message) if word is not None)
    named = http_status(code) or http_status(source.get("status")) or http_status(source.get("status_code"))
    fault = _classify(
        words,
        message or "the model server gave no reason",
        status,
        retry_after_seconds,
        word=by_code(code),
        code=named,
        type_=str(type_ or ""),
        detail=_find_detail(source),
        google=read_google_error(source, message, named if status is None or status < 400 else status),
    )
    is_named = isinstance(param, str) and 0 < len(param) <= MAX_PARAM_CHARS
    return replace(fault, server_param=param) if is_named else fault


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
    that is not one of success, or by a message alone that names a failure.
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
    """Whether a word such as `error`, `failed`, `response.failed` or `InternalServerError` means a failure."""
    return isinstance(word, str) and _FAILURE_WORD.search(word[:MAX_WORDS]) is not None


def is_success(code: Any) -> bool:
    """Whether a code or message is absent, or means success: 0, "200", "ok"."""
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
    return Fault(kind, _clean(message), find_code(kind).retryable, status, wait)


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


def _add_metadata(source: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an error with the `metadata` beside it, where OpenRouter's Responses API has what is wrong
    (openai/codex#18307)."""
    return {**source, "metadata": value.get("metadata")} if "metadata" not in source else source


def _find_longer_message(error: str, value: Mapping[str, Any]) -> str:
    """Return the message of an object whose `error` is a text. Where another field has more to say, that text is only a
    name: of the status (Spring Boot's `{"status": 400, "error": "Bad Request", "message": …}`), or of a code."""
    named = find_message(error)
    other = find_message({name: inner for name, inner in value.items() if name != "error"})
    return other if len(other) > len(named) else named


def _find_nested_message(raw: Any) -> str:
    if isinstance(raw, str):
        text, raw = raw, _parse_json(raw)
        if raw is None:
            return text
    if isinstance(raw, list):
        if any(isinstance(item, dict) and _find_place(item) is not None for item in raw):
            return _flatten_message(raw)
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


def _find_place(item: Mapping[str, Any]) -> list[Any] | None:
    """Return the place of a validation error in the request: pydantic's `loc`, Zod's `path`."""
    place = item.get("loc", item.get("path"))
    return place if isinstance(place, list) else None


def _flatten_message(value: Any) -> str:
    """Return the text of a message that may be an object, or a list of validation errors."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        names = ("message", "msg", "error", "detail")  # the last one is Mistral's: Gitlawb/openclaude#739
        return _flatten_message(next((value[name] for name in names if value.get(name)), None))
    if isinstance(value, list):
        lines = []
        for item in value:
            place = _find_place(item) if isinstance(item, dict) else None
            path = ".".join(str(step) for step in place or ())
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
    word: str | None = None,
    code: int | None = None,
    type_: str = "",
    detail: Any = None,
    google: GoogleError | None = None,
) -> Fault:
    if google is None:
        found = by_words(words) or word or _BY_TYPE.get(type_)
    else:
        found = google.code
        wait = wait or (google.retry_after_seconds and _cap_seconds(google.retry_after_seconds))
    limit = find_output_limit(message[:MAX_WORDS]) if found in _PERHAPS_OUTPUT_LIMIT else None
    if limit is not None and (status is None or status in _REFUSALS):
        text = _clean(f"{_MAX_TOKENS} is too large for this model: {message}")
        return Fault("invalid_request", text, False, status, wait, limit.to_detail(), param=_MAX_TOKENS)
    kind = found or by_status(status, code, type_)
    if kind == "permission" and google is None and "quota" in words.lower():
        kind = "insufficient_quota"
    if kind in _PASSING and wait is None:
        wait = find_wait(message[:MAX_WORDS])
    if kind == "context_length_exceeded" and detail is None:
        excess = find_excess(message[:MAX_WORDS])
        detail = None if excess is None else excess.to_detail()
    fault = Fault(kind, _clean(message), find_code(kind).retryable, status, wait, detail)
    if status in (400, 404) and _REFUSED_REASONING.search(words[:MAX_WORDS]):
        return replace(fault, cause=_REASONING_REFUSED)
    return fault


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
