"""`RequestLog`: takes the requests that have ended from the event loop, and writes them in a thread.

The event loop only puts what it has into a queue. The thread cuts the bodies into pieces, removes what must not be
kept, and writes all waiting entries in one transaction. A disk that is full or broken loses entries, never a reply.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from queue import Empty, SimpleQueue

from msgspec import Struct
from msgspec.structs import replace

from app.observe.request_log.capture import ByteBudget, CapturedBody, RequestCapture
from app.observe.request_log.entry import (
    BodyFacts,
    BodySize,
    Content,
    Figures,
    LoggedAttempt,
    LoggedRequest,
    LoggedTokens,
)
from app.observe.request_log.file import EntryWriter, LogFile, LogFileError, NewBody, NewEntry, Query, StoredList
from app.observe.request_log.pieces import cut
from app.observe.request_log.redaction import (
    Find,
    add_values,
    is_stream,
    join_parts,
    redact_json,
    redact_plain,
    redact_stream,
    redact_text,
    redact_whole,
)
from app.observe.request_record import RequestRecord
from app.runtime.background_thread import start_background_thread
from app.runtime.bounded_map import BoundedMap
from app.runtime.decompress import decompressor_for
from app.runtime.throttled_log import ThrottledLog
from app.validation.wildcards import match_any_wildcard

log = logging.getLogger("parley.request_log")

MAX_TEXT = 1000
"""Names of models, which callers choose behind a pass-through, and warnings are cut to this length."""
_TOGETHER = 64
"""So many entries are written in one transaction at most."""
_GATHER_SECONDS = 0.2
"""How long the thread waits for more entries before it writes: one transaction costs as much as a short entry."""
_KNOWN_LISTS = 50_000
_KNOWN_BYTES = 1
_TRIM_SECONDS = 3600.0
"""How often entries are looked for that are too old."""
_WRITE_SECONDS = 5.0
"""How long a reader waits until the entries of requests that have ended are written."""
CLOSE_SECONDS = 10.0
"""How long the process waits at its end until waiting entries are written."""


class LogRules(Struct, frozen=True):
    """What is kept, and how much of it."""

    keeps_all: bool = True
    """False: only requests that failed, and those that `sample_ratio` chooses."""
    sample_ratio: float = 0.0
    content: Content = "masked"
    keys: Sequence[str] = ("*",)
    models: Sequence[str] = ("*",)
    max_bytes: int = 1024**3
    max_entry_bytes: int = 4 * 1024**2
    keep_days: float = 7
    queue_bytes: int = 32 * 1024**2


class _Waiting(Struct, frozen=True):
    capture: RequestCapture
    ended_at: float
    figures: Figures
    values: Mapping[str, str]
    """What must not be kept besides, and its kinds."""


def _count_nothing(outcome: str, entries: int) -> None: ...


class RequestLog:
    """`begin`, `end` and `close` belong to the event loop. The others block, and are called from threads."""

    def __init__(
        self,
        file: LogFile,
        rules: LogRules,
        find: Find,
        count: Callable[[str, int], None] = _count_nothing,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`find` finds what must not be kept of a text. `count` counts entries by outcome: `written`; `dropped`, where
        the queue was full; `failed`, where the file could not be written."""
        self.rules = rules
        self._file = file
        self._find = find
        self.counts: Counter[str] = Counter()
        """Entries by outcome. Each outcome is counted in one thread."""
        self._report = count
        self._draw = draw
        self._budget = ByteBudget(rules.queue_bytes)
        self._queue: SimpleQueue[_Waiting | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()
        """Set where the thread should not wait for more entries."""
        self._throttled = ThrottledLog(log)
        self._known: BoundedMap[bytes, int] = BoundedMap(_KNOWN_LISTS * _KNOWN_BYTES, _KNOWN_LISTS)
        """The ids of lists by the hash of what they were made of, so that this is not looked through again."""
        self._trimmed_at = 0.0

    @property
    def held_bytes(self) -> int:
        return self._budget.held

    def set_finder(self, find: Find) -> None:
        """Use another finder: a key has changed."""
        self._find, self._known = find, BoundedMap(_KNOWN_LISTS * _KNOWN_BYTES, _KNOWN_LISTS)

    # In the event loop.

    def begin(
        self, key: str, owner: str, path: str, headers: Sequence[tuple[bytes, bytes]], *, bodies: bool = True
    ) -> RequestCapture | None:
        """Return where the bodies of a request are captured; None if requests of this key are not logged. Without
        `bodies` only figures are kept."""
        rules = self.rules
        if not match_any_wildcard(rules.keys, key):
            return None
        holds = bodies and rules.content != "none"
        most = rules.max_entry_bytes if holds else 0
        return RequestCapture(self._budget, owner, path, headers if holds else (), most, log=self)

    def end(self, record: RequestRecord, capture: RequestCapture) -> None:
        """Take a request that has ended."""
        capture.close()
        if not self._is_wanted(record):
            capture.release()
            return
        # The figures alone take place, too.
        if not capture.take(_ENTRY_BYTES):
            capture.release()
            self._count("dropped", 1)
            self._throttled.warn(
                "entries of the request log are dropped, because more than request_log.queue_bytes wait to be written",
                record.request_id,
            )
            return
        values = capture.list_values() if self.rules.content == "masked" else {}
        figures = _read_figures(record, capture, self.rules.content)
        self._queue.put(_Waiting(capture, record.ended_at, figures, values))
        if self._queue.qsize() >= _TOGETHER or self._budget.held > self.rules.queue_bytes // 4:
            self._hurry.set()
        if self._thread is None:
            self._thread = start_background_thread("request log", self._run)

    def _is_wanted(self, record: RequestRecord) -> bool:
        rules = self.rules
        if not match_any_wildcard(rules.models, record.model):
            return False
        failed = record.error is not None or record.upstream_failure is not None
        return rules.keeps_all or failed or self._draw() < rules.sample_ratio

    def close(self) -> None:
        """Write what waits, and end the thread. It blocks for at most CLOSE_SECONDS."""
        if self._thread is not None:
            self._queue.put(None)
            self._hurry.set()
            self._thread.join(CLOSE_SECONDS)
            self._thread = None
        self._file.close()

    # In other threads.

    def find_entries(self, query: Query, most: int) -> list[LoggedRequest]:
        """Return the newest entries without their bodies, also of requests that have just ended."""
        self._wait_until_written()
        return self._file.find_entries(query, most)

    def read(self, id_: int) -> LoggedRequest | None:
        return self._file.read(id_)

    def _wait_until_written(self) -> None:
        if self._thread is not None:
            written = threading.Event()
            self._queue.put(written)
            self._hurry.set()
            written.wait(_WRITE_SECONDS)

    def delete(self, query: Query) -> int:
        self._wait_until_written()
        return self._file.delete(query)

    # In the thread that writes.

    def _run(self) -> None:
        more = True
        while more:
            batch, readers, more = self._next()
            if batch:
                self._write(batch)
                self._trim()
            for reader in readers:
                reader.set()

    def _next(self) -> tuple[Sequence[_Waiting], Sequence[threading.Event], bool]:
        """Return the waiting entries, the readers that wait for these, and whether more may come."""
        batch: list[_Waiting] = []
        readers: list[threading.Event] = []
        item = self._queue.get()
        if isinstance(item, _Waiting):
            self._hurry.wait(_GATHER_SECONDS)
        self._hurry.clear()
        while item is not None:
            if isinstance(item, _Waiting):
                batch.append(item)
            else:
                readers.append(item)
            if len(batch) == _TOGETHER:
                return batch, readers, True
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, readers, True
        return batch, readers, False

    def _write(self, batch: Sequence[_Waiting]) -> None:
        """Write the entries together. If that fails, each alone: one of them may be the cause, or too large."""
        try:
            self._write_together(batch)
        except Exception:
            for waiting in batch:
                self._write_alone(waiting)
        finally:
            for waiting in batch:
                waiting.capture.release()

    def _write_alone(self, waiting: _Waiting) -> None:
        try:
            self._write_together([waiting])
        except Exception as error:
            self._count("failed", 1)
            cause = error if isinstance(error, LogFileError) else f"defect: {type(error).__name__}"
            self._throttled.warn("the request log cannot be written, and entries are lost", cause)

    def _count(self, outcome: str, entries: int) -> None:
        self.counts[outcome] += entries
        self._report(outcome, entries)

    def _write_together(self, batch: Sequence[_Waiting]) -> None:
        learned: dict[bytes, int] = {}
        with self._file.write() as writer:
            for waiting in batch:
                self._add(writer, waiting, learned)
        for digest, id_ in learned.items():
            self._known.put(digest, id_, _KNOWN_BYTES)
        self._count("written", len(batch))

    def _add(self, writer: EntryWriter, waiting: _Waiting, learned: dict[bytes, int]) -> None:
        find = add_values(self._find, waiting.values) if waiting.values else self._find
        made = list(self._make_bodies(writer, waiting, learned, find))
        sizes = tuple([BodySize(body.facts.kind, body.facts.size, body.facts.is_cut) for body, _ in made])
        warnings = tuple([redact_text(one, find) for one in waiting.figures.warnings])
        figures = replace(waiting.figures, bodies=sizes, warnings=warnings)
        ids = writer.add(NewEntry(waiting.ended_at, figures, [body for body, _ in made], figures.user))
        learned.update(zip(chain.from_iterable(digests for _, digests in made), ids, strict=True))

    def _make_bodies(
        self, writer: EntryWriter, waiting: _Waiting, learned: dict[bytes, int], find: Find
    ) -> Iterator[tuple[NewBody, list[bytes]]]:
        """Yield each body as it is kept, with a hash of each of its lists. What was received is kept before what was
        sent, if the entry is too large."""
        rest = self.rules.max_entry_bytes
        bodies = waiting.capture.bodies
        by_place: dict[int, tuple[NewBody, list[bytes]]] = {}
        for body in sorted(bodies, key=lambda one: one.kind.endswith("request")):
            facts, groups = self._read_body(body, find)
            groups, facts, rest = _cut_groups(groups, facts, rest)
            owner = waiting.capture.owner
            digests = [_hash_group(owner, facts.kind.endswith("request"), group) for group in groups]
            lists = [
                self._make_list(writer, group, digest, learned, find if facts.kind.endswith("request") else None)
                for group, digest in zip(groups, digests, strict=True)
            ]
            by_place[id(body)] = NewBody(facts, lists), digests
        yield from (by_place[id(body)] for body in bodies)

    @staticmethod
    def _read_body(body: CapturedBody, find: Find) -> tuple[BodyFacts, Sequence[Sequence[bytes]]]:
        """Return what is known of a body, and its pieces. A response is redacted here, as a whole."""
        facts, data = _redact_headers(body.describe(), find), b"".join(body.data)
        if not data:
            return facts, ()
        if facts.kind.endswith("request"):
            return facts, cut(data) or [[redact_plain(data, find)]]
        data, facts = _decompress(data, facts)
        if is_stream(data):
            data, parts = redact_stream(data, facts.parts, find)
            return replace(facts, parts=parts), [[data]]
        redacted = redact_whole(data, find)
        return (facts if redacted is data else replace(facts, parts=join_parts(facts.parts, redacted))), [[redacted]]

    def _make_list(
        self,
        writer: EntryWriter,
        group: Sequence[bytes],
        digest: bytes,
        learned: dict[bytes, int],
        find: Find | None,
    ) -> StoredList:
        """Without `find` nothing is left to be removed."""
        known = learned.get(digest) or self._known.get(digest)
        if known is not None and writer.find_list(known):
            return StoredList(known)
        return StoredList(pieces=group if find is None else [redact_json(piece, find) for piece in group])

    def _trim(self) -> None:
        """Keep the bounds of bytes and days."""
        rules, now = self.rules, time.monotonic()
        is_large = self._file.measure() > rules.max_bytes
        if not is_large and self._trimmed_at and now - self._trimmed_at < _TRIM_SECONDS:
            return
        self._trimmed_at = now
        try:
            self._file.trim(rules.max_bytes, rules.keep_days, time.time())
        except LogFileError as error:
            self._throttled.warn("old entries of the request log cannot be deleted", error)


_ENTRY_BYTES = 2048
"""What the figures of an entry take in memory, about."""


def _hash_group(owner: str, is_request: bool, group: Sequence[bytes]) -> bytes:
    digest = blake2b(digest_size=20, person=b"request" if is_request else b"reply")
    digest.update(repr((owner, [*map(len, group)])).encode())
    digest.update(b"".join(group))
    return digest.digest()


def _cut_groups(
    groups: Sequence[Sequence[bytes]], facts: BodyFacts, most: int
) -> tuple[Sequence[Sequence[bytes]], BodyFacts, int]:
    """Return the pieces that fit into so many bytes, and the bytes that are left."""
    size = sum(sum(map(len, group)) for group in groups)
    if size <= most:
        return groups, facts, most - size
    kept: list[list[bytes]] = []
    for group in groups:
        fitting: list[bytes] = []
        for piece in group:
            if len(piece) > most:
                kept += [fitting] if fitting else []
                return kept, replace(facts, is_cut=True), most
            most -= len(piece)
            fitting.append(piece)
        kept.append(fitting)
    return kept, facts, most


def _decompress(data: bytes, facts: BodyFacts) -> tuple[bytes, BodyFacts]:
    """Decompress a response, of which nothing could be found otherwise. What cannot be decompressed is not kept."""
    encoding = next((value for name, value in facts.headers if name == "content-encoding"), None)
    if encoding is None:
        return data, facts
    try:
        plain = decompressor_for(encoding).feed(data)
    except ValueError:
        return b"", replace(facts, is_cut=True, parts=())
    headers = tuple([line for line in facts.headers if line[0] != "content-encoding"])
    return plain, replace(facts, headers=headers, parts=join_parts(facts.parts, plain))


def _redact_headers(facts: BodyFacts, find: Find) -> BodyFacts:
    if not find("\n".join([value for _, value in facts.headers])):
        return facts
    return replace(facts, headers=tuple([(name, redact_text(value, find)) for name, value in facts.headers]))


def _clean(text: str) -> str:
    """Return a text of a client or a model server so that it can be written: in UTF-8, and not longer than a name."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()


def _read_figures(record: RequestRecord, capture: RequestCapture, content: Content) -> Figures:
    tokens = record.tokens
    return Figures(
        record.request_id,
        record.endpoint,
        record.ended_at - record.duration,
        round(record.duration, 6),
        record.status,
        record.caller,
        record.team,
        capture.owner,
        _clean(record.model),
        _clean(record.requested_model),
        record.fallback_model,
        record.route,
        record.stream,
        record.error,
        record.error_from_upstream,
        record.finish_reason,
        record.output,
        record.cache,
        record.cost,
        None
        if tokens is None
        else LoggedTokens(
            *(tokens.input, tokens.output, tokens.cached_input, tokens.cache_write, tokens.reasoning),
            record.tokens_estimated,
        ),
        record.first_token_seconds,
        record.overhead,
        tuple(
            [
                LoggedAttempt(one.upstream, one.outcome, one.milliseconds, one.model, one.status, one.cause, one.reason)
                for one in record.attempts
            ]
        ),
        tuple(map(_clean, capture.warnings)),
        content if capture.holds_bodies else "none",
        record.user,
    )
