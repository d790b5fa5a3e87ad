"""The Response object of OpenAI's Responses API, and what an HTTP error has in its place."""

import re
from collections.abc import Sequence
from typing import Any

from app.chat.token_usage import add_left_out
from app.errors import find_code
from app.formats.base import ReplyInfo

UNFINISHED = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""`incomplete_details.reason` by finish reason."""


def error_body(error: dict[str, Any]) -> dict[str, Any]:
    """Make the body of an HTTP error: OpenAI's object, with the gateway's other fields added to it."""
    code = error["code"]
    row = find_code("unknown_model" if code == "not_found" and "upstream" in error else code)
    kind = row.responses_type or ("invalid_request_error" if error["status"] < 500 else "server_error")
    return {"error": {**error, "code": row.responses_code or code, "type": kind}}


def make_item_id(response_id: str, index: int, prefix: str) -> str:
    """Return the id of an output item, which contains the id of its Response: so a reference to it can be found."""
    return f"{prefix}_{response_id.rpartition('_')[2]}_{index}"


def find_response_id(item_id: str) -> str | None:
    """Return the id of the Response that an item belongs to; None if the item has no id of this gateway."""
    match = _ITEM_ID.fullmatch(item_id)
    return match and f"resp_{match[1]}"


_ITEM_ID = re.compile(r"[a-z]{2,4}_([0-9a-f]{32})_i?\d+")


def write_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Rename the numbers; those that the server did not send are 0."""
    if usage is None:
        return None
    given, used = add_left_out(usage)
    inputs, outputs = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": _get_number(inputs, "cached_tokens"),
            "cache_write_tokens": _get_number(inputs, "cache_write_tokens"),
        },
        "output_tokens": used,
        "output_tokens_details": {"reasoning_tokens": _get_number(outputs, "reasoning_tokens")},
        "total_tokens": usage.get("total_tokens") or given + used,
    }


def _get_number(details: Any, name: str) -> int:
    value = details.get(name) if isinstance(details, dict) else None
    return value if isinstance(value, int) else 0


def make_response(info: ReplyInfo, status: str, output: Sequence[Any] = (), **fields: Any) -> dict[str, Any]:
    """Make a Response object. `fields` replace the values of a Response that is in progress."""
    return {
        "id": info.response_id,
        "object": "response",
        "created_at": info.created,
        "status": status,
        "model": info.model,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "usage": None,
        "completed_at": None,
        **_DEFAULT_FIELDS,
        **info.options.responses.fields,
        **fields,
    }


FAILED = "response.failed"


def choose_end_type(response: dict[str, Any]) -> str:
    """Return the type of the last event, which has this Response."""
    status = response["status"]
    return f"response.{status}" if status in ("completed", "incomplete") else FAILED


def describe_failure(response: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the event `error`, which is sent before `response.failed`: some clients, such as Microsoft's
    Agent Framework, take `response.failed` alone for an end like any other.

    OpenAI sends both (github.com/openai/openai-openapi, ResponseErrorEvent).
    """
    error = response.get("error") or {}
    return {name: error.get(name) for name in ("code", "message", "param")}


def describe_unstored(response: dict[str, Any], reason: str) -> dict[str, Any]:
    """Return the Response with `store` false, and a warning that says why."""
    return add_warning(response, f"store: {reason}, so store is false") | {"store": False}


def add_warning(response: dict[str, Any], text: str) -> dict[str, Any]:
    parley = response.get("parley", {})
    return response | {"parley": parley | {"warnings": [*parley.get("warnings", []), text]}}


_DEFAULT_FIELDS: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
