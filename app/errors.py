"""All errors that a caller can get.

ParleyError                     code                      status  retry?
├── InvalidInput                invalid_request              422  no      lists every violation of the request
├── BadRequest                  invalid_request              400  no
├── ContextTooLong              context_length_exceeded      400  no      even after truncation
├── UnknownModel                unknown_model                404  no
├── NotFound                    not_found                    404  no
├── PreviousResponseNotFound    previous_response_not_found  400  no      the Responses API continues only stored ones
├── MethodNotAllowed            method_not_allowed           405  no
├── ConversationLocked          conversation_locked          409  yes     another response runs in the conversation
├── WebSocketDisabled           websocket_disabled           426  no      an upgrade of a request to the Responses API
├── WebSocketTooOld             websocket_connection_limit_reached  400  no  a socket has reached its time
├── SocketBusy                  rate_limit                   429  yes     too many requests of a socket wait
├── BodyTimeout                 request_timeout              408  yes     the request body arrived too slowly
├── HeadTimeout                 request_timeout              408  yes     the request head arrived too slowly
├── TooLarge                    too_large                    413  no
├── TargetTooLong               too_large                    414  no      path and query
├── HeadTooLarge                too_large                    431  no      headers, or the chunk framing of the body
├── UnsupportedFraming          invalid_request              400  no      the end of the body is ambiguous
├── WrongMediaType              unsupported_media_type       415  no      the content type of the body is not JSON
├── UnsupportedEncoding         unsupported_media_type       415  no      the body is compressed in an unknown way
├── OriginNotAllowed            origin_not_allowed           403  no      the web page's origin is not allowed
├── HostNotAllowed              host_not_allowed             421  no      the Host header is not a name of this gateway
├── Unsupported                 unsupported                  422  no      valid, but this model does not support it
│   └── WrongEndpoint           unsupported              400  no      the model does not serve this endpoint
├── MediaRefused                invalid_request              422  no      a URL or file that must not or cannot be read
├── MediaUnavailable            media_unavailable            422  yes     the media server failed
├── Busy                        overloaded                   503  yes     a limit of concurrent requests is reached
├── Draining                    draining                     503  yes     the gateway is shutting down
├── StoreDown                   overloaded                   503  yes     what is stored cannot be read or changed
├── PolicyRefused               content_filter           400  no      a guard has refused the request
├── GuardUnavailable            overloaded               503  yes     a guard gave no verdict
├── CacheMiss                   cache_miss                   504  no      the caller wanted a cached reply only
├── Cancelled                   cancelled                    409  no      by DELETE /v1/chat/{response_id}
├── InvalidApiKey               invalid_api_key              401  no      no API key, an unknown or an expired one
├── InvalidToken                invalid_api_key              401  no      a JWT that is not accepted
├── Forbidden                   permission                   403  no      the API key does not allow this
├── RateLimited                 rate_limit                   429  yes     a limit of requests, tokens or streams
├── QuotaExceeded               insufficient_quota           402  no      a limit of spending
├── Internal                    internal_error               500  no      a defect of the gateway
└── UpstreamFailed              the fault's code       its `server`   as the fault says

`CODES` has a row for each code: those of faults (`chat.events.Fault`) and the gateway's own. The body is the same
everywhere: `{"error": {"code", "message", "param", "status", "retryable", "request_id", "upstream"?}}`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from app.chat.events import Fault
from app.chat.policy import PolicyRefusal, write_refusal


class RetryWord(Struct, frozen=True):
    """How the message of a retryable error says why: agents decide by such words whether to send the request again."""

    word: str
    """What the message ends with, in parentheses, if nothing in it is `known`."""
    known: re.Pattern[str]


def _retry_word(word: str, known: str) -> RetryWord:
    return RetryWord(word, re.compile(known, re.IGNORECASE))


# The words are those of pi (earendil-works/pi, packages/ai/src/utils/retry.ts), whose list other agents have copied.
# Codex and the SDKs of OpenAI and Anthropic decide by the status, the code and the header x-should-retry.
_SERVER_ERROR = _retry_word("server error", r"server.?error|internal.?error")
_UNAVAILABLE = _retry_word("service unavailable", r"overloaded|service.?unavailable")
_TIMEOUT = _retry_word("timeout", r"timeout|timed? out")
_NO_CONNECTION = _retry_word("connection error", r"connection.?(error|refused)")
_CONNECTION_LOST = _retry_word("connection lost", r"connection.?(lost|error)")
_NETWORK_ERROR = _retry_word("network error", r"network.?error|timeout|timed? out")
_RATE_LIMIT = _retry_word("rate limit", r"rate.?limit|too many requests")
_FROM_SERVER = (None, "error_status", "error_in_reply")
"""The causes of a `server_error` that the server has reported. All others are about the connection to it."""


Responsible: TypeAlias = Literal["caller", "policy", "upstream", "gateway"]
"""Whose fault an error is: the caller's, the policy's (the operator's rules), a model server's or the gateway's."""


class Meaning(Struct, frozen=True):
    """What a code means if the gateway, or a model server, has found the error."""

    status: int
    """The gateway's HTTP status. A model server's own is in `upstream.status`."""
    responsible: Responsible


class ErrorCode(Struct, frozen=True, kw_only=True):
    """What is known about one code, and what the APIs of the client formats call it."""

    own: Meaning | None = None
    """If the gateway finds the error; None: it never does."""
    server: Meaning | None = None
    """If a model server reports the error, or fails this way; None: it never does."""
    kept_status: int | None = None
    """A status of a model server that is passed on: the API of a client format has it for this code, too."""
    retryable: bool = False
    """The same request may succeed later."""
    retry_word: RetryWord | None = None
    openai_type: str | None = None
    """`error.type`. None: chosen by the status, as the types of the other APIs."""
    openai_code: str | None = None
    """`error.code`, if it is not this code."""
    anthropic_type: str | None = None
    responses_type: str | None = None
    responses_code: str | None = None
    """`error.code` of an HTTP error, if it is not this code."""
    failed_response_code: str = "server_error"
    """`error.code` of a failed Response. Clients send the request again after `server_error`."""
    agentscope_type: str | None = None

    @property
    def openai_names(self) -> set[str]:
        """What OpenAI's APIs call this code, if not by its own name."""
        return {name for name in (self.openai_code, self.responses_code) if name is not None}


CODES: Mapping[str, ErrorCode] = {
    "invalid_request": ErrorCode(
        own=Meaning(422, "caller"), server=Meaning(400, "caller"), failed_response_code="invalid_prompt"
    ),
    "context_length_exceeded": ErrorCode(
        own=Meaning(400, "caller"), server=Meaning(400, "caller"), failed_response_code="context_length_exceeded"
    ),
    "unknown_model": ErrorCode(
        own=Meaning(404, "caller"),
        openai_code="model_not_found",  # LiteLLM reads any other code as a bad request.
        anthropic_type="not_found_error",
        responses_code="model_not_found",
    ),
    "not_found": ErrorCode(own=Meaning(404, "caller"), server=Meaning(404, "caller"), anthropic_type="not_found_error"),
    "previous_response_not_found": ErrorCode(own=Meaning(400, "caller")),
    "method_not_allowed": ErrorCode(own=Meaning(405, "caller")),
    "conversation_locked": ErrorCode(own=Meaning(409, "caller"), retryable=True, retry_word=_UNAVAILABLE),
    "websocket_disabled": ErrorCode(own=Meaning(426, "caller")),
    "websocket_connection_limit_reached": ErrorCode(own=Meaning(400, "caller")),
    "request_timeout": ErrorCode(own=Meaning(408, "caller"), retryable=True, retry_word=_TIMEOUT),
    "too_large": ErrorCode(own=Meaning(413, "caller"), anthropic_type="request_too_large"),
    "unsupported_media_type": ErrorCode(own=Meaning(415, "caller")),
    "unsupported": ErrorCode(
        own=Meaning(422, "caller"), server=Meaning(502, "upstream"), failed_response_code="invalid_prompt"
    ),
    # The status is no 5xx, which would blame the gateway or the model.
    "media_unavailable": ErrorCode(own=Meaning(422, "caller"), retryable=True, retry_word=_NETWORK_ERROR),
    "cache_miss": ErrorCode(own=Meaning(504, "caller")),
    "cancelled": ErrorCode(own=Meaning(409, "caller"), server=Meaning(409, "caller")),
    "caller_gone": ErrorCode(own=Meaning(499, "caller")),
    "invalid_api_key": ErrorCode(
        own=Meaning(401, "caller"),
        openai_type="authentication_error",
        anthropic_type="authentication_error",
        agentscope_type="authentication",
    ),
    "permission": ErrorCode(
        own=Meaning(403, "policy"),
        server=Meaning(502, "upstream"),
        openai_type="permission_error",
        anthropic_type="permission_error",
        agentscope_type="permission",
    ),
    "origin_not_allowed": ErrorCode(
        own=Meaning(403, "policy"), anthropic_type="permission_error", agentscope_type="permission"
    ),
    "host_not_allowed": ErrorCode(own=Meaning(421, "policy")),
    "content_filter": ErrorCode(
        own=Meaning(400, "policy"), server=Meaning(400, "policy"), failed_response_code="invalid_prompt"
    ),
    "rate_limit": ErrorCode(
        own=Meaning(429, "policy"),
        server=Meaning(429, "upstream"),
        retryable=True,
        retry_word=_RATE_LIMIT,
        openai_type="rate_limit_error",
        anthropic_type="rate_limit_error",
        responses_type="rate_limit_error",
        responses_code="rate_limit_exceeded",
        failed_response_code="rate_limit_exceeded",
        agentscope_type="rate_limit",
    ),
    # Not 429, which agents repeat for minutes. A server's own 429 is what OpenAI's API has for an empty account.
    "insufficient_quota": ErrorCode(
        own=Meaning(402, "policy"),
        server=Meaning(402, "upstream"),
        kept_status=429,
        openai_type="insufficient_quota",
        anthropic_type="billing_error",
        responses_type="insufficient_quota",
        failed_response_code="insufficient_quota",
        agentscope_type="rate_limit",
    ),
    "overloaded": ErrorCode(
        own=Meaning(503, "gateway"),
        server=Meaning(503, "upstream"),
        retryable=True,
        retry_word=_UNAVAILABLE,
        openai_type="overloaded_error",
        anthropic_type="overloaded_error",
    ),
    "draining": ErrorCode(
        own=Meaning(503, "gateway"),
        server=Meaning(503, "gateway"),
        retryable=True,
        retry_word=_UNAVAILABLE,
        anthropic_type="overloaded_error",
    ),
    "internal_error": ErrorCode(own=Meaning(500, "gateway"), agentscope_type="internal"),
    "authentication": ErrorCode(
        server=Meaning(502, "upstream"), openai_type="authentication_error", agentscope_type="authentication"
    ),
    "timeout": ErrorCode(
        server=Meaning(504, "upstream"),
        retryable=True,
        retry_word=_TIMEOUT,
        anthropic_type="timeout_error",
        agentscope_type="connection",
    ),
    "server_error": ErrorCode(server=Meaning(502, "upstream"), retryable=True, retry_word=_SERVER_ERROR),
    "tool_use_failed": ErrorCode(server=Meaning(502, "upstream"), retryable=True, retry_word=_SERVER_ERROR),
    "output_invalid": ErrorCode(server=Meaning(502, "upstream")),
    "upstream_incomplete": ErrorCode(server=Meaning(502, "upstream"), retryable=True, retry_word=_CONNECTION_LOST),
    "upstream_protocol": ErrorCode(server=Meaning(502, "upstream")),
}
"""All codes. `caller_gone` is never sent: it is the error of a request whose client has left."""

_UNKNOWN = ErrorCode(own=Meaning(500, "gateway"), server=Meaning(502, "upstream"))


def find_code(code: str) -> ErrorCode:
    """Return the row of a code. A fault that an earlier version has stored may have one that is not known."""
    return CODES.get(code, _UNKNOWN)


def find_responsible(code: str, *, from_upstream: bool) -> Responsible:
    """Return whose fault an error is; `from_upstream`: a model server has reported it, or has failed this way."""
    row = find_code(code)
    meaning = row.server if from_upstream else row.own
    if meaning is None:
        return "upstream" if from_upstream else "gateway"
    return meaning.responsible


def find_retry_word(code: str, cause: str | None = None) -> RetryWord | None:
    """Return the word for a retryable error; None if its code has none."""
    if cause in ("empty_reply", "not_a_reply"):
        return _SERVER_ERROR
    return _NO_CONNECTION if code == "server_error" and cause not in _FROM_SERVER else find_code(code).retry_word


class Violation(Struct, frozen=True):
    path: str
    """JSON path in the request: `messages[2].content[0].image`."""
    message: str


class ParleyError(Exception):
    """An error that the gateway has found. Its status is that of the code's row, unless the class has another one."""

    code: ClassVar[str] = "internal_error"
    status: int = 500
    retryable: bool = False

    def __init_subclass__(cls) -> None:
        row = CODES[cls.code]
        if row.own is not None and "status" not in cls.__dict__:
            cls.status = row.own.status
        cls.retryable = row.retryable

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def to_dict(self, request_id: str) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self._describe_cause(find_retry_word(self.code)),
            "param": self.param,
            "status": self.status,
            "retryable": self.retryable,
            "request_id": request_id,
        }

    def _describe_cause(self, word: RetryWord | None) -> str:
        """Return the message; with the word behind it, if the error is retryable and the message does not say why."""
        if word is None or not self.retryable or word.known.search(self.message):
            return self.message
        return f"{self.message} ({word.word})"

    @property
    def headers(self) -> dict[str, str]:
        return {}

    def list_headers(self) -> dict[str, str]:
        """Return all headers that the HTTP response has because of this error. The SDKs of OpenAI and Anthropic obey
        `x-should-retry` before the status."""
        return {**self.headers, "x-should-retry": "true" if self.retryable else "false"}


