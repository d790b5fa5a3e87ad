"""`RecentRequests`: the last requests that have ended, without their prompts and replies."""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from app.chat.stream import Attempt
from app.chat.token_usage import TokenUsage
from app.observe.request_record import RequestRecord

MAX_REQUESTS = 50
MAX_MODEL_CHARACTERS = 200
"""A name is cut to this length: behind a pass-through it is any text that a caller chose."""


class RecentRequest(Struct, frozen=True):
    """The fields of a `RequestRecord` of the same names."""

    ended_at: float
    """Unix seconds."""
    request_id: str
    endpoint: str
    caller: str
    model: str
    stream: bool
    status: int
    error: str | None
    error_from_upstream: bool
    finish_reason: str | None
    cache: str
    duration: float
    first_token_seconds: float | None
    """From the start of the request to the reply's first event."""
    tokens: TokenUsage | None
    cost: float | None
    attempts: Sequence[Attempt]


class RecentRequests:
    """Keeps the last requests of this process in memory."""

    def __init__(self, max_requests: int = MAX_REQUESTS) -> None:
        self._rows: deque[RecentRequest] = deque(maxlen=max_requests)

    def observe(self, record: RequestRecord) -> None:
        first = record.first_token_at
        self._rows.append(
            RecentRequest(
                record.ended_at,
                record.request_id,
                record.endpoint,
                record.caller,
                record.model[:MAX_MODEL_CHARACTERS],
                record.stream,
                record.status,
                record.error,
                record.error_from_upstream,
                record.finish_reason,
                record.cache,
                record.duration,
                None if first is None else first - record.started_at,
                record.tokens,
                record.cost,
                record.attempts,
            )
        )

    def list_newest_first(self) -> list[RecentRequest]:
        return list(reversed(self._rows))
