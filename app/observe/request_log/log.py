"""`RequestLog`: takes the requests that have ended from the event loop, and writes them in a thread.

The event loop only puts what it has into a queue. The thread cuts the bodies into pieces, removes what must not be
kept, and writes all waiting entries in one transaction. A disk that is full or broken loses entries, never a reply.
"""

import logging
import random
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.observe.request_log.bytes_test import BytesTest
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
from app.observe.request_log.file import EntryWriter, LogFile, LogFileError, NewBody, NewEntry, Query, TextPart
from app.observe.request_log.pieces import cut
from app.observe.request_log.redaction import (
    Find,
    add_values,
    apply_edits,
    find_edits,
    is_json,
    is_stream,
    join_parts,
    list_texts,
    read_escapes,
    redact_figures,
    redact_json,
    redact_stream,
    redact_text,
    redact_whole,
)
from app.observe.request_log.shared_texts import MIN_BYTES, Difference, SharedTexts
from app.observe.request_log.stream_texts import join_texts
from app.observe.request_record import RequestRecord
from app.runtime.background_thread import start_background_thread
from app.runtime.decompress import decompressor_for
from app.runtime.throttled_log import ThrottledLog
from app.validation.wildcards import match_any_wildcard

log = logging.getLogger("parley.request_log")

MAX_TEXT = 1000
"""Names of models, which callers choose behind a pass-through, and warnings are cut to this length."""
_TOGETHER = 64
"""So many entries are written in one transaction at most."""
_GATHER_SECONDS = 1.0
"""How long the thread waits for more entries before it writes: one transaction costs as much as several entries."""
_REMEMBERED_BYTES = 32 * 1024**2
"""The bytes of requests that are remembered, to keep the next ones as differences."""
_TRIM_SECONDS = 3600.0
"""How often entries are looked for that are too old, or after a tenth of the time that they are kept."""
_LOOK_SECONDS = 60.0
"""How often the thread looks whether another process has deleted what it remembers, also while no requests end."""
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
    guarded: bool
    """A guard may have changed the reply."""


