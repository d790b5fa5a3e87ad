"""`POST /v1/responses/compact`."""

import hashlib
import json
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import HELLO, STOP, Answer, ModelServer, Running, streamed

PATH = "/v1/responses/compact"
SETTINGS: dict[str, Any] = {
    "upstreams": {"up": {"base_url": "http://model.test/v1"}},
    "models": {"m": {"upstreams": ["up"]}},
}
OWN: dict[str, Any] = {
    "upstreams": {"up": {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"}},
    "models": {"m": {"upstreams": ["up"], "name": "served"}},
}
TOOL = {"type": "function", "name": "read", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
ITEMS: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Read it."},
    CALL,
    {"type": "function_call_output", "call_id": "c", "output": "abc"},
    {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
]


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()


def compact(body: dict[str, Any], server: ModelServer | None = None, settings: dict[str, Any] = SETTINGS) -> Answer:
    with Running(settings, server or ModelServer()) as gateway:
        return gateway.post(PATH, {"model": "m", **body})


def sent(server: ModelServer) -> Any:
    return json.loads(server.requests[0].content)


def test_a_compaction_has_the_users_words_and_one_summary() -> None:
    server = ModelServer()
    answer = compact({"input": ITEMS, "tools": [TOOL], "tool_choice": "required", "max_output_tokens": 1}, server)
    body = answer.json
    assert (answer.status, body["object"]) == (200, "response.compaction")
    assert [item["type"] for item in body["output"]] == ["message", "message", "compaction"]
    assert [item["content"] for item in body["output"][:2]] == [
        [{"type": "input_text", "text": "Read it."}],
        [{"type": "input_text", "text": "And now?"}],
    ]
    assert body["output"][2]["encrypted_content"].startswith("parley1.")
    assert not sent(server).keys() & {"tools", "tool_choice", "max_tokens", "max_completion_tokens"}


def test_the_output_is_the_conversation_of_the_next_request() -> None:
    server = ModelServer()
    with Running(SETTINGS, server) as gateway:
        output = gateway.post(PATH, {"model": "m", "input": ITEMS}).json["output"]
        gateway.post("/v1/responses", {"model": "m", "input": [*output, {"role": "user", "content": "Go on."}]})
    texts = json.dumps(json.loads(server.requests[1].content)["messages"])
    assert all(text in texts for text in ("Read it.", "And now?", "Hello", "Go on."))
    assert "abc" not in texts


def test_a_stored_response_is_compacted() -> None:
    server = ModelServer()
    with Running(SETTINGS | {"cache": {"url": "memory:"}}, server) as gateway:
        id_ = gateway.post("/v1/responses", {"model": "m", "input": "First."}).json["id"]
        answer = gateway.post(PATH, {"model": "m", "previous_response_id": id_})
        assert gateway.get(f"/v1/responses/{answer.json['id']}").status == 404
    assert [item["type"] for item in answer.json["output"]] == ["message", "compaction"]


@pytest.mark.parametrize(("tokens", "kept"), [(0, []), (2, ["bbbb"]), (3, ["aaaaaaaa", "bbbb"])])
def test_the_newest_words_are_kept(tokens: int, kept: list[str]) -> None:
    items = [{"role": "user", "content": text} for text in ("aaaaaaaa", "bbbb")]
    body = compact({"input": items}, settings=SETTINGS | {"responses": {"compact_user_tokens": tokens}}).json
    assert [item["content"][0]["text"] for item in body["output"][:-1]] == kept


@each_case(
    ("body", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({}, "input"),
        ({"instructions": "x"}, "input"),
        ({"input": 3}, "input"),
        ({"input": "x", "model": None}, "model"),
        ({"input": [{"type": "dance"}]}, "input[0].type"),
    ],
)
def test_a_mistake_is_named_at_its_field(body: dict[str, Any], param: str) -> None:
    answer = compact(body)
    assert (400 <= answer.status < 500, answer.json["error"]["param"]) == (True, param)


def test_a_stream_is_answered_whole_with_a_warning() -> None:
    answer = compact({"input": "x", "stream": True})
    assert (answer.status, answer.json["object"]) == (200, "response.compaction")
    assert "stream" in answer.json["parley"]["warnings"][0]


@each_case("method", ["GET", "DELETE"])
def test_the_path_is_no_response(method: str) -> None:
    with Running(SETTINGS) as gateway:
        assert gateway.ask(method, PATH).status == 405


@each_case(
    "pieces",
    [
        [HELLO, chunk({}, "length")],
        [chunk({"content": "  "}), chunk({}, "stop")],
        [chunk({"refusal": "No."}), chunk({}, "stop")],
        [chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}), STOP],
    ],
)
def test_what_is_no_whole_summary_is_an_error_that_may_be_retried(pieces: list[bytes]) -> None:
    answer = compact({"input": "x"}, ModelServer(lambda _: streamed(*pieces, b"data: [DONE]\n\n")))
    assert (answer.status, answer.json["error"]["type"], answer.json["error"]["retryable"]) == (
        502,
        "server_error",
        True,
    )


def own_server(status: int, answer: dict[str, Any]) -> ModelServer:
    events = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "message", "id": "i", "content": []},
        },
        {"type": "response.output_text.delta", "output_index": 0, "item_id": "i", "content_index": 0, "delta": "Hello"},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ]

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/compact"):
            return httpx.Response(status, json=answer)
        return streamed(*(b"data: %s\n\n" % json.dumps(event).encode() for event in events))

    return ModelServer(respond)


