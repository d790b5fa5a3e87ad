"""Writes errors as Anthropic's API does: its own types and statuses, with Parley's fields beside them."""

from typing import Any

from app.errors import find_code
from app.formats.base import ErrorWriter

THREAD_UNSUPPORTED = "thread_unsupported_request"
"""After this error the tool runners of the SDKs send the whole conversation; any other error ends their run."""
_FIELDS = ("param", "violations", "upstream", "retry_after_seconds", "scope", "usage")

_TOO_LONG = "prompt is too long: "
"""How Anthropic's message begins, by which Claude Code knows it."""


def write_error(error: dict[str, Any]) -> dict[str, Any]:
    """Make the body of an HTTP error, which is also the data of an `error` event."""
    code, message = error["code"], error["message"]
    if code == "context_length_exceeded":
        message = f"{_TOO_LONG}{_describe_excess(error) or message.removeprefix(_TOO_LONG)}"
    elif error["param"] == "max_tokens":
        message = _describe_output_limit(error) or message
    fields: dict[str, Any] = {
        "type": _choose_type(code, error["status"]),
        "message": message,
        "code": code,
        "retryable": error["retryable"],
    }
    fields |= {key: error[key] for key in _FIELDS if error.get(key) is not None}
    if code == "unsupported" and error["param"] == "thread":
        fields["details"] = {"error_code": THREAD_UNSUPPORTED}
    return {"type": "error", "error": fields, "request_id": error["request_id"]}


def _choose_type(code: str, status: int) -> str:
    """Return the type. `permission` with 502 says nothing of the caller's key: the model server refuses the gateway."""
    if status == 502:
        return "api_error"
    return find_code(code).anthropic_type or ("invalid_request_error" if status < 500 else "api_error")


def _describe_excess(error: dict[str, Any]) -> str | None:
    """Say how long the prompt is, in the words that Claude Code understands."""
    tokens, limit = error.get("input_tokens"), error.get("max_input_tokens")
    return None if tokens is None or limit is None else f"{tokens} tokens > {limit} maximum"


def _describe_output_limit(error: dict[str, Any]) -> str | None:
    """Say which limit of output tokens was too large, in the words after which Claude Code sends a smaller one."""
    upstream = error.get("upstream")
    numbers = upstream.get("detail") if isinstance(upstream, dict) else None
    if not isinstance(numbers, dict):
        return None
    prompt, output, context = (numbers.get(key) for key in ("input_tokens", "max_tokens", "context_tokens"))
    if prompt is None or output is None or context is None:
        return None
    remedy = "decrease input length or `max_tokens` and try again"
    return f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {context}, {remedy}"


WRITE_ERROR = ErrorWriter(write_error, statuses={422: 400, 503: 529}, code_statuses={"insufficient_quota": 402})
"""Validation is 400 here, and a full or stopping gateway 529, for which the SDKs have a class. A used-up quota is 402,
also if the server called it 429: this API has a type for it, and clients would repeat a 429."""
