"""Replies say in each version's own words what went well and what did not, and can be posted back as history."""

from typing import Any

import pytest
from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import Origin
from app.errors import CODES, UpstreamFailed
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format
from app.profiles import Profile
from msgspec.structs import replace

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, decoded, load, sent
from tests.formats.agentscope.replies import FRIDAY, batches_of, body_of, frames, stream, whole

USAGE = {"prompt_tokens": 30, "completion_tokens": 25, "total_tokens": 55}
DETAILED = {**USAGE, "prompt_tokens_details": {"cached_tokens": 7}}
CALL = ToolCallDelta(0, '{"a":1}', "c1", "f")
REPLY: list[Event] = [ReasoningDelta("r"), TextDelta("t"), CALL, Finish("tool_calls", USAGE)]
either = each_case("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])


def last(form: Format, *events: Event, **info: Any) -> Json:
    return stream(form, [list(events)], info=replace(FRIDAY, **info))[-1]


def error(code: str, **fields: Any) -> Json:
    return UpstreamFailed(Fault(code, "boom", transient=False, **fields)).to_dict("req-1")


def test_an_empty_reply_of_1x_is_one_empty_message() -> None:
    (frame,) = stream(AGENTSCOPE, [[Finish("stop")]])
    assert frame == {
        "msg": {
            "id": "chat-1",
            "name": "Friday",
            "role": "assistant",
            "content": [],
            "metadata": {"finish_reason": "stop", "usage": None},
            "timestamp": "1970-01-01 00:00:01.000",
        },
        "last": True,
    }


def test_an_empty_reply_of_2x_has_no_blocks() -> None:
    types = ["REPLY_START", "MODEL_CALL_START", "MODEL_CALL_END", "REPLY_END"]
    assert [event["type"] for event in stream(AGENTSCOPE2, [[Finish("stop")]])] == types


def test_a_whole_reply_of_2x_is_a_message_with_its_usage() -> None:
    body = whole(AGENTSCOPE2, [[*REPLY[:-1], Finish("tool_calls", DETAILED)]])
    usage = {"input_tokens": 30, "output_tokens": 25, "cache_input_tokens": 7, "cache_creation_input_tokens": 0}
    assert body["msg"] == {
        "name": "Friday",
        "content": [
            {"type": "thinking", "thinking": "r"},
            {"type": "text", "text": "t"},
            {"type": "tool_call", "id": "c1", "name": "f", "input": '{"a":1}', "state": "pending"},
        ],
        "role": "assistant",
        "id": "chat-1",
        "metadata": {"finish_reason": "tool_calls"},
        "created_at": "1970-01-01T00:00:01+00:00",
        "usage": usage,
        "finished_at": "1970-01-01T00:00:01+00:00",
        "finished_reason": "completed",
        "structured_output": None,
        "error": None,
    }


def test_details_of_the_usage_stand_beside_the_two_numbers() -> None:
    usage = last(AGENTSCOPE, Finish("stop", DETAILED))["msg"]["metadata"]["usage"]
    assert usage == {"input_tokens": 30, "output_tokens": 25, "metadata": DETAILED}


def test_thoughts_that_go_on_after_text_grow_the_one_thought_of_1x() -> None:
    reply_events: list[Event] = [
        ReasoningDelta("a"),
        TextDelta("b"),
        ReasoningDelta("c"),
        TextDelta("d"),
        Finish("stop"),
    ]
    content = last(AGENTSCOPE, *reply_events)["msg"]["content"]
    assert content == [{"type": "thinking", "thinking": "ac"}, {"type": "text", "text": "bd"}]
    blocks = whole(AGENTSCOPE2, [reply_events])["msg"]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "thinking", "text"]


@either
def test_warnings_and_a_cached_reply_are_reported(form: Format) -> None:
    end = last(form, TextDelta("t"), Finish("stop"), warnings=("w",), origin=Origin("hit", 3))
    metadata = end["msg"]["metadata"] if form is AGENTSCOPE else end["metadata"]
    assert {"warnings": ["w"], "cached": True}.items() <= metadata.items()


def test_an_unusual_finish_reason_of_the_server_is_reported() -> None:
    found = last(AGENTSCOPE, Finish("stop", native_reason="eos"))["msg"]["metadata"]
    assert found["native_finish_reason"] == "eos"
    assert whole(AGENTSCOPE2, [[Finish("stop", native_reason="eos")]])["msg"]["metadata"] == {
        "finish_reason": "stop",
        "native_finish_reason": "eos",
    }


@either
def test_opaque_fields_of_a_reply_come_back_as_history(form: Format) -> None:
    reply_events: list[Event] = [
        ReasoningDelta("r"),
        Extra({"reasoning_details": [{"d": 1}]}),
        CALL,
        Extra({"extra_content": {"s": 1}}, 0),
        Finish("tool_calls"),
    ]
    thought, call = decoded(form, whole(form, [reply_events])["msg"])
    assert thought.extra["reasoning_details"] == [{"d": 1}]
    assert call.parts[0].extra == {"extra_content": {"s": 1}}  # type: ignore[union-attr]


