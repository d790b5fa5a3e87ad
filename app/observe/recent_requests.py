"""`RecentRequests`: the last requests that have ended, without their prompts and replies."""

import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from app.observe.request_record import RequestRecord

MAX_REQUESTS = 50


class RecentRequest(Struct, frozen=True):
    ended_at: float
    """Unix seconds."""
    request_id: str
    endpoint: str
    key: str
    """The name of the API key; empty without one."""
    model: str
    stream: bool
    status: int
    error: str | None
    finish_reason: str | None
    cache: str
    milliseconds: float
    first_token_ms: float | None
    """From the start of the request to the reply's first event."""
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    attempts: tuple[str, ...]
    """Each as `upstream: outcome`, in order."""


class RecentRequests:
    """Keeps the last requests of this process in memory."""

    def __init__(self, max_requests: int = MAX_REQUESTS, *, clock: Callable[[], float] = time.time) -> None:
        self._rows: deque[RecentRequest] = deque(maxlen=max_requests)
        self._clock = clock

    def observe(self, record: RequestRecord) -> None:
        tokens, first = record.tokens, record.first_token_at
        self._rows.append(
            RecentRequest(
                self._clock(),
                record.request_id,
                record.endpoint,
                record.caller,
                record.model[:200],
                record.stream,
                record.status,
                record.error,
                record.finish_reason,
                record.cache,
                round(record.duration * 1000, 1),
                None if first is None else round((first - record.started_at) * 1000, 1),
                None if tokens is None else tokens.input,
                None if tokens is None else tokens.output,
                record.cost,
                tuple([f"{attempt.upstream}: {attempt.outcome}" for attempt in record.attempts]),
            )
        )

    def list_newest_first(self) -> list[RecentRequest]:
        return list(reversed(self._rows))
