"""A reply as OpenAI's SDKs read it: chunks, and one completion that says the same."""

import json
from typing import Any

import pytest
from app.chat.events import NEXT_MESSAGE, Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.formats.base import Options, ReplyInfo, ReplyMode
from app.formats.openai import OPENAI

from tests.conversations.clients import OPENAI as CLIENT
from tests.reply_pipeline import INFO

Json = dict[str, Any]
DETAILS = [{"type": "reasoning.encrypted", "data": "c2ln"}]
SIGNED = {"extra_content": {"s": 1}}
FAULT = Failed(Fault("rate_limit", "slow down", transient=True, status=429))
REPLIES: dict[str, list[Event]] = {
    "text": [TextDelta("a"), TextDelta("b\u2028"), Finish("stop")],
    "refusal": [TextDelta("no", refusal=True), Finish("stop")],
    "thought, text, calls": [
        ReasoningDelta("r"),
        TextDelta("t"),
        ToolCallDelta(0, '{"a"', "c", "f"),
        ToolCallDelta(1, "{}", "d", "g"),
        ToolCallDelta(0, ":1}"),
        Finish("tool_calls"),
    ],
    "details of a thought": [
        Extra({"reasoning_details": DETAILS}),
        ReasoningDelta("r"),
        TextDelta("t"),
        Finish("stop"),
    ],
    "details of nothing": [TextDelta("t"), Finish("stop")],
    "details alone": [Extra({"reasoning_details": DETAILS}), Finish("stop")],
    "a call signed at once": [Extra(SIGNED), ToolCallDelta(0, "{}", "c", "f"), Finish("tool_calls")],
    "a call signed late": [ToolCallDelta(0, "{}", "c", "f"), Extra(SIGNED, 0), Finish("tool_calls")],
    "details of a call, then of a thought": [
        Extra({"reasoning_details": [{"data": "1"}]}, NEXT_MESSAGE),
        ToolCallDelta(0, "{}", "c", "f"),
        ReasoningDelta("r"),
        Extra({"reasoning_details": [{"data": "2"}]}),
        ToolCallDelta(1, "{}", "d", "g"),
        Extra({"reasoning_details": [{"data": "3"}]}, 1),
        Finish("tool_calls"),
    ],
    "signatures of two thoughts": [
        ReasoningDelta("a"),
        Extra({"reasoning_details": [{"type": "reasoning.text", "signature": "A"}]}),
        TextDelta("t"),
        ReasoningDelta("b"),
        Extra({"reasoning_details": [{"type": "reasoning.text", "signature": "B"}, {"data": "3"}]}),
        Finish("stop"),
    ],
    "nothing": [Finish("stop")],
}


def encode_reply(events: list[Event], mode: ReplyMode = "delta") -> list[Any]:
    encoder = OPENAI.reply_encoder(INFO, mode)
    data = encoder.open() + b"".join(encoder.feed([event]) for event in events)
    return [line.removeprefix("data: ") for line in data.decode().split("\n\n") if line]


@pytest.mark.parametrize("name", REPLIES)
def test_the_chunks_add_up_to_the_completion(name: str) -> None:
    *chunks, done = encode_reply(REPLIES[name])
    (body,) = encode_reply(REPLIES[name], "whole")
    assert done == "[DONE]"
    found = CLIENT.streamed([json.loads(chunk) for chunk in chunks])
    assert found == [{key: value for key, value in _message(body).items() if (key, value) != ("refusal", None)}]


def test_what_is_opaque_keeps_its_order_and_a_later_signature_has_its_text() -> None:
    (body,) = encode_reply(REPLIES["details of a call, then of a thought"], "whole")
    assert [detail["data"] for detail in _message(body)["reasoning_details"]] == ["1", "2", "3"]
    (body,) = encode_reply(REPLIES["signatures of two thoughts"], "whole")
    assert _message(body)["reasoning_details"] == [
        {"type": "reasoning.text", "signature": "A"},
        {"type": "reasoning.text", "text": "b", "signature": "B"},
        {"data": "3"},
    ]


def _message(body: str) -> Json:
    message: Json = json.loads(body)["choices"][0]["message"]
    return message


def test_a_signature_is_written_once() -> None:
    for name in ("a call signed at once", "a call signed late"):
        assert sum("extra_content" in chunk for chunk in encode_reply(REPLIES[name])) == 1


def test_an_error_within_a_stream_is_the_last_frame() -> None:
    last = json.loads(encode_reply([TextDelta("a"), FAULT])[-1])
    assert (last["error"]["type"], last["error"]["message"]) == ("rate_limit_error", "slow down (rate limit)")
    assert encode_reply([TextDelta("a"), FAULT], "whole") == []
    assert b"rate_limit_error" in OPENAI.reply_encoder(INFO, "whole").fail({"code": "rate_limit", "status": 429})


CUSTOM = ReplyInfo("chat-1", "req-1", "m", 1767225600, options=Options(custom_tools=("f",)))
CUSTOM_CALL: list[Event] = [
    ToolCallDelta(0, '{"input": "a', "c", "f"),
    ToolCallDelta(0, 'b"}'),
    Finish("tool_calls"),
]


def test_the_text_of_a_custom_tool_is_one_chunk_at_its_end() -> None:
    encoder = OPENAI.reply_encoder(CUSTOM, "delta")
    out = b"".join(encoder.feed([event]) for event in CUSTOM_CALL).decode().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in out if line.startswith("data: {")]
    calls = [call for chunk in chunks for one in chunk["choices"] for call in one["delta"].get("tool_calls", ())]
    assert calls == [
        {"index": 0, "id": "c", "type": "custom", "custom": {"name": "f", "input": ""}},
        {"index": 0, "custom": {"input": "ab"}},
    ]


def test_the_call_of_a_custom_tool_has_a_text_in_a_completion() -> None:
    encoder = OPENAI.reply_encoder(CUSTOM, "whole")
    message = _message((encoder.open() + encoder.feed(CUSTOM_CALL)).decode())
    assert message["tool_calls"] == [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "ab"}}]


def test_parts_of_the_totals_do_not_stand_beside_them() -> None:
    nested = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    (body,) = encode_reply([TextDelta("a"), Finish("stop", {**nested, "cached_tokens": 2})], "whole")
    assert json.loads(body)["usage"] == nested


def test_a_completion_has_no_heartbeat() -> None:
    assert OPENAI.reply_encoder(INFO, "whole").heartbeat() == b""
    assert OPENAI.reply_encoder(INFO, "delta").heartbeat() != b""
