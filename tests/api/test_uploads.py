"""A form that is sent on while it comes is the same as one that has come whole."""

from collections.abc import Sequence
from typing import Any

import pytest
from app.api.asgi import ClientDisconnected
from app.api.spool import MEMORY_BYTES, Spool
from app.api.uploads import Upload, UploadLimits
from app.endpoints.body import EndpointBody
from app.errors import BadRequest, ParleyError, TooLarge, Unsupported
from app.upstream.http.transport import LongBody

from tests.cuts import bytewise, every_cut
from tests.each_case import each_case

pytestmark = pytest.mark.anyio
LIMITS = UploadLimits(max_bytes=20_000_000, max_parts=9, seconds=30.0)
FILE = b'--XX\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\r\n--X\x00\r\n'
MODEL = b'--XX\r\ncontent-disposition: form-data; name="model"\r\n\r\nw\r\n'
LATER = b'--XX\r\ncontent-disposition: form-data; name="language"\r\n\r\nde\r\n'
END = b"--XX--\r\n"


def receive_pieces(pieces: Sequence[bytes], *, leaves: bool = False) -> Any:
    left = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if not leaves:
        left[-1]["more_body"] = False

    async def receive() -> Any:
        return left.pop(0) if left else {"type": "http.disconnect"}

    return receive


def open_form(pieces: Sequence[bytes], spool: Spool, *, length: bool = True, limits: UploadLimits = LIMITS) -> Upload:
    headers = {b"content-type": b"multipart/form-data; boundary=XX"}
    if length:
        headers[b"content-length"] = b"%d" % sum(map(len, pieces))
    return Upload({"state": {"headers": headers}}, receive_pieces(pieces), None, spool, limits)


async def read_body(body: LongBody) -> tuple[bytes, int]:
    size = len(body)
    return b"".join([piece async for piece in body]), size


@each_case(
    ("data", "sent"),
    [
        (MODEL + FILE + END, MODEL.replace(b"w", b"up-w") + FILE + END),
        (LATER + MODEL + FILE + LATER + FILE + END, LATER + MODEL.replace(b"w", b"up-w") + FILE + LATER + FILE + END),
        (MODEL + FILE + b"--XX--", MODEL.replace(b"w", b"up-w") + FILE + b"--XX--"),
        (MODEL + FILE + END + b"epilogue", MODEL.replace(b"w", b"up-w") + FILE + END + b" " * 8),
    ],
)
@pytest.mark.parametrize("once", [True, False])
async def test_a_form_is_sent_on_with_the_name_of_the_model_however_it_is_cut(
    data: bytes, sent: bytes, once: bool
) -> None:
    for pieces in [bytewise(data), *every_cut(data)]:
        with Spool() as spool:
            form = open_form(pieces, spool)
            await form.read_beginning()
            assert form.read_fields().model == "w"
            form.is_sent_once = once
            body = form.make_body("up-w")
            expected = sent.rpartition(b"--")[0] + b"--\r\n" if form.is_whole else sent
            for _ in range(1 if once else 2):
                assert await read_body(body) == (expected, len(expected))
            assert form.is_whole


async def test_a_form_is_read_to_its_end_if_its_length_or_its_model_is_not_known() -> None:
    for pieces, length in ((bytewise(MODEL + FILE + END), False), (bytewise(FILE + MODEL + END), True)):
        with Spool() as spool:
            form = open_form(pieces, spool, length=length)
            await form.read_beginning()
            assert form.is_whole


async def test_what_is_sent_once_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    pieces = [MODEL, FILE[:-2], *[b"x" * 300_000] * 40, b"\r\n" + END]
    with Spool() as spool:
        form = open_form(pieces, spool)
        await form.read_beginning()
        form.is_sent_once = True
        body, size = await read_body(form.make_body("w"))
        assert body == b"".join(pieces)
        assert size == len(body) > 10 * MEMORY_BYTES


async def test_what_is_sent_again_is_kept() -> None:
    pieces = [MODEL, FILE[:-2], *[b"x" * 300_000] * 40, b"\r\n" + END]
    with Spool() as spool:
        form = open_form(pieces, spool)
        await form.read_beginning()
        begun = aiter(form.make_body("w"))
        for _ in range(9):
            await anext(begun)
        for _ in range(2):
            assert (await read_body(form.make_body("w")))[0] == b"".join(pieces)


@each_case(
    ("later", "kind"),
    [
        (MODEL + END, BadRequest),
        (b"", BadRequest),
        (FILE * 9 + END, TooLarge),
        (LATER[:-4] + b"x" * 70_000 + b"\r\n" + END, TooLarge),
    ],
)
async def test_what_is_wrong_behind_a_file_breaks_the_body(later: bytes, kind: type[ParleyError]) -> None:
    with Spool() as spool:
        form = open_form([MODEL, FILE, later], spool)
        await form.read_beginning()
        assert not form.is_whole
        with pytest.raises(kind):
            await read_body(form.make_body("w"))


async def test_fields_behind_a_file_are_checked_before_they_are_sent() -> None:
    seen: list[list[str]] = []

    async def check(body: EndpointBody) -> None:
        seen.append(sorted(body.fields))
        if "language" in body.fields:
            raise Unsupported("no")

    pieces = [MODEL, FILE, LATER[:-1], LATER[-1:] + END]
    with Spool() as spool:
        form = open_form(pieces, spool)
        await form.read_beginning()
        form.add_check(check)
        sent = b""
        with pytest.raises(Unsupported):
            async for piece in form.make_body("w"):
                sent += piece
    assert seen == [["language"]]
    assert sent == MODEL + FILE + LATER[:-1]


async def test_a_client_that_leaves_a_form_is_noticed() -> None:
    headers = {b"content-type": b"multipart/form-data; boundary=XX", b"content-length": b"999"}
    with Spool() as spool:
        receive = receive_pieces([MODEL, FILE], leaves=True)
        form = Upload({"state": {"headers": headers}}, receive, None, spool, LIMITS)
        await form.read_beginning()
        with pytest.raises(ClientDisconnected):
            await form.read_rest()
        assert (await form.receive_disconnect())["type"] == "http.disconnect"