MAX_VIOLATIONS = 200
"""The most violations listed for one request; the message gives the number of all."""


class InvalidInput(ParleyError):
    """Every violation found in one request, at most `MAX_VIOLATIONS` of them listed."""

    code = "invalid_request"

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

    def __init__(self, message: str, param: str, input_tokens: int, max_input_tokens: int) -> None:
        super().__init__(message, param)
        self._counts = {"input_tokens": input_tokens, "max_input_tokens": max_input_tokens}

    def to_dict(self, request_id: str) -> dict[str, Any]:
        return super().to_dict(request_id) | self._counts


class UnknownModel(ParleyError):
    code = "unknown_model"


class NotFound(ParleyError):
    code = "not_found"


class PreviousResponseNotFound(ParleyError):
    code = "previous_response_not_found"


class MethodNotAllowed(ParleyError):
    code = "method_not_allowed"

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self._allow = allow

    @property
    def headers(self) -> dict[str, str]:
        return {"allow": self._allow}


class ConversationLocked(ParleyError):
    code = "conversation_locked"

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}


class SocketBusy(ParleyError):
    code = "rate_limit"

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}


class WebSocketTooOld(ParleyError):
    """The code is OpenAI's, after which Codex opens another socket."""

    code = "websocket_connection_limit_reached"


