"""Readers of answers that pass through: JSON, bytes, or the events of a stream."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import AnswerPart, Event, Failed, Fault, Finish
from app.endpoints.scan import JsonScan
from app.endpoints.streamed import EventSplitter, StreamedAnswer
from app.endpoints.usage import USAGE_FIELDS, read_answer_usage
from app.endpoints.vectors import VectorEncoder
from app.upstream import faults
from app.upstream.reply.reader import ReplyAssembler, ReplyReader
from app.upstream.reply.sse import MalformedData

HELD_BYTES = 1024 * 1024
"""Shorter JSON is held back until it is whole, so that an error in it is an HTTP status, and another server can be
asked."""
_WANTED = USAGE_FIELDS | {b"error"}
_PASSED_HEADERS = frozenset((b"content-type", b"content-disposition"))
_METADATA_HEADERS = frozenset((b"metadata",))
"""vLLM tells in it how to read vectors that it sends as bytes (docs.vllm.ai, "Pooling Models")."""
_PIECES = "the model server's answer ended before it was complete"


class AnswerOptions(Struct, frozen=True):
    """What is known of the answer from its request."""

    model: str
    """The name that the client knows the model by."""
    needs_json: bool = True
    """The endpoint answers with JSON alone."""
    choices: int | None = None
    """How many choices of a text completion must come to their end; None: it is none."""
    hides_usage: bool = False
    """The client did not ask for the usage in the stream."""
    wants_base64: bool = False
    """The client asked for vectors in base64."""

    def for_model(self, model: str) -> "AnswerOptions":
        """Return the options for the answer of another model."""
        return replace(self, model=model)


class ByteReader:
    """Takes the bytes of an answer as they are."""

    junk = b""
    saw_line = False

    def feed(self, data: bytes) -> list[Any]:
        self.saw_line = True
        return [data]

    def close(self, clean: bool) -> list[Any]:
        return []


def make_answer_reader(headers: Sequence[tuple[bytes, bytes]], options: AnswerOptions) -> ReplyReader:
    """Return the reader for an answer with these headers."""
    lines = {name.lower(): value for name, value in headers}
    kind = lines.get(b"content-type", b"").partition(b";")[0].strip().lower()
    kept = tuple([(name, value) for name, value in lines.items() if name in _PASSED_HEADERS | _METADATA_HEADERS])
    counted = lines.get(b"x-compute-tokens", b"").decode("latin-1")
    assembler: ReplyAssembler
    if kind == b"text/event-stream":
        stream = StreamedAnswer(kept, options.choices, hides_usage=options.hides_usage)
        return ReplyReader(EventSplitter(), stream)
    if kind == b"text/html" or kind.endswith(b"json") or (options.needs_json and kind != b"application/octet-stream"):
        assembler = JsonAnswer(kept, options.model, counted, VectorEncoder() if options.wants_base64 else None)
    else:
        length = b"" if b"content-encoding" in lines else lines.get(b"content-length", b"")
        assembler = BytesAnswer(kept, length)
    return ReplyReader(ByteReader(), assembler)


class _Answer:
    """What the answers that are no stream have in common."""

    ended = False
    """The end is that of the body."""
    finishing = False

    def __init__(self, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self.started = False
        self._headers = headers
        self._fault: Fault | None = None

    def check_progress(self) -> bool:
        return False

    def _take(self, items: Sequence[Any]) -> bytes:
        """Return the bytes of these items."""
        self.started = self.started or bool(items)
        for item in items:
            if isinstance(item, MalformedData):
                self._fault = faults.make_protocol_fault(item.data, item.reason)
        return b"".join([item for item in items if isinstance(item, bytes)])

    def _take_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        headers, self._headers = self._headers, ()
        return headers


class BytesAnswer(_Answer):
    """Bytes that are passed on as they come: audio, text, vectors."""

    def __init__(self, headers: tuple[tuple[bytes, bytes], ...], length: bytes) -> None:
        super().__init__((*headers, (b"content-length", length)) if length else headers)

    def feed(self, items: Sequence[Any]) -> list[Event]:
        data = self._take(items)
        return [AnswerPart(data, self._take_headers())] if data else []

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        fault = fault or self._fault
        if fault is not None:
            return [Failed(fault)]
        return [AnswerPart(b"", self._take_headers()), Finish("stop")] if self._headers else [Finish("stop")]

    def read_usage(self) -> dict[str, Any] | None:
        return None


class JsonAnswer(_Answer):
    """JSON in which the model has the name that the client knows. A long one is passed on before its end."""

    def __init__(
        self,
        headers: tuple[tuple[bytes, bytes], ...],
        model: str,
        counted_tokens: str,
        encoder: VectorEncoder | None = None,
    ) -> None:
        super().__init__(headers)
        self._encoder = encoder
        self._scan = JsonScan(_WANTED, {b"model": msgspec.json.encode(model)}, b"data")
        self._counted_tokens = counted_tokens
        self._held: list[bytes] | None = []
        """None: the answer is being passed on."""
        self._held_bytes = 0

    def feed(self, items: Sequence[Any]) -> list[Event]:
        data = self._scan.feed(self._take(items))
        if self._encoder is not None:
            data = self._encoder.feed(data)
        if self._held is None:
            return [AnswerPart(data)] if data else []
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes <= HELD_BYTES or not self._scan.is_document:
            return []
        held, self._held = self._held, None
        return [AnswerPart(b"".join(held), self._take_headers())]

    def check_progress(self) -> bool:
        """What is held back counts as silence only if nothing comes."""
        return self._held is not None and self.started

    def close(self, junk: bytes = b"", fault: Fault | None = None) -> list[Event]:
        fault = fault or self._fault or self._find_error()
        rest = b"" if self._encoder is None else self._encoder.close()
        data = rest if self._held is None else b"".join([*self._held, rest])
        if fault is None and self._held is not None:
            fault = _check_json(data)
        elif fault is None and not self._scan.is_complete:
            fault = faults.make_fault("upstream_incomplete", _PIECES, status=200)
        if fault is not None:
            return [Failed(fault)]
        finish = Finish("stop", self.read_usage())
        if self._held is None:
            return [AnswerPart(data), finish] if data else [finish]
        return [AnswerPart(data, (*self._take_headers(), (b"content-length", b"%d" % len(data)))), finish]

    def read_usage(self) -> dict[str, Any] | None:
        return read_answer_usage(self._scan.values, self._scan.count, self._counted_tokens)

    def _find_error(self) -> Fault | None:
        """Return the error that a server answers with the status 200."""
        error = self._scan.values.get(b"error", b"null").strip()
        if error in (b"null", b'""', b"{}", b"false"):
            return None
        return faults.from_body(b'{"error": %b}' % error, None)


def _check_json(data: bytes) -> Fault | None:
    """Return the fault of an answer that is not JSON, or only a part of it."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        if data.lstrip()[:1] in (b"{", b"[") and "truncated" in str(error):
            return faults.make_fault("upstream_incomplete", _PIECES, status=200)
        return faults.make_protocol_fault(data)
    except RecursionError:
        return faults.make_fault("upstream_protocol", "the model server's answer is nested too deeply", status=200)
    return None
