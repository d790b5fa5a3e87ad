"""What is captured of one request while it is served. Everything here runs in the event loop and copies nothing."""

import threading
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from app.observe.request_log.entry import BodyFacts, BodyKind, Header

_LOGGED_HEADERS = frozenset(
    (
        *("user-agent", "content-type", "content-encoding", "accept", "x-request-id", "request-id", "retry-after"),
        *("x-should-retry", "x-stainless-lang", "x-stainless-package-version", "x-app", "originator", "cf-ray"),
    )
)
_LOGGED_PREFIXES = ("anthropic-", "openai-", "x-ratelimit-", "x-parley-")


def choose_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[Header, ...]:
    """Return the headers that may be kept: those of a short list. None of them holds a key or a cookie."""
    named = [(_choose_name(name), value) for name, value in headers]
    return tuple([(name, value.decode("latin-1")) for name, value in named if name])


@lru_cache(512)
def _choose_name(name: bytes) -> str:
    """Return the name of a header that may be kept; empty for others."""
    text = name.decode("latin-1").lower()
    return text if text in _LOGGED_HEADERS or text.startswith(_LOGGED_PREFIXES) else ""


class ByteBudget:
    """The bytes that requests in progress and entries that wait to be written may hold together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        return self._held

    def take(self, size: int) -> bool:
        """Return whether there is place. Then it is taken."""
        with self._lock:
            if self._held + size > self._most:
                return False
            self._held += size
            return True

    def give(self, size: int) -> None:
        with self._lock:
            self._held -= size


_RESERVED = 64 * 1024
"""So many bytes are taken from the budget at once, because its lock costs more than to keep a chunk."""


class _Room:
    """What the bodies of one request may hold. They refer to it, and not to the request, so that all of it is freed
    without the garbage collector."""

    __slots__ = ("_budget", "_left", "began", "free", "held", "is_closed", "max_bytes")

    def __init__(self, budget: ByteBudget, max_bytes: int) -> None:
        self._budget = budget
        self._left = max_bytes
        """For replies."""
        self.began = time.perf_counter()
        self.free = 0
        """Bytes that were taken from the budget and hold nothing yet."""
        self.max_bytes = max_bytes
        self.held = 0
        self.is_closed = False

    def take(self, size: int) -> bool:
        """Whether so many bytes more of a reply are kept. Then they are free."""
        wanted = max(size - self.free, min(_RESERVED, self._left))
        if size - self.free > self._left or not self._budget.take(wanted):
            return False
        self._left -= wanted
        self.held += wanted
        self.free += wanted
        return True

    def take_whole(self, size: int) -> bool:
        """Whether the body of a request is kept."""
        if not self.max_bytes or self.is_closed or not self._budget.take(size):
            return False
        self.held += size
        return True

    def take_figures(self, size: int) -> bool:
        taken = self._budget.take(size)
        self.held += size if taken else 0
        return taken

    def release(self) -> None:
        held, self.held = self.held, 0
        self._budget.give(held)


class CapturedBody:
    """One body, as far as it has come."""

    __slots__ = (
        *("_room", "data", "end", "exchange", "headers", "is_cut", "kind", "path", "size", "status", "times"),
        "upstream",
    )

    def __init__(self, room: _Room, kind: BodyKind, exchange: int = -1, upstream: str = "", path: str = "") -> None:
        self._room = room
        self.kind: BodyKind = kind
        self.exchange = exchange
        self.upstream = upstream
        self.path = path
        self.status = 0
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self.data: list[bytes | bytearray] = []
        self.times: list[float] = []
        """When each of them came, by `time.perf_counter`, if they are reads or frames."""
        self.size = 0
        self.end = ""
        self.is_cut = False

    def record_head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status, self.headers = status, headers

    def record_data(self, data: bytes | bytearray) -> None:
        """Keep one read or frame. Once something did not fit, nothing that comes later is kept."""
        room, size = self._room, len(data)
        if room.is_closed or not size:
            return
        self.size += size
        if self.is_cut or (size > room.free and not room.take(size)):
            self.is_cut = True
            return
        room.free -= size
        self.data.append(data)
        self.times.append(time.perf_counter())

    def record_whole(self, data: bytes | bytearray) -> None:
        """Keep the body of a request. One that is larger than an entry may be is cut when it is written, where it can
        be cut at whole messages."""
        room = self._room
        self.size = len(data)
        self.is_cut = not room.take_whole(len(data))
        if not self.is_cut:
            self.data = [data]

    def record_end(self, error: Exception | None) -> None:
        if not self._room.is_closed:
            self.end = "end" if error is None else "cut"

    def clear(self) -> None:
        """Free the bytes."""
        self.data, self.times = [], []

    def list_parts(self) -> "tuple[array[float], array[int]]":
        """Return when each read or frame came, in milliseconds, and its size."""
        began = self._room.began
        return array("d", [(at - began) * 1000 for at in self.times]), array("Q", map(len, self.data))

    def describe(self) -> BodyFacts:
        """Return what is known of the body, without its parts."""
        return BodyFacts(
            self.kind,
            self.exchange,
            self.size,
            self.is_cut,
            self.status,
            self.upstream,
            self.path,
            choose_headers(self.headers),
            (),
            self.end,
        )


class RequestCapture:
    """The bodies of one request. It is the `CallRecorder` of its calls to model servers."""

    def __init__(
        self,
        budget: ByteBudget,
        owner: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        max_bytes: int,
        *,
        log: Any = None,
    ) -> None:
        """With `max_bytes` 0 no body is kept, only its size. `log` is where it is written at its end."""
        self.log = log
        self.owner = owner
        self.warnings: Sequence[str] = ()
        self.list_values: Callable[[], Mapping[str, str]] = dict
        """Returns values of this request that must not be kept, and their kinds."""
        self._room = room = _Room(budget, max_bytes)
        self.request = CapturedBody(room, "client_request", path=path)
        self.request.headers = headers
        self.reply = CapturedBody(room, "client_reply")
        self.bodies = [self.request, self.reply]
        self._exchanges = 0

    @property
    def holds_bodies(self) -> bool:
        return self._room.max_bytes > 0

    @property
    def held_bytes(self) -> int:
        return self._room.held

    @property
    def is_guarded(self) -> bool:
        """Whether a guard may change the reply."""
        return self.list_values is not dict

    def take(self, size: int) -> bool:
        """Whether there is place for what is known of the request beside its bodies."""
        return self._room.take_figures(size)

    def begin_exchange(self, upstream: str, path: str, body: object) -> CapturedBody:
        """Keep what a model server is sent, and return where its response is recorded. A body that is read from a file
        is not kept."""
        number, self._exchanges = self._exchanges, self._exchanges + 1
        sent = CapturedBody(self._room, "upstream_request", number, upstream, path)
        if isinstance(body, bytes):
            sent.record_whole(body)
        got = CapturedBody(self._room, "upstream_reply", number, upstream, path)
        if not self._room.is_closed:
            self.bodies += (sent, got)
        return got

    def record_warnings(self, warnings: Sequence[str]) -> None:
        self.warnings = warnings

    def close(self) -> None:
        """Keep no more: the request has ended. A call that goes on for other readers is not waited for."""
        self._room.is_closed = True

    def release(self) -> None:
        """Free the bodies, also for a call that goes on and still refers to them."""
        self.close()
        for body in self.bodies:
            body.clear()
        self._room.release()
