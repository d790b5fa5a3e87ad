"""All requests together may hold only so much memory, and calls without callers count as requests."""

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from tests.api.held_server import Held, code
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

MB = 1024 * 1024
LIMITS = {"max_body_bytes": 2 * MB, "max_request_memory_bytes": 4 * MB, "max_json_values": 1000}
USER = {"role": "user", "content": "x"}
SMALL = json.dumps({"messages": [USER], "stream": False}).encode()


def large(size: int) -> bytes:
    return json.dumps({"messages": [{**USER, "content": "x" * size}], "stream": False}).encode()


@pytest.fixture
def server() -> ModelServer:
    return ModelServer()


@pytest.fixture
def gateway(server: ModelServer) -> Iterator[Running]:
    with Running({**SERVER, "server": LIMITS}, server) as running:
        yield running
    assert running.context.budget.held_bytes == 0
    assert running.context.in_progress == 0


async def unfinished(gateway: Running, path: str, size: int) -> "asyncio.Task[None]":
    """A request of which so many bytes have come, and no more will."""
    pieces = [b" " * size]
    read = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": True}
        read.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        read.set()

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b"", "state": {}}
    scope |= {"raw_path": path.encode(), "http_version": "1.1", "scheme": "http", "server": ("g", 80), "root_path": ""}
    task = asyncio.create_task(gateway.app(scope, receive, send))
    await read.wait()
    return task


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/completions", "/v1/convert"])
def test_unfinished_bodies_hold_only_so_much_and_small_requests_are_still_served(gateway: Running, path: str) -> None:
    budget = gateway.context.budget

    async def ask_many() -> list[Answer]:
        tasks = [await unfinished(gateway, path, MB) for _ in range(8)]
        assert budget.held_bytes == 2 * MB
        answers = [await gateway.ask_async("POST", "/v1/chat", [body]) for body in (SMALL, large(100_000))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert budget.held_bytes == 0
        return [*answers, await gateway.ask_async("POST", "/v1/chat", [large(100_000)])]

    served, refused, later = gateway.loop.run_until_complete(ask_many())
    assert (served.status, later.status) == (200, 200)
    assert code(refused) == (503, "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert refused.json["error"]["retryable"] is True


def test_large_bodies_are_parsed_one_after_the_other_and_all_are_answered(gateway: Running) -> None:
    body = json.dumps({"messages": [{**USER, "content": "x" * 400_000}], "from": "qwen", "to": "openai"}).encode()

    async def ask_many() -> list[Answer]:
        return await asyncio.gather(*(gateway.ask_async("POST", "/v1/convert", [body]) for _ in range(5)))

    assert [answer.status for answer in gateway.loop.run_until_complete(ask_many())] == [200] * 5


def test_a_request_holds_its_body_until_the_model_server_answers() -> None:
    server = Held()
    body = large(300_000)

    async def one() -> tuple[int, Answer]:
        budget = running.context.budget
        asking = asyncio.create_task(running.ask_async("POST", "/v1/chat", [body]))
        await server.asked.wait()
        held = budget.held_bytes
        server.may.set()
        return held, await asking

    with Running({**SERVER, "server": LIMITS}, server) as running:
        held, answer = running.loop.run_until_complete(one())
        assert 300_000 < held < 310_000
        assert answer.status == 200
        assert running.context.budget.held_bytes == 0


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/completions", "/v1/convert"])
@pytest.mark.parametrize(
    "value",
    ["[" + "0," * 1000 + "0]", "{" + ",".join(f'"{at}":0' for at in range(1001)) + "}", "[" + "[]," * 999 + "[]]"],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(
    gateway: Running, server: ModelServer, path: str, value: str
) -> None:
    answer = gateway.post(path, b'{"messages":[{"role":"user","content":"x"}],"x":' + value.encode() + b"}")
    assert code(answer) == (413, "too_large")
    assert "1000 JSON values" in answer.json["error"]["message"]
    assert not server.requests


def test_commas_and_brackets_in_texts_are_no_values(gateway: Running) -> None:
    text = ',[{"\\' * 2000
    assert gateway.post("/v1/chat", {"messages": [{**USER, "content": text}], "stream": False}).status == 200


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({f"k{at}": "v" for at in range(17)}, "metadata"),
        ({"k" * 65: "v"}, f"metadata.{'k' * 65}"),
        ({"k": "v" * 513}, "metadata.k"),
    ],
)
@pytest.mark.parametrize(("face", "status"), [("/v1/chat", 422), ("/v1/chat/completions", 400)])
def test_metadata_has_limits(gateway: Running, face: str, status: int, metadata: dict[str, str], path: str) -> None:
    answer = gateway.post(face, {"model": "m", "messages": [USER], "metadata": metadata, "stream": False})
    assert (answer.status, [one for one in (path,) if path in answer.body.decode()]) == (status, [path])


def test_metadata_of_the_most_is_taken(gateway: Running) -> None:
    metadata = {f"{at:064}": "v" * 512 for at in range(16)}
    assert gateway.post("/v1/chat", {"messages": [USER], "metadata": metadata, "stream": False}).status == 200


def test_a_key_of_any_length_is_cut_where_it_is_named(gateway: Running) -> None:
    answer = gateway.post("/v1/chat", {"messages": [USER], "k" * 100_000: 1})
    assert answer.status == 422
    assert len(answer.body) < 2000


def test_warnings_beyond_the_first_are_counted(gateway: Running) -> None:
    odd = {**USER, **{f"k{at}": 1 for at in range(300)}}
    answer = gateway.post("/v1/chat", {"messages": [odd] * 3, "stream": False})
    assert answer.status == 200
    assert len(answer.json["warnings"]) <= 201


def test_calls_that_go_on_without_their_callers_count_as_requests() -> None:
    server = Held()
    limits = {**LIMITS, "max_concurrent_requests": 2, "max_queued_requests": 0}
    body = json.dumps({"messages": [USER], "cancel_on_disconnect": False, "cache": {"mode": "off"}}).encode()

    async def ask_many() -> list[Answer]:
        for _ in range(2):
            server.asked.clear()
            task = asyncio.create_task(running.ask_async("POST", "/v1/chat", [body]))
            await server.asked.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert running.context.in_progress == 0
        refused = await running.ask_async("POST", "/v1/chat", [SMALL])
        server.may.set()
        async with asyncio.timeout(5):
            while running.context.cache.calls:
                await asyncio.sleep(0.001)
        return [refused, await running.ask_async("POST", "/v1/chat", [SMALL])]

    with Running({**SERVER, "server": limits, "cache": {"url": "memory:"}}, server) as running:
        refused, later = running.loop.run_until_complete(ask_many())
    assert code(refused) == (503, "overloaded")
    assert later.status == 200