def _may_hold(data: bytes) -> bool:
    return True


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
        may_hold: BytesTest = _may_hold,
    ) -> None:
        """`find` finds what must not be kept of a text, and `may_hold` says fast of bytes that there may be something:
        all are looked through without it. `count` counts entries by outcome: `written`; `dropped`, where
        the queue was full; `failed`, where the file could not be written."""
        self.rules = rules
        self._file = file
        self._find = find
        self._may_hold = may_hold
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
        self._shared = SharedTexts(_REMEMBERED_BYTES)
        self._openings = 0
        """Of the file, when these texts were written."""
        self._has_deleted = threading.Event()
        self._looked_at = time.monotonic()
        self._trimmed_at = -_TRIM_SECONDS

    @property
    def held_bytes(self) -> int:
        return self._budget.held

    def start(self) -> None:
        """Start the thread, which also deletes entries that are too old while no requests end."""
        if self._thread is None:
            self._thread = start_background_thread("request log", self._run)

    def set_finder(self, find: Find, may_hold: BytesTest = _may_hold) -> None:
        """Use another finder: a key has changed."""
        self._find, self._may_hold = find, may_hold

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
        self._queue.put(_Waiting(capture, record.ended_at, figures, values, capture.is_guarded))
        if self._queue.qsize() >= _TOGETHER or self._budget.held > self.rules.queue_bytes // 4:
            self._hurry.set()
        self.start()

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
        """Delete entries from the file, and what is remembered of their bodies."""
        self._wait_until_written()
        try:
            return self._file.delete(query)
        finally:
            self._has_deleted.set()
            self._wait_until_written()

    # In the thread that writes.

    def _run(self) -> None:
        more = True
        while more:
            batch, readers, more = self._next()
            if self._has_deleted.is_set() or time.monotonic() - self._looked_at > _LOOK_SECONDS:
                self._has_deleted.clear()
                self._forget_deleted()
            self._trim(_count_bytes(batch))
            if batch:
                self._write(batch)
            for reader in readers:
                reader.set()

    def _forget_deleted(self) -> None:
        """Forget the bodies that the file no longer has: also those that another process has deleted."""
        self._looked_at = time.monotonic()
        try:
            if ids := self._shared.list_ids():
                self._shared.keep(self._file.choose_texts(ids))
        except LogFileError:
            self._shared.clear()

    def _next(self) -> tuple[Sequence[_Waiting], Sequence[threading.Event], bool]:
        """Return the waiting entries, the readers that wait for these, and whether more may come."""
        batch: list[_Waiting] = []
        readers: list[threading.Event] = []
        try:
            item = self._queue.get(timeout=_LOOK_SECONDS)
        except Empty:
            return batch, readers, True
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
        try:
            with self._file.write(_count_bytes(batch)) as writer:
                if self._file.openings != self._openings:
                    self._shared.clear()
                    self._openings = self._file.openings
                for waiting in batch:
                    self._add(writer, waiting)
        except BaseException:
            self._shared.clear()  # the texts of this batch are not in the file
            raise
        self._count("written", len(batch))

    def _add(self, writer: EntryWriter, waiting: _Waiting) -> None:
        figures, capture = waiting.figures, waiting.capture
        read = _read_bodies(capture.bodies, self.rules.max_entry_bytes)
        differences = [self._compare(capture.owner, body) for body in read]
        find = None
        if waiting.values or self._is_suspicious(waiting, read, differences):
            find = add_values(self._find, waiting.values) if waiting.values else self._find
        texts = self._write_texts(writer, waiting, read, differences, find)
        bodies = [
            _keep(body, find) if text is None else NewBody(_redact_headers(body.facts, find), b"", *text)
            for body, text in zip(read, texts, strict=True)
        ]
        sizes = tuple([BodySize(body.facts.kind, body.facts.size, body.facts.is_cut) for body in bodies])
        if find is not None:
            figures = redact_figures(figures, find)
        writer.add(NewEntry(waiting.ended_at, replace(figures, bodies=sizes), bodies, figures.user))

    def _compare(self, owner: str, body: "_Read") -> Difference | None:
        """Return what is new of a long body of a request; None for others."""
        kind = body.facts.kind
        if len(body.data) < MIN_BYTES or body.facts.is_cut or not kind.endswith("request"):
            return None
        return self._shared.compare(((owner, kind), (owner, "client_request")), body.data)

    def _is_suspicious(
        self, waiting: _Waiting, read: Sequence["_Read"], differences: Sequence[Difference | None]
    ) -> bool:
        """Whether there may be something that must not be kept. The texts of a stream are joined, too, but for those
        of a reply that a client was sent as the only model server sent it."""
        is_one = not waiting.guarded and waiting.figures.cache in _SENT_ON and len(read) == _BODIES_OF_ONE
        is_one = is_one and not any(body.facts.is_cut for body in read)
        kept = [b"\n".join([*_list_headers(read), *[text.encode() for text in list_texts(waiting.figures)]])]
        for body in read:
            if (not is_one or body.facts.kind == "upstream_reply") and is_stream(body.data):
                kept.append(join_texts(body.data))
        for body, difference in zip(read, differences, strict=True):
            if difference is None:
                kept.append(body.data)
            elif len(difference.new) < _SEARCHED_TOGETHER:
                kept.append(difference.new)
            elif self._holds(difference.new):
                return True
        return self._holds(b"\n".join(kept))

    def _holds(self, data: bytes) -> bool:
        """Whether something is found in the strings of JSON, or may be."""
        return self._may_hold(data) and (b"\\u" in data or b"\\/" in data or bool(self._find(read_escapes(data))))

    def _write_texts(
        self,
        writer: EntryWriter,
        waiting: _Waiting,
        read: Sequence["_Read"],
        differences: Sequence[Difference | None],
        find: Find | None,
    ) -> "Sequence[_InText | None]":
        """Write the long bodies of requests, those with the same base as one text. Returns where each body is; None for
        those that are kept with the entry."""
        by_base: dict[int, list[tuple[int, _Long]]] = {}
        for place, (body, difference) in enumerate(zip(read, differences, strict=True)):
            if difference is not None and (find is None or is_json(body.data)):
                base = 0 if difference.base is None else difference.base.id
                by_base.setdefault(base, []).append((place, (body, difference)))
        found: list[_InText | None] = [None] * len(read)
        for base, placed in by_base.items():
            id_ = self._write_text(writer, waiting, [long for _, long in placed], base, find)
            for number, (place, _) in enumerate(placed):
                found[place] = id_, number
        return found

    def _write_text(
        self, writer: EntryWriter, waiting: _Waiting, bodies: "Sequence[_Long]", base: int, find: Find | None
    ) -> int:
        edits = [[] if find is None else find_edits(difference.new, find) for _, difference in bodies]
        kept = [apply_edits(difference.new, own) for (_, difference), own in zip(bodies, edits, strict=True)]
        parts = [_make_part(difference, len(data)) for (_, difference), data in zip(bodies, kept, strict=True)]
        id_ = writer.add_text(parts, b"".join(kept), base)
        if id_ is None:  # the entry with the base was deleted
            self._shared.clear()
            whole = [(body, Difference(body.data, body.data)) for body, _ in bodies]
            return self._write_text(writer, waiting, whole, 0, find)
        for number, ((body, difference), own) in enumerate(zip(bodies, edits, strict=True)):
            kind = body.facts.kind
            if kind == "upstream_request" or waiting.figures.status < _REFUSED:  # so it is JSON
                place = waiting.capture.owner, kind
                self._shared.add(place, difference.make_text(id_, number, own), difference.base)
        return id_

    def _trim(self, more: int) -> None:
        """Keep the bounds of bytes and days, with so many bytes more that are to be written. They are first in the log
        of changes, and then in the file, too."""
        rules, now = self.rules, time.monotonic()
        size = self._file.measure()
        most = max(rules.max_bytes - 2 * more, rules.max_bytes // 2)
        pause = min(_TRIM_SECONDS, rules.keep_days * 8640)
        if not size or (size <= most and now < self._trimmed_at + pause):
            return
        self._trimmed_at = now
        try:
            self._file.trim(most, rules.keep_days, time.time())
        except LogFileError as error:
            self._throttled.warn("old entries of the request log cannot be deleted", error)


def _count_bytes(batch: Sequence[_Waiting]) -> int:
    return sum([waiting.capture.held_bytes for waiting in batch])


_ENTRY_BYTES = 2048
"""What the figures of an entry take in memory, about."""


_SEARCHED_TOGETHER = 64 * 1024
"""Shorter parts of an entry are joined before they are looked through, because each search has a price of its own."""
_REFUSED = 400
_SENT_ON = ("miss", "bypass", "refresh")
"""What a request is said to be whose reply is that of its own call."""
_BODIES_OF_ONE = 4
"""The bodies of a request for which one model server was asked once."""


class _Read(Struct, frozen=True):
    """A body before it is looked through."""

    facts: BodyFacts
    data: bytes
    times: bytes = b""
    sizes: bytes = b""


_Long: TypeAlias = tuple[_Read, Difference]
"""A long body of a request, and what is new of it."""
_InText: TypeAlias = tuple[int, int]
"""The id of a text, and which body of it."""


def _make_part(difference: Difference, size: int) -> TextPart:
    base = difference.base
    return TextPart(size) if base is None else TextPart(size, base.number, difference.prefix, difference.suffix)


def _read_bodies(bodies: Sequence[CapturedBody], most: int) -> Sequence[_Read]:
    """Return the bodies in their order, as far as they fit into so many bytes. What was received is kept before what
    was sent."""
    read: dict[int, _Read] = {}
    for body in sorted(bodies, key=_is_request):
        one = _read_body(body)
        if len(one.data) > most:
            one = _cut_body(one, most)
        most -= len(one.data)
        read[id(body)] = one
    return [read[id(body)] for body in bodies]


def _is_request(body: CapturedBody) -> bool:
    return body.kind.endswith("request")


def _read_body(body: CapturedBody) -> _Read:
    facts, data = body.describe(), b"".join(body.data)
    if not body.times:
        return _Read(facts, data)
    times, sizes = body.list_parts()
    if any(name == "content-encoding" for name, _ in facts.headers):
        return _decompress(data, replace(facts, parts=((times[-1], len(data)),)))
    return _Read(facts, data, times.tobytes(), sizes.tobytes())


def _cut_body(body: _Read, most: int) -> _Read:
    """Return as many whole pieces of the body of a request as fit into so many bytes, and nothing of a response."""
    facts = replace(body.facts, is_cut=True)
    if not facts.kind.endswith("request"):
        return _Read(replace(facts, parts=()), b"")
    kept: list[bytes] = []
    for piece in [piece for group in cut(body.data) for piece in group]:
        if len(piece) > most:
            break
        most -= len(piece)
        kept.append(piece)
    return _Read(facts, b"".join(kept))


def _list_headers(read: Sequence[_Read]) -> list[bytes]:
    return [value.encode() for body in read for _, value in body.facts.headers]


def _keep(body: _Read, find: Find | None) -> NewBody:
    """Return a body as it is kept, without what is found."""
    facts, data = body.facts, body.data
    if find is None or not data:
        return NewBody(_redact_headers(facts, find), data, 0, 0, body.times, body.sizes)
    facts = _redact_headers(facts, find)
    if not is_stream(data):
        is_piece = facts.is_cut and facts.kind.endswith("request")  # whole pieces of what is JSON
        redacted = redact_json(data, find) if is_piece else redact_whole(data, find)
        if redacted == data:
            return NewBody(facts, data, 0, 0, body.times, body.sizes)
        return NewBody(replace(facts, parts=join_parts(_list_parts(body), redacted)), redacted)
    redacted, parts = redact_stream(data, _list_parts(body), find)
    return NewBody(replace(facts, parts=parts), redacted)


def _list_parts(body: _Read) -> Sequence[tuple[float, int]]:
    if not body.times:
        return body.facts.parts
    times, sizes = array("d"), array("Q")
    times.frombytes(body.times)
    sizes.frombytes(body.sizes)
    return [(round(at, 3), size) for at, size in zip(times, sizes, strict=True)]


def _decompress(data: bytes, facts: BodyFacts) -> _Read:
    """Decompress a response, of which nothing could be found otherwise. What cannot be decompressed is not kept."""
    encoding = next(value for name, value in facts.headers if name == "content-encoding")
    try:
        plain = decompressor_for(encoding).feed(data)
    except ValueError:
        return _Read(replace(facts, is_cut=True, parts=()), b"")
    headers = tuple([line for line in facts.headers if line[0] != "content-encoding"])
    return _Read(replace(facts, headers=headers, parts=join_parts(facts.parts, plain)), plain)


def _redact_headers(facts: BodyFacts, find: Find | None) -> BodyFacts:
    if find is None or not find("\n".join([value for _, value in facts.headers])):
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
        guards=record.guards,
    )
