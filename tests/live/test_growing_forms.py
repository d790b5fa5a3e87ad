"""Forms with files over sockets: one whose model comes first is sent on while it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from app.config.settings import Settings

from tests.each_case import each_case
from tests.live.gateway import Gateway, eventually, serving_with
from tests.live.raw_client import DEADLINE_SECONDS, Caller, calling

pytestmark = pytest.mark.anyio
MODEL = b'--XX\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n'
FILE = b'--XX\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + b"x" * 600_000 + b"\r\n"
URL = b'--XX\r\ncontent-disposition: form-data; name="url"\r\n\r\nhttp://127.0.0.1/a\r\n'
END = b"--XX--\r\n"
ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"text":"Hi"}'
BUSY = b"HTTP/1.1 503 X\r\ncontent-length: 2\r\n\r\n{}"


class FileServer:
    """Notices when a form begins to come, and answers when it has come, or at once."""

    def __init__(self, answer: bytes, *, at_once: bool = False) -> None:
        self._answer, self._at_once = answer, at_once
        self.began, self.gone = asyncio.Event(), asyncio.Event()
        self.bodies: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            body = await reader.readexactly(1)
            self.began.set()
            if not self._at_once:
                body += await reader.readexactly(size - 1)
            self.bodies.append(body)
            writer.write(self._answer)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()


@asynccontextmanager
async def running(*servers: FileServer, **more: Any) -> AsyncIterator[Gateway]:
    listening = [await asyncio.start_server(one.serve, "127.0.0.1", 0) for one in servers]
    ports = [one.sockets[0].getsockname()[1] for one in listening]
    upstreams = {f"u{at}": {"base_url": f"http://127.0.0.1:{port}/v1"} for at, port in enumerate(ports)}
    order = [{"name": name, "priority": at + 1} for at, name in enumerate(upstreams)]
    model = {"upstreams": order, "name": "served", "endpoints": ["audio"], **more}
    tree = {"upstreams": upstreams, "models": {"m": model}, "cache": {"url": "null:"}}
    settings = Settings.model_validate(tree | {"server": {"port": 0, "log_level": "error"}})
    try:
        async with serving_with(settings) as gateway, asyncio.timeout(DEADLINE_SECONDS):
            yield gateway
    finally:
        for one in listening:
            one.close()


async def begin(caller: Caller, form: bytes, size: int) -> None:
    """Send the head of a request, and the beginning of its form."""
    head = "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\n"
    head += f"content-type: multipart/form-data; boundary=XX\r\ncontent-length: {len(form)}\r\n\r\n"
    await caller.say(head.encode() + form[:size])


@each_case("count", [1, 2])
async def test_a_form_whose_model_comes_first_is_sent_on_while_it_comes(count: int) -> None:
    servers = [FileServer(ANSWER) for _ in range(count)]
    form = MODEL % b"m" + FILE + END
    async with running(*servers) as gateway, calling(gateway.address) as caller:
        await begin(caller, form, 300_000)
        await servers[0].began.wait()
        await caller.say(form[300_000:])
        assert await caller.head() == 200
    assert servers[0].bodies == [MODEL % b"served" + FILE + END]


async def test_a_form_whose_model_comes_last_is_sent_when_it_is_whole() -> None:
    server, form = FileServer(ANSWER), FILE + MODEL % b"m" + END
    async with running(server) as gateway, calling(gateway.address) as caller:
        await begin(caller, form, 300_000)
        await asyncio.sleep(0.1)
        assert not server.began.is_set()
        await caller.say(form[300_000:])
        assert await caller.head() == 200
    assert server.bodies == [FILE + MODEL % b"served" + END]


@each_case("at_once", [True, False])
async def test_another_server_gets_the_whole_form_of_which_one_has_got_a_part(at_once: bool) -> None:
    servers = FileServer(BUSY, at_once=at_once), FileServer(ANSWER)
    form = MODEL % b"m" + FILE + END
    async with running(*servers) as gateway, calling(gateway.address) as caller:
        await begin(caller, form, 300_000)
        await servers[0].began.wait()
        await caller.say(form[300_000:])
        assert await caller.head() == 200
    assert servers[1].bodies == [MODEL % b"served" + FILE + END]


@each_case(("later", "status"), [(MODEL % b"other", 400), (URL, 400)])
async def test_a_field_behind_the_file_that_is_refused_is_not_sent(later: bytes, status: int) -> None:
    server, form = FileServer(ANSWER), MODEL % b"m" + FILE + later + END
    async with running(server) as gateway, calling(gateway.address) as caller:
        await begin(caller, form, 300_000)
        await server.began.wait()
        await caller.say(form[300_000:])
        assert await caller.head() == status
        await server.gone.wait()
    assert server.bodies == []


async def test_a_server_that_answers_before_it_has_the_form_is_heard() -> None:
    refusal = b'HTTP/1.1 400 X\r\ncontent-length: 35\r\n\r\n{"error": {"message": "too large"}}'
    server, form = FileServer(refusal, at_once=True), MODEL % b"m" + FILE + END
    async with running(server) as gateway, calling(gateway.address) as caller:
        await begin(caller, form, 300_000)
        await server.began.wait()
        await caller.say(form[300_000:])
        assert await caller.head() == 400


async def test_a_client_that_leaves_its_form_ends_the_request_of_the_server() -> None:
    server, form = FileServer(ANSWER), MODEL % b"m" + FILE + END
    async with running(server) as gateway:
        async with calling(gateway.address) as caller:
            await begin(caller, form, 300_000)
            await server.began.wait()
        await server.gone.wait()
        await eventually(gateway.quiet)


@each_case("more", [{"deadline_seconds": 20}, {"hedge_after_seconds": 5}])
async def test_the_time_of_a_client_does_not_count_as_that_of_a_server(more: dict[str, Any]) -> None:
    server, form = FileServer(ANSWER), MODEL % b"m" + FILE + END
    async with running(server, **more) as gateway, calling(gateway.address) as caller:
        await begin(caller, form, 300_000)
        await asyncio.sleep(0.1)
        assert not server.began.is_set()
        await caller.say(form[300_000:])
        assert await caller.head() == 200
