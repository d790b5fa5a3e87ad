"""The programs in examples/: each streams the three kinds of messages, answers a call, and notices failures.

A language whose tools are not installed is skipped, with their names. `EXAMPLES=all` also runs those whose build takes
minutes.
"""

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from interop.examples import ANSWER, EXAMPLES, FOLDER, Example, tidy

from tests.each_case import each_case
from tests.live.parley_command import process

MAX_LINES = 59
"""What a program may have without blank lines and comments; imports and lines with only a bracket count."""
LONGER = {
    "go/chat.go": 82,
    "rust/src/main.rs": 64,
    "csharp/Chat.cs": 73,
    "python/agent.py": 72,
    "javascript/agent.mjs": 67,
    "go/agent.go": 129,
    "java/Agent.java": 90,
    "csharp/agent/Agent.cs": 114,
}
"""Their usual layout has a line for each import and for each bracket, and Go three for each error; agents do more."""
BAD = "The stream is a failure."
BREAK_BYTES = 1777
"""The head of a response and a few events. Both replies of the demo model are longer."""
TABLE = (FOLDER / "README.md").read_text("utf-8")


@contextmanager
def run_server(serve: Callable[[asyncio.Future[str], asyncio.Event], Awaitable[None]]) -> Iterator[str]:
    """The URL of a server that runs in a thread of its own, because the examples are run by this one."""
    loop = asyncio.new_event_loop()
    url: asyncio.Future[str] = loop.create_future()
    end, ready, found = asyncio.Event(), threading.Event(), []

    def publish(future: "asyncio.Future[str]") -> None:
        found.append(future.result())
        ready.set()

    url.add_done_callback(publish)
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(url, end)))
    thread.start()
    try:
        assert ready.wait(30)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()
        loop.close()


async def serve_demo(url: "asyncio.Future[str]", end: asyncio.Event) -> None:
    async with process(None, log_level="warning") as gateway:
        await gateway.until_ready()
        url.set_result("http://{}:{}".format(*gateway.address))
        await end.wait()


