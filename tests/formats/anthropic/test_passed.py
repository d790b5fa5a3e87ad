"""A client's own body, with what the gateway has sealed in it opened for a server of the same API."""

from typing import Any

import pytest
from app.chat.messages import CHAT_PATHS
from app.errors import Unsupported
from app.formats.anthropic.passed import make_passed_body, make_passed_request
from app.formats.request_limits import RequestLimits
from app.formats.seal import Seal, write_seal

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=3, max_content_items=20, max_functions=2, max_nesting=9)
SIGNED = {"type": "reasoning.text", "signature": "s", "format": "anthropic-claude-v1"}
HIDDEN = {"type": "reasoning.encrypted", "data": "d", "format": "anthropic-claude-v1"}
ITEM = {"type": "provider.item", "item": {"type": "compaction", "content": "c"}, "format": "anthropic-claude-v1"}
FOREIGN = {"type": "reasoning.encrypted", "data": "x", "format": "openai-responses-v1"}


def open_blocks(*blocks: Any) -> Any:
    body = make_passed_body({"messages": [{"role": "assistant", "content": list(blocks)}]}).body
    return body["messages"][0]["content"]


def think(text: str, *details: Json) -> Json:
    return {"type": "thinking", "thinking": text, "signature": write_seal(Seal(details=list(details)))}


@pytest.mark.parametrize(
    ("block", "opened"),
    [
        (think("t", SIGNED), [{"type": "thinking", "thinking": "t", "signature": "s"}]),
        (think("t", {**SIGNED, "text": "own"}), [{"type": "thinking", "thinking": "own", "signature": "s"}]),
        (think("t", FOREIGN), [{"type": "thinking", "thinking": "t", "signature": ""}]),
        (
            {"type": "redacted_thinking", "data": write_seal(Seal(details=[HIDDEN, ITEM]))},
            [{"type": "redacted_thinking", "data": "d"}, {"type": "compaction", "content": "c"}],
        ),
        ({"type": "redacted_thinking", "data": write_seal(Seal(details=[FOREIGN]))}, []),
    ],
)
def test_a_seal_becomes_what_it_holds_for_a_server_of_this_api(block: Json, opened: list[Json]) -> None:
    assert open_blocks(block) == opened


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "t", "signature": "native"},
        {"type": "redacted_thinking", "data": "native"},
        {"type": "future_block", "signature": "parley1.x"},
        "no block",
    ],
)
def test_any_other_block_stays(block: Any) -> None:
    assert open_blocks(block) == [block]


GOOD: Json = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "future_block"}]}]}


def make(body: Json) -> Any:
    return make_passed_request(body, Unsupported("no", "x"), LIMITS, CHAT_PATHS)


def test_a_body_that_the_gateway_cannot_read_keeps_why() -> None:
    request = make({**GOOD, "stream": True})
    assert (request.model, request.stream, request.messages) == ("m", True, ())
    assert isinstance(request.refusal, Unsupported) and request.passed.body["messages"] == GOOD["messages"]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"model": ""}, {"model": 5}, {"messages": []}, {"messages": "x"}, {"messages": [5]}, {"messages": [{}]}),
        *({"max_tokens": 0}, {"max_tokens": None}, {"stream": "yes"}),
    ],
)
def test_a_body_that_no_server_takes_is_not_passed(wrong: Json) -> None:
    assert make({**GOOD, **wrong}) is None