def test_details_of_several_thoughts_stand_one_behind_the_other_in_1x() -> None:
    reply_events: list[Event] = []
    for number, text in enumerate("ab"):
        reply_events += [ReasoningDelta(text), Extra({"reasoning_details": [number]}), TextDelta(text)]
    thought, _ = decoded(AGENTSCOPE, whole(AGENTSCOPE, [[*reply_events, Finish("stop")]])["msg"])
    assert thought.extra["reasoning_details"] == [0, 1]


def test_extra_fields_without_a_message_are_reported() -> None:
    assert last(AGENTSCOPE, Extra({"k": 1}), Finish("stop"))["msg"]["metadata"]["extra"] == {"k": 1}


@either
def test_separators_that_break_lines_are_escaped(form: Format) -> None:
    encoder = form.reply_encoder(FRIDAY, "delta")
    data = encoder.feed([TextDelta("a\u2028b\u2029c\u0085d\u00e9")])
    assert b"a\\u2028b\\u2029c\\u0085d\xc3\xa9" in data
    assert frames(data)


GOLDENS = [golden for golden in load("emit/agentscope1").values() if not golden["expected"]["upstream_error"]]


@either
@each_case("golden", GOLDENS, ids=lambda golden: golden["note"].partition(";")[0][:40])
def test_a_reply_is_history_that_a_model_can_be_sent(form: Format, golden: Json) -> None:
    reply = whole(form, batches_of(body_of(golden)))["msg"]
    calls = [block for block in reply["content"] if block["type"] in ("tool_use", "tool_call")]
    results = [{"type": "tool_result", "id": one["id"], "name": one["name"], "output": "ok"} for one in calls]
    if form is AGENTSCOPE:
        history = [reply, *({"name": "system", "role": "system", "content": [one]} for one in results)]
    else:
        history = [{**reply, "content": [*reply["content"], *results]}]
    messages = sent(form, history, Profile())
    assert isinstance(messages, list), messages
    assert [one["role"] for one in messages] == ["assistant", *(["tool"] * len(calls))]
    assert [one["tool_call_id"] for one in messages[1:]] == [one["id"] for one in calls]


def test_a_failed_stream_of_1x_ends_with_an_error_frame() -> None:
    reply_events, end = stream(
        AGENTSCOPE, [[TextDelta("t"), Failed(Fault("rate_limit", "slow", transient=True, status=429))]]
    )
    assert (reply_events["msg"]["content"], reply_events["last"]) == ([{"type": "text", "text": "t"}], False)
    assert end["last"] is True
    assert {"type": "rate_limit", "message": "slow (rate limit)", "retryable": True}.items() <= end["error"].items()


def test_a_failed_stream_of_2x_closes_what_is_open() -> None:
    failed = Failed(Fault("timeout", "silence", transient=True))
    events = stream(AGENTSCOPE2, [[TextDelta("t"), CALL], [ToolCallDelta(1, "{", "c2", "g"), failed]])
    assert [event["type"] for event in events[-3:]] == ["TOOL_CALL_END", "TOOL_CALL_END", "REPLY_END"]
    assert events[-1]["error"] == {"type": "connection", "message": "silence (timeout)"}
    assert events[-1]["finished_reason"] == "error"


@either
def test_a_failed_whole_reply_has_its_text_beside_its_error(form: Format) -> None:
    failed = Failed(Fault("server_error", "boom", transient=True))
    body = whole(form, [[TextDelta("t")], [failed]])
    assert body["error"]["message"] == "boom (server error)"
    assert [block["text"] for block in body["msg"]["content"]] == ["t"]
    assert "msg" not in whole(form, [[failed]])


TYPES = {
    "authentication": "authentication",
    "permission": "permission",
    "rate_limit": "rate_limit",
    "insufficient_quota": "rate_limit",
    "invalid_request": "invalid_request",
    "context_length_exceeded": "invalid_request",
    "content_filter": "invalid_request",
    "not_found": "invalid_request",
    "timeout": "connection",
    "cancelled": "invalid_request",
}


@each_case("code", [code for code, row in CODES.items() if row.server])
def test_an_http_error_has_the_shape_of_the_format_and_all_that_we_say(code: str) -> None:
    ours = error(code)
    assert AGENTSCOPE.error(ours) == {"error": {**ours, "type": code}, "last": True}
    assert AGENTSCOPE2.error(ours) == {"error": {**ours, "type": TYPES.get(code, "upstream")}}


@pytest.mark.parametrize(("status", "kind"), [(413, "invalid_request"), (502, "upstream")])
def test_an_unknown_code_is_named_by_its_status(status: int, kind: str) -> None:
    assert AGENTSCOPE2.error({**error("server_error"), "code": "new", "status": status})["error"]["type"] == kind


def test_our_own_defect_is_internal() -> None:
    ours = {**error("server_error"), "code": "internal_error", "status": 500}
    assert AGENTSCOPE2.error(ours)["error"]["type"] == "internal"
