"""Bodies of the Responses API that are sent once more: without opaque reasoning, or with items as the server takes
them."""

import json
from typing import Any

import httpx
from app.chat.events import Fault
from app.upstream.api import find_api, repair_refused
from app.upstream.responses.repair import strip_reasoning

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
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


def repair(words: str, *items: Json, **more: Any) -> Any:
    fault = Fault("invalid_request", words, False, 400)
    body = {"model": "m", "input": list(items), **more}
    repaired = repair_refused(find_api("responses"), json.dumps(body).encode(), fault)
    return None if repaired is None else json.loads(repaired.data)


def ask(*items: Json, **more: Any) -> Json:
    return {"model": "m", "input": list(items), **more}


USER: Json = {"role": "user", "content": "Hi"}
SYSTEM: Json = {"role": "system", "content": "Be brief."}


def test_system_messages_are_those_of_the_developer_where_a_server_takes_these_alone() -> None:
    words = "System messages are not allowed"
    assert repair(words, SYSTEM, USER) == ask({**SYSTEM, "role": "developer"}, USER)
    assert repair(words, USER) is None


@each_case("words", ["Unexpected message role.", "System message must be at the beginning."])
def test_system_messages_are_instructions_where_a_template_takes_no_others(words: str) -> None:
    parts = [{"type": "input_text", "text": "And"}, {"type": "input_text", "text": "kind."}]
    developer = {"role": "developer", "content": parts}
    image: Json = {"role": "developer", "content": [{"type": "input_image", "image_url": "data:"}]}
    assert repair(words, SYSTEM, USER, developer) == ask(USER, instructions="Be brief.\n\nAnd\n\nkind.")
    assert repair(words, SYSTEM, USER, instructions="First.") == ask(USER, instructions="First.\n\nBe brief.")
    assert repair(words, image, USER) is None


@each_case(
    "words",
    [
        "Input should be a valid string",
        "messages.2.tool.content.0.type Input should be 'image_url' [input_value='input_image']",
        "function_call_output: images are not supported",
    ],
)
def test_media_stand_behind_results_where_these_may_have_none(words: str) -> None:
    image: Json = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    text = {"type": "input_text", "text": "page"}

    def result(id_: str, output: Any) -> Json:
        return {"type": "function_call_output", "call_id": id_, "output": output}

    behind = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "[image 1]"}, image]}
    first, second = result("a", [text, image]), result("b", "x")
    sent = (result("a", "page\n[image 1: see below]"), second, behind)
    assert repair(words, USER, first, second, USER) == ask(USER, *sent, USER)
    assert repair(words, USER, first, second) == ask(USER, *sent)
    assert repair(words, USER, result("a", [text])) == ask(USER, result("a", "page"))
    assert repair(words, USER, second) is None


@each_case(
    "words",
    [
        "The encrypted content for item rs_1 could not be verified. Reason: Encrypted content item_id did not match "
        "the target item id.",
        "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but got a string with "
        "length 408 instead.",
    ],
)
def test_ids_that_a_server_refuses_are_left_out_and_opaque_reasoning_is_kept(words: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if b'"rs_1"' in request.content:
            return httpx.Response(400, json={"error": {"message": words, "type": "invalid_request_error"}})
        return httpx.Response(200, json={"id": "r", "object": "response", "status": "completed", "output": []})

    thought: Json = {"type": "reasoning", "summary": [], "encrypted_content": "E"}
    called: Json = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    answered: Json = {"type": "function_call_output", "call_id": "c", "output": "x"}
    asked: Json = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "g", "arguments": "{}", "server_label": "s"}
    own = [{**thought, "id": "rs_1"}, {**called, "id": "fc_1"}, answered, asked, USER]
    server = ModelServer(answer)
    with Running(SETTINGS, server) as gateway:
        given = gateway.post("/v1/responses", {"model": "m", "input": own, "store": False})
        again = gateway.post("/v1/responses", {"model": "m", "input": own, "store": False})
    assert (given.status, again.status, len(server.requests)) == (200, 200, 3)
    for request in server.requests[1:]:
        assert json.loads(request.content)["input"] == [thought, called, answered, asked, USER]


def test_a_server_that_only_streams_is_asked_for_a_stream_whose_reply_is_whole_for_the_caller() -> None:
    reply = {"id": "r", "object": "response", "status": "completed", "output": [], "model": "m"}
    event = f"event: response.completed\ndata: {json.dumps({'type': 'response.completed', 'response': reply})}\n\n"

    def answer(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content).get("stream") is not True:
            return httpx.Response(400, json={"detail": "Stream must be set to true"})
        return httpx.Response(200, content=event, headers={"content-type": "text/event-stream"})

    server = ModelServer(answer)
    with Running(SETTINGS, server) as gateway:
        answered = gateway.post("/v1/responses", {"model": "m", "input": "Hi"})
    assert (answered.status, answered.json["status"], len(server.requests)) == (200, "completed", 2)
    assert "only streams" in answered.json["parley"]["warnings"][0]


def test_items_have_no_fields_that_are_null_where_these_are_refused() -> None:
    words = "Failed to deserialize the JSON body: data did not match any variant of untagged enum ModelInput"
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "E"}
    assert repair(words, {**thought, "content": None, "status": None}, USER) == ask(thought, USER)
    assert repair(words, thought, USER) is None


def test_tools_of_items_are_among_the_others_where_such_items_are_refused() -> None:
    words = "Unsupported Responses API input item type: 'additional_tools' None"
    first, second = {"type": "function", "name": "f"}, {"type": "function", "name": "g"}
    item: Json = {"type": "additional_tools", "role": "developer", "tools": [second]}
    assert repair(words, item, USER, tools=[first]) == ask(USER, tools=[first, second])
    assert repair(words, item, USER) == ask(USER, tools=[second])
    assert repair(words, USER, tools=[first]) is None


def test_ids_of_another_server_are_left_out_where_they_are_refused() -> None:
    words = "Invalid 'input[66].id': 'item_df7e'. Expected an ID that begins with 'rs'."
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "E"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    own, search = {"id": "rs_1", **thought}, {"type": "web_search_call", "id": "x"}
    sent = repair(words, {"id": "item_df7e", **thought}, {"id": "x", **call}, own, search)["input"]
    assert sent == [{"id": sent[0]["id"], **thought}, call, own, search] and sent[0]["id"].startswith("rs_")
    assert repair(words, own, search) is None
    assert repair("Invalid 'input[0].id': not a text", {"id": "x", **call}) is None
