"""A client's own body of Responses, with what the gateway has sealed in it opened for a server of the same API."""

from typing import Any

import pytest
from app.chat.messages import CHAT_PATHS
from app.errors import Unsupported
from app.formats.request_limits import RequestLimits
from app.formats.responses.parse import FORMAT
from app.formats.responses.passed import make_passed_body, make_passed_request
from app.formats.seal import Seal, write_seal

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=3, max_content_items=20, max_functions=2, max_nesting=9)
HIDDEN = {"type": "reasoning.encrypted", "data": "d", "id": "rs_1", "format": FORMAT}
ITEM = {"type": "provider.item", "item": {"type": "compaction", "encrypted_content": "c"}, "format": FORMAT}
FOREIGN = {"type": "reasoning.text", "signature": "x", "format": "anthropic-claude-v1"}
CALL: Json = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
HI: Json = {"type": "message", "role": "user", "content": "Hi"}


def open_items(*items: Any) -> Any:
    return make_passed_body({"input": [*items]}, [*items], stream=True).body["input"]


def think(text: str, *details: Json, **calls: Json) -> Json:
    seal = Seal(text=text, details=list(details), calls=calls)
    return {"type": "reasoning", "id": "rs_gateway", "summary": [], "encrypted_content": write_seal(seal)}


PLAIN = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}
ENCRYPTED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "d"}


@pytest.mark.parametrize(
    ("item", "opened"),
    [
        (think("t", HIDDEN), [ENCRYPTED]),
        (think("t", HIDDEN, ITEM), [ENCRYPTED, ITEM["item"]]),
        (think("t", FOREIGN), [PLAIN]),
        (think("t"), [PLAIN]),
        (think("", FOREIGN), []),
        (ENCRYPTED, [ENCRYPTED]),
        (HI, [HI]),
    ],
)
def test_a_seal_is_what_it_holds_for_this_api(item: Json, opened: list[Json]) -> None:
    assert open_items(item) == opened


def test_a_call_gets_back_what_its_server_wants_with_it() -> None:
    seal = think("t", c1={"openai": {"namespace": "n", "other": 1}}, c2={"google": {}})
    assert open_items(seal, CALL, {**CALL, "call_id": "c2"}) == [
        PLAIN,
        {"namespace": "n", **CALL},
        {**CALL, "call_id": "c2"},
    ]


def test_what_the_gateway_stores_is_not_sent() -> None:
    body = {"input": "more", "previous_response_id": "resp_1", "background": True, "store": True, "mood": 1}
    assert make_passed_body(body, [HI], stream=True).body == {"input": [HI], "store": True, "mood": 1, "stream": True}
    assert make_passed_body({"input": "Hi"}, [HI], stream=False).body == {"input": "Hi"}


def refuse(body: Json, *items: Any) -> Any:
    return make_passed_request(
        {"model": "m", "input": [*items], **body}, [*items], Unsupported("no"), LIMITS, CHAT_PATHS
    )


def test_a_body_that_the_gateway_cannot_read_may_be_one_for_the_server() -> None:
    request = refuse({"max_output_tokens": 9, "background": True}, {"type": "new_item"})
    assert (request.model, request.params, request.stream) == ("m", {"max_tokens": 9}, True)
    assert isinstance(request.refusal, Unsupported)


@pytest.mark.parametrize(
    ("body", "items"),
    [
        ({"model": ""}, [HI]),
        ({"model": 1}, [HI]),
        ({}, []),
        ({}, ["text"]),
        ({"stream": "yes"}, [HI]),
        ({"max_output_tokens": 0}, [HI]),
        ({"max_output_tokens": True}, [HI]),
        ({}, [HI] * 4),
        ({"tools": [{}] * 3}, [HI]),
        ({}, [{"type": "x", "deep": [[[[[[[[[[[1]]]]]]]]]]]}]),
    ],
)
def test_what_no_server_is_sent(body: Json, items: list[Any]) -> None:
    assert refuse(body, *items) is None