class WebSocketDisabled(ParleyError):
    """Codex goes on over HTTP at once after this status, and after five attempts after any other."""

    code = "websocket_disabled"

    @property
    def headers(self) -> dict[str, str]:
        return {"upgrade": "HTTP/1.1", "connection": "upgrade"}


class BodyTimeout(ParleyError):
    """The gateway closes the connection, because it does not wait for the rest of the body."""

    code = "request_timeout"

    @property
    def headers(self) -> dict[str, str]:
        return {"connection": "close"}


class HeadTimeout(ParleyError):
    code = "request_timeout"


class TooLarge(ParleyError):
    code = "too_large"


class TargetTooLong(ParleyError):
    code = "too_large"
    status = 414


class HeadTooLarge(ParleyError):
    code = "too_large"
    status = 431


class UnsupportedFraming(ParleyError):
    """A proxy could read the body as another request (request smuggling), so the gateway closes the connection."""

    code = "invalid_request"
    status = 400


class WrongMediaType(ParleyError):
    code = "unsupported_media_type"


class UnsupportedEncoding(ParleyError):
    """The response says which encodings can be read (RFC 9110, section 15.5.16)."""

    code = "unsupported_media_type"

    def __init__(self, message: str, known: Sequence[str]) -> None:
        super().__init__(message)
        self._known = known

    @property
    def headers(self) -> dict[str, str]:
        return {"accept-encoding": ", ".join(self._known)}


