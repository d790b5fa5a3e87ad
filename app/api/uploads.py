"""Read a form with files into a spool, within limits of size, parts and time.

Where the fields that are read stand before the first file, the form is sent on while it comes: a piece is received when
the server takes it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from app.api.asgi import ClientDisconnected, Receive, Scope
from app.api.response_writer import OfferedWriter
from app.api.spool import PIECE_BYTES, Spool, SpooledBody
from app.endpoints.body import EndpointBody
from app.endpoints.multipart import MultipartScan, find_boundary
from app.errors import BadRequest, BodyTimeout, TooLarge, UnsupportedEncoding
from app.upstream.http.transport import LongBody

_NEW_FIELD = b'--%b\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n'


class UploadLimits(Struct, frozen=True):
    max_bytes: int
    max_parts: int
    seconds: float


Check: TypeAlias = Callable[[EndpointBody], Awaitable[None]]
"""Looks at the fields of a form. Raises ParleyError."""


class Upload:
    """A form, of which the fields before its first file have come, or all."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        writer: OfferedWriter | None,
        spool: Spool,
        limits: UploadLimits,
    ) -> None:
        """Raises BadRequest, TooLarge and UnsupportedEncoding."""
        headers = scope["state"]["headers"]
        self._content_type: str = headers[b"content-type"].decode("latin-1")
        boundary = find_boundary(self._content_type)
        if boundary is None:
            raise BadRequest("the header content-type names no boundary of the form")
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise UnsupportedEncoding("a form with files must not be compressed", ("identity",))
        length = headers.get(b"content-length", b"")
        self._length = int(length) if length.isdigit() else None
        """The bytes of the whole form, if the client has told them."""
        if self._length is not None and self._length > limits.max_bytes:
            raise _make_too_large(limits)
        self._boundary = boundary
        self._receive = receive
        self._writer = writer
        self._spool = spool
        self._limits = limits
        self._seconds_left = limits.seconds
        self._scan = MultipartScan(boundary, limits.max_parts)
        self._checks: list[Check] = []
        self.is_whole = False
        self.is_sent_once = False
        """What was sent is kept no longer."""
        self._done = asyncio.Event()
        """Set when no more of the form is received."""

    async def read_beginning(self) -> None:
        """Read up to the first file behind the name of the model, or all of a form that cannot be sent on before its
        end is known. Raises BadRequest, BodyTimeout and TooLarge."""
        while not self.is_whole and not (
            self._length is not None and self._scan.model_span is not None and self._scan.is_in_file
        ):
            await self.read_more()

    async def read_rest(self) -> None:
        """Raises BadRequest, BodyTimeout and TooLarge."""
        while not self.is_whole:
            await self.read_more()

    async def read_more(self) -> None:
        """Receive a piece. Raises BadRequest, BodyTimeout and TooLarge, and what a check raises."""
        data, more = await self._receive_piece()
        if self._spool.size + len(data) > self._limits.max_bytes:
            raise _make_too_large(self._limits)
        count = self._scan.field_count
        self._scan.feed(data)
        if not more:
            self._scan.close()
        if self._scan.field_count > count:
            for check in self._checks:
                await check(self.read_fields())
        await self._spool.write(data)
        self.is_whole = not more
        if self.is_whole:
            self._done.set()

    async def _receive_piece(self) -> tuple[bytes, bool]:
        """Return a piece, and whether more follows."""
        writer, self._writer = self._writer, None
        whole = None if writer is None else writer.take_body()
        if whole is not None:
            return whole, False
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._seconds_left):
                message = await self._receive()
        except TimeoutError:
            raise BodyTimeout(f"the body was not complete within {self._limits.seconds:g} s") from None
        self._seconds_left -= loop.time() - began
        if message["type"] == "http.disconnect":
            self._done.set()
            raise ClientDisconnected
        return message.get("body", b""), message.get("more_body", False)

    def add_check(self, check: Check) -> None:
        """Let fields that are still to come be checked before they are sent on."""
        if not self.is_whole:
            self._checks.append(check)

    async def receive_disconnect(self) -> dict[str, Any]:
        """Wait until the client disconnects, as `receive` does behind the end of the form."""
        await self._done.wait()
        return await self._receive()

    def read_fields(self) -> EndpointBody:
        """Return the fields that are read, and all others that are no files. Raises BadRequest."""
        try:
            texts = {name.decode(): value.decode() for name, value in self._scan.fields.items()}
        except UnicodeDecodeError:
            raise BadRequest("the fields `model`, `prompt`, `stream` and `n` of the form must be UTF-8") from None
        others: dict[str, list[str]] = {}
        for name, value in self._scan.others:
            others.setdefault(name.decode(errors="replace"), []).append(value.decode(errors="replace"))
        given = {name: values[0] if len(values) == 1 else values for name, values in others.items()}
        fields = {name: Raw(msgspec.json.encode(value)) for name, value in given.items()}
        fields |= {name: Raw(msgspec.json.encode(text)) for name, text in texts.items() if name == "prompt"}
        if texts.get("n", "").isdigit():
            fields["n"] = Raw(texts["n"].encode())
        stream = texts.get("stream", "").strip().lower() in ("true", "1")
        return EndpointBody(fields, texts.get("model", "").strip() or None, stream)

    def make_body(self, model: str) -> LongBody:
        """Return the form for a server, with its name of the model."""
        name, span, end = model.encode(), self._scan.model_span, self._scan.end
        if not self.is_whole:
            return _GrowingBody(self, name)
        if span is None:
            return SpooledBody(
                self._spool, self._content_type, [_NEW_FIELD % (self._boundary, name), (0, end), b"\r\n"]
            )
        return SpooledBody(self._spool, self._content_type, [(0, span[0]), name, (span[1], end), b"\r\n"])

    @property
    def content_type(self) -> str:
        return self._content_type

    @property
    def size(self) -> int:
        return self._spool.size if self._length is None else self._length

    @property
    def model_span(self) -> tuple[int, int]:
        assert self._scan.model_span is not None
        return self._scan.model_span

    async def read(self, start: int, limit: int | None = None) -> bytes:
        """Return a piece that begins at this place, which is received if it has not come; nothing at the end of the
        form, or at the limit. Raises what `read_more` raises."""
        while start >= self._find_end() and not self.is_whole:
            try:
                await self.read_more()
            except ClientDisconnected:
                await asyncio.Event().wait()  # who notices it cancels this
        end = min(self._find_end() if limit is None else limit, start + PIECE_BYTES)
        piece = await self._spool.read(start, end) if start < end else b""
        if self.is_sent_once:
            self._spool.forget(start + len(piece))
        return piece

    def _find_end(self) -> int:
        """Return where what has come of the form ends."""
        return self._scan.end or self._spool.size


class _GrowingBody:
    """A form that is sent on while it comes. Its length is known from the beginning, so what follows the form is
    replaced by white space."""

    def __init__(self, form: Upload, model: bytes) -> None:
        self._form = form
        self._model = model

    def __len__(self) -> int:
        start, end = self._form.model_span
        return self._form.size - (end - start) + len(self._model)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        form, (begin, place) = self._form, self._form.model_span
        sent = 0
        while piece := await form.read(sent, begin):
            sent += len(piece)
            yield piece
        yield self._model
        while piece := await form.read(place):
            place += len(piece)
            yield piece
        rest = form.size - place
        if rest:
            yield b"\r\n".ljust(rest)[:rest]


def _make_too_large(limits: UploadLimits) -> TooLarge:
    return TooLarge(f"the form has more than {limits.max_bytes} bytes (limits.max_upload_bytes)")
