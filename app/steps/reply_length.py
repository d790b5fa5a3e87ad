"""Detects that a reply ended at its limit of output tokens, for servers that do not say so (`reports_length`).

The usage shows it: the reply has as many tokens as the request allows. One that ends by itself with the last of them
looks the same.
"""

from msgspec.structs import replace

from app.chat.events import Event, Finish
from app.chat.messages import ChatRequest
from app.params import find_max_tokens
from app.profiles import Profile


def find_unreported_limit(request: ChatRequest, profile: Profile) -> int | None:
    """Return the limit that is sent with a request to a server that does not say what met it; None if there is none."""
    limit = find_max_tokens({}, request.params)
    if limit is None:
        return None
    limit = limit if profile.max_output_tokens is None else min(limit, profile.max_output_tokens)
    return limit if profile.min_output_tokens is None else max(limit, profile.min_output_tokens)


class ReplyLengthStage:
    """Runs first, so that it sees the end as the server sent it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def feed(self, events: list[Event]) -> list[Event]:
        last = events[-1] if events else None
        if type(last) is not Finish or last.reason not in ("stop", "tool_calls"):
            return events
        if ((last.usage or {}).get("completion_tokens") or 0) < self._limit:
            return events
        return [*events[:-1], replace(last, reason="length")]
