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

CALL = ToolCallDelta(0, '{"a":1}', "c1", "f")


either = each_case("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])


def last(form: Format, *events: Event, **info: Any) -> Json:
    return stream(form, [list(events)], info=replace(FRIDAY, **info))[-1]


def error(code: str, **fields: Any) -> Json:
    return UpstreamFailed(Fault(code, "boom", transient=False, **fields)).to_dict("req-1")


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
