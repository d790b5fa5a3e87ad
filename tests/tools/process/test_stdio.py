import asyncio

import pytest
from app.tools.process.stdio import MessageTooLong, read_lines

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


async def test_any_cut_gives_the_same_lines() -> None:
    text = b'{"a":1}\n\n\xc3\xa9\r\nlast'
    for cut in range(len(text)):
        assert await read(text[:cut], text[cut:]) == [b'{"a":1}', b"", b"\xc3\xa9\r"]
    assert await read(*(text[at : at + 1] for at in range(len(text)))) == [b'{"a":1}', b"", b"\xc3\xa9\r"]


@each_case("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"ok\n", b"x" * 4, b"x" * 7]])
async def test_a_line_that_is_too_long_ends_the_reading(chunks: list[bytes]) -> None:
    with pytest.raises(MessageTooLong):
        await read(*chunks)


async def test_an_answer_that_is_too_long_is_an_error_in_its_place() -> None:
    begun = b'{"jsonrpc":"2.0","id":"parley-7","result":"'
    lines = await read(b"ok\n" + begun, b"x" * 60, b"x" * 60, b'"}\nnext\n', most=100)
    assert [line[:40] for line in lines[::2]] == [b"ok", b"next"]
    assert b'"id":"parley-7"' in lines[1] and b"longer than its limit" in lines[1]
    with pytest.raises(MessageTooLong):
        await read(begun, *([b"x" * 60] * 40), most=100)