class OriginNotAllowed(ParleyError):
    code = "origin_not_allowed"


class HostNotAllowed(ParleyError):
    code = "host_not_allowed"


class Unsupported(ParleyError):
    code = "unsupported"


class WrongEndpoint(Unsupported):
    """The model does not serve the endpoint to which the request was sent."""

    status = 400


class MediaRefused(ParleyError):
    """The media item itself is at fault: its URL, type, decoded size or contents."""

    code = "invalid_request"


class MediaUnavailable(ParleyError):
    """The server in the caller's URL failed."""

    code = "media_unavailable"


class Busy(ParleyError):
    code = "overloaded"

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}


class Draining(ParleyError):
    code = "draining"


class StoreDown(ParleyError):
    """What a request relies on cannot be read, stored or deleted. Requests that only could have used the cache go on
    without it."""

    code = "overloaded"

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}


class PolicyRefused(ParleyError):
    """A guard of the operator has refused the request: sent again, it is refused again."""

    code = "content_filter"

    def __init__(self, guard: str, reason: str, category: str | None) -> None:
        super().__init__(write_refusal(guard, reason))
        self._refusal = PolicyRefusal(guard, reason, category)

    def to_dict(self, request_id: str) -> dict[str, Any]:
        return super().to_dict(request_id) | {"policy": self._refusal.to_dict()}


