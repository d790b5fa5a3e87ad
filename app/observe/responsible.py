"""Whose fault an error is: the caller's, the policy's (the operator's rules), a model server's or the gateway's."""

from typing import Literal, TypeAlias

Responsible: TypeAlias = Literal["caller", "policy", "upstream", "gateway"]

RESPONSIBLE: dict[str, Responsible] = {
    "invalid_request": "caller",
    "context_length_exceeded": "caller",
    "unknown_model": "caller",
    "not_found": "caller",
    "previous_response_not_found": "caller",
    "method_not_allowed": "caller",
    "request_timeout": "caller",
    "too_large": "caller",
    "unsupported_media_type": "caller",
    "unsupported": "caller",
    "media_unavailable": "caller",
    "cache_miss": "caller",
    "cancelled": "caller",
    "caller_gone": "caller",
    "invalid_api_key": "caller",
    "permission": "policy",
    "rate_limit": "policy",
    "insufficient_quota": "policy",
    "origin_not_allowed": "policy",
    "host_not_allowed": "policy",
    "overloaded": "gateway",
    "draining": "gateway",
    "internal_error": "gateway",
}
"""By code, for the errors that the gateway finds itself."""

UPSTREAM_RESPONSIBLE: dict[str, Responsible] = {
    "invalid_request": "caller",
    "context_length_exceeded": "caller",
    "not_found": "caller",
    "cancelled": "caller",
    "content_filter": "policy",
    "draining": "gateway",
}
"""By code, for the errors of a model server. All others are the server's own fault."""


def find_responsible(code: str, *, from_upstream: bool) -> Responsible:
    if from_upstream:
        return UPSTREAM_RESPONSIBLE.get(code, "upstream")
    return RESPONSIBLE.get(code, "gateway")
