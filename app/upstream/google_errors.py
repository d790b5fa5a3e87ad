"""What an error of Google's APIs means: its `status`, its `details`, then its words (google.rpc.Status).

Both the Gemini API and Google's endpoint for chat completions answer with such errors. The words alone mislead: each
429 says "exceeded your current quota" (vercel/ai, packages/google/src/__fixtures__/google-429-retry-info.json), and an
invalid key is a 400.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from app.upstream.long_prompts import is_long_prompt

_BY_STATUS = {
    "INVALID_ARGUMENT": "invalid_request",
    "FAILED_PRECONDITION": "invalid_request",
    "OUT_OF_RANGE": "invalid_request",
    "ALREADY_EXISTS": "invalid_request",
    "UNIMPLEMENTED": "invalid_request",
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAVAILABLE": "overloaded",
    "INTERNAL": "server_error",
    "UNKNOWN": "server_error",
    "DATA_LOSS": "server_error",
    "DEADLINE_EXCEEDED": "timeout",
    "CANCELLED": "upstream_incomplete",
    "ABORTED": "upstream_incomplete",
}
_WITHOUT_MEANING = frozenset(("INTERNAL", "UNKNOWN"))
"""What is beside a status of 4xx for which there is no word: proxies write 413 and 422 so."""
_PAYMENT_REQUIRED = 402
_BY_REASON = {"API_KEY_INVALID": "authentication", "API_KEY_EXPIRED": "authentication"}
_KEY = re.compile(r"api key (expired|not valid|invalid)", re.IGNORECASE)
_LOCATION = re.compile(r"location is not supported", re.IGNORECASE)
_INPUT_TOO_LONG = re.compile(r"input token count\b.{0,100}\bexceeds", re.IGNORECASE | re.DOTALL)
_NO_CREDITS = re.compile(
    r"credits? (?:(?:is|are|has been|have been|were) )?(?:used up|depleted|exhausted)|"
    r"(?:used up|depleted|exhausted|out of|run out of) (?:all |of )?(?:your |its )?(?:prepa\w+ )?credits?|spending cap|"
    r"billing (?:account )?(?:(?:is|has been|was) )?(?:not |in)?(?:active|enabled|disabled|closed|suspended)",
    re.IGNORECASE,
)
_BY_DAY = "PerDay"
_RETRY = re.compile(r"retry in (\d{1,6}(?:\.\d{1,12})?)s", re.IGNORECASE)
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,12})?)s")
_MAX_WORDS = 4096


class GoogleError(Struct, frozen=True):
    code: str
    """The gateway's code."""
    retry_after_seconds: float | None


def read_google_error(error: Mapping[str, Any], message: str, http_status: int | None) -> GoogleError | None:
    """Return what an error says; None if it is not one of Google's APIs, or if only its HTTP status says something."""
    status = error.get("status")
    code = _BY_STATUS.get(status) if isinstance(status, str) else None
    if code is None or (status in _WITHOUT_MEANING and http_status is not None and http_status < 500):
        return None
    if http_status == _PAYMENT_REQUIRED:  # none of the words says so: Parley writes FAILED_PRECONDITION
        code = "insufficient_quota"
    details = error.get("details")
    details = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    words = message[:_MAX_WORDS]
    by_reason = (_BY_REASON.get(reason) for one in details if isinstance(reason := one.get("reason"), str))
    code = next(filter(None, by_reason), code)
    if code == "rate_limit" and _is_used_up(details, words):
        code = "insufficient_quota"
    elif code == "invalid_request" and _KEY.search(words):
        code = "authentication"
    elif code == "invalid_request" and _LOCATION.search(words):
        code = "permission"
    elif code == "invalid_request" and (_INPUT_TOO_LONG.search(words) or is_long_prompt(words)):
        code = "context_length_exceeded"
    return GoogleError(code, _find_delay(details, words))


def _is_used_up(details: list[dict[str, Any]], words: str) -> bool:
    """Whether a quota does not come back within minutes."""
    quotas = [one.get("quotaId") for detail in details for one in _list_violations(detail)]
    ids = [one for one in quotas if isinstance(one, str)]
    return any(_BY_DAY in one for one in ids) or _NO_CREDITS.search(words) is not None


def _list_violations(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    violations = detail.get("violations")
    return [one for one in violations if isinstance(one, dict)] if isinstance(violations, list) else []


def _find_delay(details: list[dict[str, Any]], words: str) -> float | None:
    """Return the seconds of `RetryInfo`, else those of the text."""
    for detail in details:
        delay = detail.get("retryDelay")
        match = _DELAY.fullmatch(delay) if isinstance(delay, str) else None
        if match is not None:
            return float(match[1]) or None
    found = _RETRY.search(words)
    return None if found is None else float(found[1]) or None