async def serve_streams(url: "asyncio.Future[str]", end: asyncio.Event) -> None:
    """Serves `/odd/v1/chat`, a valid stream in an unusual form, `/failed/v1/chat` and `/cut/v1/chat`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        if b"expect: 100-continue" in head.lower():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            b"connection: close\r\n\r\n"
        )
        for piece in STREAMS[path.split("/")[1]]:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        await reader.read(1 << 20)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url.set_result("http://{}:{}".format(*server.sockets[0].getsockname()))
    async with server:
        await end.wait()


async def serve_breaks(target: str, broken: list[int], url: "asyncio.Future[str]", end: asyncio.Event) -> None:
    """A proxy before the gateway at `target` that breaks every connection: the first before the response, the others
    within an event."""
    host, port = target.removeprefix("http://").split(":")
    connections = set[asyncio.Task[None]]()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> None:
        with suppress(ConnectionError):
            while size > 0 and (piece := await reader.read(size)):
                size -= len(piece)
                writer.write(piece)
                await writer.drain()

    async def break_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        size = BREAK_BYTES if broken else 0
        broken.append(size)
        sending = asyncio.create_task(forward(reader, upstream_writer, 1 << 30))
        if size == 0:
            await upstream_reader.read(1)  # the gateway has begun to answer
        receiving = asyncio.create_task(forward(upstream_reader, writer, size))
        await asyncio.wait([sending, receiving], return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        receiving.cancel()
        await asyncio.wait([sending, receiving])
        for each in (writer, upstream_writer):
            each.transport.abort()
            with suppress(ConnectionError):
                await each.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(break_connection(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    url.set_result("http://{}:{}".format(*server.sockets[0].getsockname()))
    async with server:
        await end.wait()
        await asyncio.gather(*connections)


def write_event(type_: str, line_end: str = "\n", **fields: object) -> bytes:
    """An event whose data are on two lines."""
    data = json.dumps({"type": type_, "seq": 1, **fields}, ensure_ascii=False).split(" ", 1)
    lines = [": a comment", "id: 1", f"event: {type_}", *(f"data: {part}" for part in data), "", ""]
    return line_end.join(lines).encode()


def write_text(text: str, line_end: str = "\n") -> list[bytes]:
    message = {"role": "assistant", "content": text}
    return [
        write_event("response.started", line_end, response_id="chat-1", model="demo", created=1, cached=False),
        write_event("message.started", line_end, index=0, kind="content", message={"role": "assistant"}),
        write_event("message.delta", line_end, index=0, delta={"content": text}),
        write_event("message.completed", line_end, index=0, message=message),
    ]


END: dict[str, object] = {"finish_reason": "stop", "usage": None, "cached": False, "warnings": []}
STREAMS = {
    "odd": [
        bytes([byte])
        for byte in b"".join([*write_text("21 °C ☀", "\r\n"), write_event("response.completed", "\r\n", **END)])
    ],
    "failed": [*write_text("So far."), write_event("response.failed", error={"code": "timeout", "message": BAD})],
    "cut": write_text("So far."),
}


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    with run_server(serve_demo) as url:
        yield url


@pytest.fixture(scope="module")
def streams() -> Iterator[str]:
    with run_server(serve_streams) as url:
        yield url


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_an_example_streams_answers_a_call_and_notices_failures(
    example: Example, demo: str, streams: str, tmp_path: Path
) -> None:
    missing = example.find_missing()
    if missing is not None:
        pytest.skip(f"{example.title}: {missing} is not installed")
    if example.heavy and os.environ.get("EXAMPLES") != "all":
        pytest.skip(f"{example.title}: its build takes minutes; EXAMPLES=all runs it")
    example.make(tmp_path)
    whole = example.run(tmp_path, demo)
    assert (whole.returncode, tidy(whole.stdout), whole.stderr) == (0, example.answer, "")
    if example.agent:
        breaks: list[int] = []
        with run_server(partial(serve_breaks, demo, breaks)) as breaking:
            resumed = example.run(tmp_path, breaking)
        assert (resumed.returncode, tidy(resumed.stdout), resumed.stderr) == (0, example.answer, "")
        assert len(breaks) > 4  # each reply was resumed at least once
    refused = example.run(tmp_path, f"{demo}/nowhere")
    assert refused.returncode != 0 and "no such path" in refused.stdout + refused.stderr
    if "openai" in example.file:
        return
    odd = example.run(tmp_path, f"{streams}/odd")
    assert (odd.returncode, tidy(odd.stdout), odd.stderr) == (0, "[content] 21 °C ☀\n", "")
    for name, reason in (("failed", BAD), ("cut", "cut off")):
        broken = example.run(tmp_path, f"{streams}/{name}")
        assert broken.returncode != 0 and "[content]" in broken.stdout, name
        assert reason in broken.stdout + broken.stderr, name


@each_case("example", EXAMPLES)
def test_an_example_is_short_and_stands_in_the_table(example: Example) -> None:
    assert example.count_lines() <= LONGER.get(example.file, MAX_LINES)
    (row,) = [line for line in TABLE.splitlines() if f"]({example.file})" in line]
    # The others need a package or an SDK that developers of this project need not have.
    tested = not (example.heavy or example.file.endswith(("openai.py", ".mts")))
    assert row.endswith("| `make test` |") == tested


def test_the_table_shows_what_the_examples_print() -> None:
    assert f"```\n{ANSWER}```" in TABLE


def test_every_file_of_the_examples_is_tried() -> None:
    tried = {example.path for example in EXAMPLES}
    others = {"README.md", "Cargo.toml", "Cargo.lock", "Chat.csproj", "Agent.csproj", "image.png"}
    found = {path for path in FOLDER.rglob("*") if path.is_file() and not {"target", "bin", "obj"} & {*path.parts}}
    found = {path for path in found if "tools" not in path.parts}  # tests/tools/test_commands.py
    assert {path for path in found if path.name not in others} == tried
