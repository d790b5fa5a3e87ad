"""Read a form with files into a spool, within limits of size, parts and time."""

import asyncio

import msgspec
from msgspec import Raw, Struct

from app.api.asgi import ClientDisconnected, Receive, Scope
from app.api.response_writer import OfferedWriter
from app.api.spool import Spool, SpooledBody
from app.endpoints.body import EndpointBody
from app.endpoints.multipart import MultipartScan, find_boundary
from app.errors import BadRequest, BodyTimeout, TooLarge, UnsupportedEncoding
from app.upstream.http.transport import LongBody

_NEW_FIELD = b'--%b\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n'


class UploadLimits(Struct, frozen=True):
    max_bytes: int
    max_parts: int
    seconds: float


class Upload:
    """A form that has come whole."""

    def __init__(self, spool: Spool, scan: MultipartScan, content_type: str, boundary: bytes) -> None:
        self._spool = spool
        self._scan = scan
        self._content_type = content_type
        self._boundary = boundary

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
        return self._spool.size


async def read_upload(
    scope: Scope, receive: Receive, writer: OfferedWriter | None, spool: Spool, limits: UploadLimits
) -> Upload:
    """Read a form into the spool. Raises BadRequest, BodyTimeout, TooLarge and UnsupportedEncoding."""
    headers = scope["state"]["headers"]
    content_type = headers[b"content-type"].decode("latin-1")
    boundary = find_boundary(content_type)
    if boundary is None:
        raise BadRequest("the header content-type names no boundary of the form")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise UnsupportedEncoding("a form with files must not be compressed", ("identity",))
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limits.max_bytes:
        raise _make_too_large(limits)
    scan = MultipartScan(boundary, limits.max_parts)
    try:
        async with asyncio.timeout(limits.seconds):
            await _receive(receive, writer, spool, scan, limits)
    except TimeoutError:
        raise BodyTimeout(f"the body was not complete within {limits.seconds:g} s") from None
    scan.close()
    return Upload(spool, scan, content_type, boundary)


async def _receive(
    receive: Receive, writer: OfferedWriter | None, spool: Spool, scan: MultipartScan, limits: UploadLimits
) -> None:
    whole = None if writer is None else writer.take_body()
    more = whole is None
    data = whole or b""
    while True:
        if more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            data, more = message.get("body", b""), message.get("more_body", False)
        if spool.size + len(data) > limits.max_bytes:
            raise _make_too_large(limits)
        scan.feed(data)
        await spool.write(data)
        if not more:
            return


def _make_too_large(limits: UploadLimits) -> TooLarge:
    return TooLarge(f"the form has more than {limits.max_bytes} bytes (limits.max_upload_bytes)")
