"""What a running gateway logs of clients that disconnect, and what it does when its log is not read."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.clean_environment import clean_environment
from tests.fork_server import forked_parley
from tests.live.gateway import Gateway, chunk, eventually, say, serving
from tests.live.raw_client import Caller, calling
from tests.scripted_server import Reply, ScriptedServer

pytestmark = pytest.mark.anyio

HALF_A_BODY = b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{"


async def in_half_a_head(caller: Caller, gateway: Gateway) -> None:
    await caller.say(b"POST /v1/chat HTTP/1.1\r\nhost")


async def in_the_body_of_a_question(caller: Caller, gateway: Gateway) -> None:
    await caller.say(b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\n" + HALF_A_BODY)
    await asyncio.sleep(0.05)


async def in_the_body_of_a_conversion(caller: Caller, gateway: Gateway) -> None:
    await caller.say(b"POST /v1/convert HTTP/1.1\r\nhost: localhost\r\n" + HALF_A_BODY)
    await asyncio.sleep(0.05)


async def before_the_head(caller: Caller, gateway: Gateway) -> None:
    await caller.ask()
    await eventually(lambda: bool(gateway.context.replies.active))


async def in_a_stream(caller: Caller, gateway: Gateway) -> None:
    await caller.ask()
    await caller.head()
    await caller.write()


async def after_two_questions_at_once(caller: Caller, gateway: Gateway) -> None:
    await caller.ask()
    await caller.ask()
    await caller.head()


@pytest.mark.parametrize(
    "when",
    [
        in_half_a_head,
        in_the_body_of_a_question,
        in_the_body_of_a_conversion,
        before_the_head,
        in_a_stream,
        after_two_questions_at_once,
    ],
)
async def test_a_caller_who_leaves_is_no_error_in_the_log(
    when: Callable[[Caller, Gateway], Awaitable[None]], capsys: pytest.CaptureFixture[str]
) -> None:
    replies = [Reply([say("a"), asyncio.Event()], chunked=True)] * 2
    async with ScriptedServer(*replies) as upstream, serving(upstream, server={"log_level": "warning"}) as gateway:
        async with calling(gateway.address) as caller:
            await when(caller, gateway)
        await eventually(lambda: gateway.callers == 0)
    assert capsys.readouterr().err == ""


async def test_a_caller_who_is_cut_off_is_no_error_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    script: list[bytes | asyncio.Event] = [chunk({"content": "x" * 8_000_000}), asyncio.Event()]
    quick = {"heartbeat_seconds": 0.2, "commit_seconds": 0.2, "stall_seconds": 0.3, "log_level": "warning"}
    async with ScriptedServer(Reply(script, chunked=True)) as upstream, serving(upstream, server=quick) as gateway:
        async with calling(gateway.address, receive_bytes=8192) as caller:
            await caller.ask()
            await eventually(lambda: gateway.callers == 0)
    assert capsys.readouterr().err == ""


async def test_a_log_without_a_reader_stops_no_request_and_counts_what_is_missing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environ = clean_environment()
    process = await asyncio.create_subprocess_exec(
        *(*forked_parley(), "serve", "--port", str(port)),
        env=environ | {"PARLEY_CACHE__URL": "memory:"},
        stderr=asyncio.subprocess.PIPE,
        limit=1024,  # what is read of the pipe before the test asks for it
    )
    metadata = {f"k{number}": "x" * 500 for number in range(15)}  # as much as a line takes
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": False, "metadata": metadata}
    count = 5_000_000 // (15 * 500)
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False, verify=False
        ) as client:
            await until_it_answers(client)
            for _ in range(count):
                assert (await client.post("/v1/chat", json=body)).status_code == 200
        process.terminate()
        async with asyncio.timeout(20):
            _, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines() if line.startswith(b"{")]
    dropped = sum(line.get("dropped", 0) for line in lines)
    requests = [line for line in lines if line.get("endpoint") == "chat"]
    assert dropped > 0
    assert count <= len(requests) + dropped <= count + 5


async def until_it_answers(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await client.get("/healthz")
                return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(("when", "first_token"), [(in_a_stream, True), (before_the_head, False)])
async def test_a_request_whose_caller_leaves_is_one_line_with_the_tokens_so_far(
    when: Callable[[Caller, Gateway], Awaitable[None]], first_token: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    script: list[bytes | asyncio.Event] = [say("a few words"), asyncio.Event()] if first_token else [asyncio.Event()]
    info = {"log_level": "info"}
    async with ScriptedServer(Reply(script, chunked=True)) as upstream, serving(upstream, server=info) as gateway:
        async with calling(gateway.address) as caller:
            await when(caller, gateway)
            await upstream.request(1)
        await eventually(lambda: not gateway.context.replies.active and gateway.callers == 0)
    text = capsys.readouterr().err
    (line,) = [line for line in map(json.loads, text.splitlines()) if line["message"] == "request"]
    assert (line["status"], line["error"], line["endpoint"]) == (499, "caller_gone", "chat")
    assert ("first_token_ms" in line) is first_token
    if first_token:
        assert line["tokens_estimated"] is True
        assert line["prompt_tokens"] > 0 and line["completion_tokens"] > 0
