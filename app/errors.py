"""Every error that a caller can meet.

ParleyError                     code                      status  it works later
├── InvalidInput                invalid_request              422  no      every violation of one request, at once
├── BadRequest                  invalid_request              400  no
├── ContextTooLong              context_length_exceeded      400  no      not even when it is cut
├── UnknownModel                unknown_model                404  no
├── NotFound                    not_found                    404  no
├── MethodNotAllowed            method_not_allowed           405  no
├── BodyTimeout                 request_timeout              408  yes     its body came too slowly
├── HeadTimeout                 request_timeout              408  yes     its head came too slowly
├── TooLarge                    too_large                    413  no
├── TargetTooLong               too_large                    414  no      its path and query
├── HeadTooLarge                too_large                    431  no      its headers, or what frames its body
├── UnsupportedFraming          invalid_request              400  no      a body whose end is ambiguous
├── WrongMediaType              unsupported_media_type       415  no      a body that does not say it is JSON
├── OriginNotAllowed            origin_not_allowed           403  no      a web page that is not allowed
├── HostNotAllowed              host_not_allowed             421  no      a name that is not this gateway's
├── Unsupported                 unsupported                  422  no      understood, but this model cannot take it
├── MediaRefused                invalid_request              422  no      a URL or a file that is not read, or cannot be
├── MediaUnavailable            media_unavailable            422  yes     its server does not give it now
├── Busy                        overloaded                   503  yes     this gateway has no room
├── Draining                    draining                     503  yes     this gateway is going down
├── StoreDown                   overloaded                   503  yes     the cache cannot be reached (admin only)
├── CacheMiss                   cache_miss                   504  no      only a cached reply was wanted
├── Cancelled                   cancelled                    409  no      by DELETE /v1/chat/{response_id}
├── Forbidden                   permission                   403  no      only for whoever has the admin key
├── Internal                    internal_error               500  no      our own defect
└── UpstreamFailed              the fault's kind     FAULT_STATUS  as the fault says

Codes are the kinds of faults (`chat.events.Fault`) and the gateway's own. The body is the same everywhere:
`{"error": {"code", "message", "param", "status", "retryable", "request_id", "upstream"?}}`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from app.chat.events import Fault

FAULT_STATUS = {
    "invalid_request": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "not_found": 404,
    "rate_limit": 429,
    "insufficient_quota": 429,
    "server_error": 502,
    "upstream_incomplete": 502,
    "upstream_protocol": 502,
    "unsupported": 502,
    "tool_use_failed": 502,
    "authentication": 502,
    "permission": 502,
    "overloaded": 503,
    "timeout": 504,
    "draining": 503,
    "cancelled": 409,
}
"""Our status for each kind of upstream fault. The upstream's own stands in `upstream.status`."""


@dataclass(frozen=True, slots=True)
class Violation:
    path: str
    """JSON path in the request: `messages[2].content[0].image`."""
    message: str


class ParleyError(Exception):
    code: ClassVar[str] = "internal_error"
    status: int = 500
    retryable: bool = False

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def to_dict(self, request_id: str) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "status": self.status,
            "retryable": self.retryable,
            "request_id": request_id,
        }

    @property
    def headers(self) -> dict[str, str]:
        return {}


MAX_VIOLATIONS = 200
"""Told of one request; the message counts all that were found."""


class InvalidInput(ParleyError):
    """All violations of one request."""

    code = "invalid_request"
    status = 422

    def __init__(self, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations[:MAX_VIOLATIONS])
        count = len(violations)
        first = self.violations[0]
        more = f" (and {count - 1} more)" if count > 1 else ""
        super().__init__(f"{first.path or 'body'}: {first.message}{more}", first.path or None)

    def to_dict(self, request_id: str) -> dict[str, Any]:
        violations = [{"param": item.path or None, "message": item.message} for item in self.violations]
        return super().to_dict(request_id) | {"violations": violations}


class BadRequest(ParleyError):
    code = "invalid_request"
    status = 400


