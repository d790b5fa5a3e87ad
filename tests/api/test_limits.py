"""What is too much is refused before anything is sent."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.held_server import Held, code
from tests.each_case import each_case
from tests.in_process_gateway import SERVER, ModelServer, Running

LIMITS = {
    "max_body_bytes": 1024,
    "max_messages": 3,
    "max_content_items": 5,
    "max_functions": 2,
    "max_nesting": 8,
    "max_concurrent_requests": 1,
    "max_queued_requests": 0,
}
USER = {"role": "user", "content": "x"}
UNKNOWN = "is not a known key; what only the model server knows goes into generate_cfg.extra_body"


@pytest.fixture
def server() -> ModelServer:
    return ModelServer()


@pytest.fixture
def gateway(server: ModelServer) -> Iterator[Running]:
    with Running({**SERVER, "server": LIMITS}, server) as running:
        yield running
    assert running.context.in_progress == 0


def padded(size: int) -> bytes:
    body = b'{"messages":[{"role":"user","content":"x"}],"stream":false}'
    return body + b" " * (size - len(body))


def test_a_body_of_the_most_is_taken_and_one_byte_more_is_not(gateway: Running, server: ModelServer) -> None:
    assert gateway.post("/v1/chat", padded(1024)).status == 200
    assert code(gateway.post("/v1/chat", padded(1025))) == (413, "too_large")
    assert len(server.requests) == 1


@pytest.mark.parametrize("length", ["1025", "99999999999"])
def test_a_body_that_is_announced_as_too_long_is_not_read(gateway: Running, length: str) -> None:
    answer = gateway.ask("POST", "/v1/chat", [b"{}"], {"content-length": length})
    assert code(answer) == (413, "too_large")
    assert gateway.unread == 1


def test_a_body_that_grows_too_long_is_not_read_to_its_end(gateway: Running) -> None:
    answer = gateway.ask("POST", "/v1/chat", [b" " * 400] * 10)
    assert code(answer) == (413, "too_large")
    assert gateway.unread == 7


def test_a_body_may_come_in_pieces(gateway: Running) -> None:
    whole = padded(1000)
    answer = gateway.ask("POST", "/v1/chat", [whole[at : at + 7] for at in range(0, 1000, 7)] + [b""])
    assert answer.status == 200


def test_too_many_messages_are_refused(gateway: Running) -> None:
    assert gateway.post("/v1/chat", {"messages": [USER] * 3, "stream": False}).status == 200
    answer = gateway.post("/v1/chat", {"messages": [USER] * 4})
    assert (answer.status, answer.json["error"]["param"]) == (422, "messages")


ITEM = {"text": "x"}


@pytest.mark.parametrize("more", [{}, {"colour": "red"}], ids=["sound", "in a bad envelope"])
@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"messages": [{}] * 4}, "messages", "more than 3 messages"),
        ({"messages": [{**USER, "content": [{}] * 6}]}, "messages", "more than 5 content items"),
        ({"messages": [{**USER, "content": [{}] * 3}] * 2}, "messages", "more than 5 content items"),
        ({"messages": [{**USER, "content": [{"video": [1] * 5}]}]}, "messages", "more than 5 content items"),
        ({"functions": [{}] * 3}, "functions", "more than 2 functions"),
        ({"tools": [{}] * 3}, "tools", "more than 2 functions"),
    ],
)
def test_of_too_much_the_number_alone_is_judged(
    gateway: Running, fields: dict[str, Any], path: str, message: str, more: dict[str, str]
) -> None:
    answer = gateway.post("/v1/chat", {"messages": [USER], **fields, **more})
    assert answer.status == 422
    messages_by_param = {item["param"]: item["message"] for item in answer.json["error"]["violations"]}
    assert messages_by_param == {path: message, **dict.fromkeys(more, UNKNOWN)}


@pytest.mark.parametrize(
    ("messages", "message"),
    [([{}] * 4, "more than 3 messages"), ([{**USER, "content": [{}] * 6}], "more than 5 content items")],
)
def test_of_too_much_to_convert_the_number_alone_is_judged(gateway: Running, messages: Any, message: str) -> None:
    answer = gateway.post("/v1/convert", {"messages": messages, "from": "qwen", "to": "openai"})
    assert answer.status == 422
    assert answer.json["error"]["violations"] == [{"param": "messages", "message": message}]


def test_as_many_items_and_functions_as_may_be_are_taken(gateway: Running) -> None:
    functions = [{"name": "f"}, {"name": "g"}]
    body = {"messages": [{**USER, "content": [ITEM] * 5}], "functions": functions, "stream": False}
    assert gateway.post("/v1/chat", body).status == 200


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (
            {"messages": [{**USER, "extra": {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}}]},
            "messages[0].extra.a.b.c.d.e.f",
        ),
        (
            {"functions": [{"name": "f", "parameters": {"a": [[[[[[1]]]]]]}}]},
            "functions[0].parameters.a[0][0][0][0][0]",
        ),
        ({"tools": [{"name": "f", "parameters": {"a": [[[[[[1]]]]]]}}]}, "tools[0].parameters.a[0][0][0][0][0]"),
        (
            {"generate_cfg": {"extra_body": {"a": [[[[[[[[1]]]]]]]]}}},
            "generate_cfg.extra_body.a[0][0][0][0][0][0][0]",
        ),
    ],
)
def test_what_is_nested_too_deeply_is_named(gateway: Running, fields: dict[str, Any], path: str) -> None:
    answer = gateway.post("/v1/chat", {"messages": [USER], **fields})
    assert answer.status == 422
    assert answer.json["error"]["message"] == f"{path}: is nested too deeply"


DEEP_TOOLS = {
    "/v1/chat": b'"messages":[{"role":"user","content":"x"}],"functions":[{"name":"f","parameters":%b}]',
    "/v1/chat/completions": (
        b'"messages":[{"role":"user","content":"x"}],'
        b'"tools":[{"type":"function","function":{"name":"f","parameters":%b}}]'
    ),
    "/v1/messages": (
        b'"max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":%b}]'
    ),
    "/v1/messages/count_tokens": (
        b'"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":%b}]'
    ),
    "/v1/responses": b'"input":"x","tools":[{"type":"function","name":"f","parameters":%b}]',
    "/v1/responses/input_tokens": (
        b'"input":[{"role":"user","content":"x"},'
        b'{"type":"additional_tools","tools":[{"type":"function","name":"f","parameters":%b}]}]'
    ),
}


@each_case("path", DEEP_TOOLS)
def test_tools_that_are_nested_too_deeply_are_refused_however_deep(path: str) -> None:
    """Beyond some hundred levels the JSON parsers themselves give up."""
    status = 422 if path == "/v1/chat" else 400
    with Running() as gateway:
        for depth in (150, 1_100, 50_000):
            schema = b'{"a":' + b"[" * depth + b"1" + b"]" * depth + b"}"
            answer = gateway.post(path, b'{"model":"demo",' + DEEP_TOOLS[path] % schema + b"}")
            assert (answer.status, answer.json["error"]["code"]) == (status, "invalid_request"), depth
            assert "nested too deeply" in answer.json["error"]["message"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_lacks_is_named(gateway: Running, number: str) -> None:
    body = f'{{"messages":[{{"role":"user","content":"x","extra":{{"a":[{number}]}}}}]}}'
    answer = gateway.post("/v1/chat", body.encode())
    assert (answer.status, answer.json["error"]["param"]) == (422, "messages[0].extra.a[0]")


def test_requests_beyond_the_limit_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    server = Held()
    body = padded(100)

    async def ask_many(gateway: Running) -> list[Any]:
        first = asyncio.create_task(gateway.ask_async("POST", "/v1/chat", [body]))
        await server.asked.wait()
        refused = await gateway.ask_async("POST", "/v1/chat", [body])
        others = [await gateway.ask_async("GET", path) for path in ("/healthz", "/v1/models")]
        server.may.set()
        served = await first
        return [refused, served, *others, await gateway.ask_async("POST", "/v1/chat", [body])]

    with Running({**SERVER, "server": LIMITS}, server) as gateway:
        refused, *others = gateway.loop.run_until_complete(ask_many(gateway))
    assert code(refused) == (503, "overloaded")
    assert refused.json["error"]["retryable"] is True
    assert [answer.status for answer in others] == [200] * 4
    assert capsys.readouterr().err.count('"status":503,"error":"overloaded"') == 1


def test_more_stop_words_than_the_model_takes_are_refused_before_anything_is_sent(
    gateway: Running, server: ModelServer
) -> None:
    answer = gateway.post("/v1/chat", {"messages": [USER], "generate_cfg": {"stop": [f"w{at}" for at in range(17)]}})
    assert (answer.status, answer.json["error"]["param"]) == (422, "generate_cfg.stop")
    assert not server.requests