class GuardUnavailable(ParleyError):
    """A guard gave no verdict, and nothing goes on without one."""

    code = "overloaded"
    cause = "guard"

    def __init__(self, guard: str, reason: str) -> None:
        super().__init__(f"the guard {guard} gave no verdict: {reason}")

    def to_dict(self, request_id: str) -> dict[str, Any]:
        return super().to_dict(request_id) | {"cause": self.cause}

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}


class CacheMiss(ParleyError):
    code = "cache_miss"


class Cancelled(ParleyError):
    code = "cancelled"


class InvalidApiKey(ParleyError):
    code = "invalid_api_key"

    def __init__(self, message: str, *, invalid: bool = False) -> None:
        """`invalid`: the request has a key, but it is not accepted (RFC 6750, section 3)."""
        super().__init__(message)
        self._invalid = invalid

    @property
    def headers(self) -> dict[str, str]:
        return {"www-authenticate": 'Bearer realm="parley"' + (', error="invalid_token"' if self._invalid else "")}


class InvalidToken(InvalidApiKey):
    """A JWT that is not accepted. The message never has the token itself."""

    def __init__(self, message: str) -> None:
        super().__init__(message, invalid=True)


class Forbidden(ParleyError):
    code = "permission"


class RateLimited(ParleyError):
    """One of the gateway's own limits. An upstream's is UpstreamFailed with the same code."""

    code = "rate_limit"

    def __init__(self, message: str, wait_seconds: float | None, headers: Mapping[str, str], scope: str = "") -> None:
        """`wait_seconds` is when the request may be sent again; None: never, it is larger than the limit. `scope` says
        whose limit it is, if it is one of `limits`."""
        super().__init__(message)
        self.retryable = type(self).retryable and wait_seconds is not None
        self._wait_seconds = wait_seconds
        self._headers = headers
        self._scope = scope

    def to_dict(self, request_id: str) -> dict[str, Any]:
        wait = {} if self._wait_seconds is None else {"retry_after_seconds": round(self._wait_seconds, 3)}
        scope = {"scope": self._scope} if self._scope else {}
        return super().to_dict(request_id) | wait | scope

    @property
    def headers(self) -> dict[str, str]:
        return {**self._headers, **({} if self._wait_seconds is None else retry_after(self._wait_seconds))}