class ContextTooLong(ParleyError):
    code = "context_length_exceeded"
    status = 400


class UnknownModel(ParleyError):
    code = "unknown_model"
    status = 404


class NotFound(ParleyError):
    code = "not_found"
    status = 404


class MethodNotAllowed(ParleyError):
    code = "method_not_allowed"
    status = 405

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self._allow = allow

    @property
    def headers(self) -> dict[str, str]:
        return {"allow": self._allow}


class BodyTimeout(ParleyError):
    """The connection ends with it: the rest of the body is not waited for."""

    code = "request_timeout"
    status = 408
    retryable = True

    @property
    def headers(self) -> dict[str, str]:
        return {"connection": "close"}


class HeadTimeout(ParleyError):
    code = "request_timeout"
    status = 408
    retryable = True


class TooLarge(ParleyError):
    code = "too_large"
    status = 413


class TargetTooLong(ParleyError):
    code = "too_large"
    status = 414


class HeadTooLarge(ParleyError):
    code = "too_large"
    status = 431


class UnsupportedFraming(ParleyError):
    """What some server on the way may read as another request: the connection ends with it."""

    code = "invalid_request"
    status = 400


class WrongMediaType(ParleyError):
    code = "unsupported_media_type"
    status = 415


class OriginNotAllowed(ParleyError):
    code = "origin_not_allowed"
    status = 403


class HostNotAllowed(ParleyError):
    code = "host_not_allowed"
    status = 421


class Unsupported(ParleyError):
    code = "unsupported"
    status = 422


class MediaRefused(ParleyError):
    """The medium itself is at fault: its address, its type, its size when decoded, its contents."""

    code = "invalid_request"
    status = 422


class MediaUnavailable(ParleyError):
    """The server that the caller's URL names failed. It is the caller's server: no 5xx, which would be ours or the
    model's."""

    code = "media_unavailable"
    status = 422
    retryable = True


class Busy(ParleyError):
    code = "overloaded"
    status = 503
    retryable = True

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}


class Draining(ParleyError):
    code = "draining"
    status = 503
    retryable = True


class StoreDown(ParleyError):
    """Only who asks for the cache itself meets it: requests go on without."""

    code = "overloaded"
    status = 503
    retryable = True


class CacheMiss(ParleyError):
    code = "cache_miss"
    status = 504


class Cancelled(ParleyError):
    code = "cancelled"
    status = 409


class Forbidden(ParleyError):
    code = "permission"
    status = 403


class Internal(ParleyError):
    pass


_REQUESTS_OWN = {"invalid_request", "context_length_exceeded", "content_filter", "cancelled", "draining"}
_WRONG_PATHS = {"no_such_path", "wrong_base_url"}


class UpstreamFailed(ParleyError):
    """The model server failed; the fault says how."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.code = fault.code  # type: ignore[misc]  # the fault's kind is the code
        self.status = FAULT_STATUS.get(fault.code, 502)
        self.retryable = fault.transient

    @property
    def is_server_fault(self) -> bool:
        """The server or the way to it is at fault, not the request: whoever runs the gateway should know."""
        if self.fault.code == "not_found":
            return self.fault.cause in _WRONG_PATHS
        return self.fault.code not in _REQUESTS_OWN

    def to_dict(self, request_id: str) -> dict[str, Any]:
        fault = self.fault
        named = {"name": fault.upstream, "cause": fault.cause}
        upstream: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
        upstream |= {"status": fault.status, "message": fault.message}
        if self.fault.detail is not None:
            upstream["detail"] = self.fault.detail
        out = super().to_dict(request_id) | {"upstream": upstream}
        if self.fault.retry_after_seconds is not None:
            out["retry_after_seconds"] = self.fault.retry_after_seconds
        return out

    @property
    def headers(self) -> dict[str, str]:
        wait = self.fault.retry_after_seconds
        if wait is None:
            return {}
        return {"retry-after": str(max(1, -int(-wait // 1))), "retry-after-ms": str(int(wait * 1000))}
