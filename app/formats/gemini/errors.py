"""Writes errors as Google's APIs do: `google.rpc.Status` with its details (https://google.aip.dev/193).

`code` is the HTTP status, a number, and `status` is there always: without them the AI SDK loses the message.
"""

from collections.abc import Mapping
from typing import Any

from app.formats.base import ErrorWriter

_TYPE = "type.googleapis.com/google.rpc."
_WORDS: Mapping[int, str] = {
    **dict.fromkeys((400, 405, 413, 414, 415, 421, 426, 431), "INVALID_ARGUMENT"),
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    503: "UNAVAILABLE",
    **dict.fromkeys((408, 504), "DEADLINE_EXCEEDED"),
}
"""The words of `google.rpc.Code`; INTERNAL for all other statuses."""
_TOO_LONG = "The input token count"
"""How Google's message begins, by which clients know it."""
_BESIDE = ("param", "upstream", "usage", "input_tokens", "max_input_tokens", "server_tools")
"""Parley's fields that Google's form has no place for."""


def write_error(error: dict[str, Any]) -> dict[str, Any]:
    """Make the body of an HTTP error, which is also the last chunk of a stream that fails."""
    beside = {key: error[key] for key in _BESIDE if error.get(key) is not None}
    written = {
        "code": error["status"],
        "message": _write_message(error),
        "status": _WORDS.get(error["status"], "INTERNAL"),
        "details": _list_details(error),
    }
    return {"error": {**written, **({"parley": beside} if beside else {})}}


def _write_message(error: dict[str, Any]) -> str:
    message: str = error["message"]
    if error["code"] != "context_length_exceeded" or message.startswith(_TOO_LONG):
        return message
    tokens, limit = error.get("input_tokens"), error.get("max_input_tokens")
    if tokens is None or limit is None:
        return f"{_TOO_LONG} exceeds the maximum number of tokens allowed: {message}"
    return f"{_TOO_LONG} ({tokens}) exceeds the maximum number of tokens allowed ({limit})"


def _list_details(error: dict[str, Any]) -> list[dict[str, Any]]:
    metadata = {"request_id": error["request_id"], "retryable": "true" if error["retryable"] else "false"}
    reason = error["code"].upper()
    details: list[dict[str, Any]] = [
        {"@type": f"{_TYPE}ErrorInfo", "reason": reason, "domain": "parley", "metadata": metadata}
    ]
    if error.get("violations"):
        rows = [{"field": one["param"] or "", "description": one["message"]} for one in error["violations"]]
        details.append({"@type": f"{_TYPE}BadRequest", "fieldViolations": rows})
    if error.get("retry_after_seconds") is not None:
        details.append({"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{error['retry_after_seconds']:g}s"})
    return details


WRITE_ERROR = ErrorWriter(write_error, statuses={422: 400}, code_statuses={"insufficient_quota": 402})
"""Validation is 400, as at Google. A used-up quota is 402, also if the server called it 429: gemini-cli sends a request
again after a 429."""