def test_a_server_that_makes_compactions_is_asked_with_its_name_of_the_model() -> None:
    made = {
        "object": "response.compaction",
        "output": [{"type": "compaction", "encrypted_content": "OPAQUE"}],
        "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
    }
    server = own_server(200, made)
    answer = compact({"input": "x", "tools": [TOOL], "store": True}, server, OWN)
    assert (answer.status, answer.json) == (200, made)
    assert sent(server) == {"model": "served", "input": "x"}


@each_case("status", [404, 405, 501])
def test_a_server_without_the_path_is_asked_for_a_summary_and_not_again(status: int) -> None:
    server = own_server(status, {"error": {"message": "no such path"}})
    with Running(OWN, server) as gateway:
        answers = [gateway.post(PATH, {"model": "m", "input": "x"}) for _ in range(2)]
    assert [answer.json["output"][-1]["encrypted_content"][:8] for answer in answers] == ["parley1."] * 2
    assert [request.url.path.rpartition("/")[2] for request in server.requests] == ["compact", "responses", "responses"]


@each_case("answer", [{"output": []}, {"output": [{"type": "message"}]}, {}])
def test_an_answer_without_a_compaction_is_an_error(answer: dict[str, Any]) -> None:
    assert compact({"input": "x"}, own_server(200, answer), OWN).status == 502


def test_a_summary_of_the_gateway_is_text_for_a_server_of_the_same_api() -> None:
    server = own_server(404, {})
    with Running(OWN, server) as gateway:
        output = gateway.post(PATH, {"model": "m", "input": "x"}).json["output"]
        gateway.post("/v1/responses", {"model": "m", "input": output, "stream": True})
    items = json.loads(server.requests[-1].content)["input"]
    assert "Hello" in items[-1]["content"]
    assert "parley1." not in json.dumps(items)


@each_case(
    ("usage", "cost"),
    [
        ({"input_tokens": 300, "output_tokens": 20, "total_tokens": 320}, 340e-6),
        (None, None),
    ],
)
def test_a_compaction_of_the_server_is_billed_and_counts_for_limits(usage: Any, cost: float | None) -> None:
    made = {"object": "response.compaction", "output": [{"type": "compaction", "encrypted_content": "OPAQUE"}]}
    server = own_server(200, made if usage is None else {**made, "usage": usage})
    key, admin = "full-0123456789abcdef", "admin-0123456789abcdef"
    settings = {
        **OWN,
        "models": {"m": {"upstreams": ["up"], "price": {"input": 1, "output": 2}}},
        "keys": {"full": {"sha256": _hash(key), "limits": {"spend_per_day": 1e-6}}},
        "server": {"admin_key": admin, "log_level": "error"},
        "state": {"url": "memory:"},
    }
    with Running(settings, server) as gateway:
        body = {"model": "m", "input": ITEMS}
        statuses = [gateway.post(PATH, body, {"authorization": f"Bearer {key}"}).status for _ in range(2)]
        spent = gateway.get("/v1/usage", {"authorization": f"Bearer {admin}"}).json["total"]["cost"]
    assert statuses == [200, 402]
    assert spent == pytest.approx(cost) if cost is not None else spent > 0


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
