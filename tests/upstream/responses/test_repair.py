"""What is left of a body of the Responses API without its opaque reasoning."""

import httpx
from app.upstream.responses.repair import strip_reasoning

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

SETTINGS = {
    "upstreams": {"s": {"base_url": "http://model.test/v1", "api": "responses", "kind": "openai"}},
    "models": {"m": {"upstreams": ["s"]}},
    "cache": {"url": "null:"},
}


def test_items_of_reasoning_go() -> None:
    message = {"type": "message", "role": "user", "content": "x"}
    assert strip_reasoning({"input": [{"type": "reasoning", "id": "rs"}, message]}) == {"input": [message]}


def test_a_body_without_reasoning_is_left_alone() -> None:
    assert strip_reasoning({"input": "x"}) is None
    assert strip_reasoning({"input": [{"type": "message"}]}) is None


@each_case(
    ("status", "message"),
    [
        (404, "Item with id 'rs_0fa0' not found. Items are not persisted when `store` is set to false."),
        (400, "Item with id 'rs_0fa0' not found. Items are not persisted for Zero Data Retention organizations."),
        (400, "Item 'rs_0fa0' of type 'reasoning' was provided without its required following item."),
        (400, "The encrypted content gAAA... could not be verified."),
    ],
)
def test_reasoning_that_a_server_does_not_find_is_left_out_of_a_second_request(status: int, message: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if b"reasoning" in request.content:
            return httpx.Response(status, json={"error": {"message": message, "type": "invalid_request_error"}})
        return httpx.Response(200, json={"id": "r", "object": "response", "status": "completed", "output": []})

    server = ModelServer(answer)
    thought = {"type": "reasoning", "id": "rs_0fa0", "summary": [], "encrypted_content": "E"}
    with Running(SETTINGS, server) as gateway:
        answered = gateway.post("/v1/responses", {"model": "m", "input": [thought, {"role": "user", "content": "Hi"}]})
    assert (answered.status, len(server.requests)) == (200, 2), answered.body
    assert "cannot verify" in answered.json["parley"]["warnings"][0]
