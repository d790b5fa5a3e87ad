import asyncio

import pytest
from app.tools.process.stdio import MessageTooLong, _parse_line, read_lines

from tests.each_case import each_case

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def read(*chunks: bytes, most: int = 10) -> list[bytes]:
    stream = asyncio.StreamReader()
    lines: list[bytes] = []

    async def feed() -> None:
        for chunk in chunks:
            stream.feed_data(chunk)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        stream.feed_eof()

    feeding = asyncio.create_task(feed())
    async for line in read_lines(stream, most):
        lines.append(line)
    await feeding
    return lines


@each_case(
    ("escaped", "text"),
    [
        (r"a\ud800b", "a?b"),
        (r"caf\udce9.txt \ud83d\ude00", "caf?.txt \U0001f600"),
        (r"\UD800", None),
        (r"\\ud800", "\\ud800"),
    ],
)
async def test_half_a_surrogate_pair_does_not_lose_the_message(escaped: str, text: str | None) -> None:
    message = _parse_line(b'{"jsonrpc":"2.0","id":1,"result":{"text":"%b"}}' % escaped.encode())
    found = None if message is None else message.message.model_dump()["result"]["text"]
    assert found == text


async def test_any_cut_gives_the_same_lines() -> None:
    text = b'{"a":1}\n\n\xc3\xa9\r\nlast'
    for cut in range(len(text)):
        assert await read(text[:cut], text[cut:]) == [b'{"a":1}', b"", b"\xc3\xa9\r"]
    assert await read(*(text[at : at + 1] for at in range(len(text)))) == [b'{"a":1}', b"", b"\xc3\xa9\r"]


@each_case("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"ok\n", b"x" * 4, b"x" * 7]])
async def test_a_line_that_is_too_long_ends_the_reading(chunks: list[bytes]) -> None:
    with pytest.raises(MessageTooLong):
        await read(*chunks)