class QuotaExceeded(RateLimited):
    """The error is not retryable, as a provider's exhausted quota, although Retry-After says when it works again."""

    code = "insufficient_quota"


class Internal(ParleyError):
    pass


_EXCESS = ("input_tokens", "max_input_tokens")
"""What `ContextTooLong` has, too."""
_WRONG_PATHS = {"no_such_path", "wrong_base_url"}


class UpstreamFailed(ParleyError):
    """The model server failed; code, status and retryability come from the fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message, fault.param)
        self.fault = fault
        self.code = fault.code  # type: ignore[misc]  # the fault's kind is the code
        row = find_code(fault.code)
        self.status = 502 if row.server is None else row.server.status
        if row.kept_status is not None and fault.status == row.kept_status:
            self.status = row.kept_status
        self.retryable = fault.transient

    @property
    def is_server_fault(self) -> bool:
        """Whether the server or its network is at fault, not the request. The operator should know of it."""
        if self.fault.code == "not_found":
            return self.fault.cause in _WRONG_PATHS
        return find_responsible(self.fault.code, from_upstream=True) == "upstream"

    def to_dict(self, request_id: str) -> dict[str, Any]:
        fault = self.fault
        optional = {"name": fault.upstream, "cause": fault.cause}
        upstream: dict[str, Any] = {key: value for key, value in optional.items() if value is not None}
        upstream |= {"status": fault.status, "message": fault.message}
        if self.fault.detail is not None:
            upstream["detail"] = self.fault.detail
        message = self._describe_cause(find_retry_word(self.code, fault.cause))
        of_whom = {"upstream": upstream} if fault.policy is None else {"policy": fault.policy.to_dict()}
        out = super().to_dict(request_id) | {"message": message, **of_whom}
        if fault.code == "context_length_exceeded" and isinstance(fault.detail, dict):
            out |= {name: fault.detail[name] for name in _EXCESS if name in fault.detail}
        if self.fault.retry_after_seconds is not None:
            out["retry_after_seconds"] = self.fault.retry_after_seconds
        if fault.usage is not None:
            out["usage"] = fault.usage
        if fault.server_tools is not None:
            out["server_tools"] = fault.server_tools.to_dict()
        return out

    @property
    def headers(self) -> dict[str, str]:
        wait = self.fault.retry_after_seconds
        return {**(self.fault.headers or {}), **({} if wait is None else retry_after(wait))}


def retry_after(seconds: float) -> dict[str, str]:
    """Return the headers that tell a client when to come back. OpenAI's SDKs read the one in milliseconds."""
    return {"retry-after": str(max(1, -int(-seconds // 1))), "retry-after-ms": str(int(seconds * 1000))}
