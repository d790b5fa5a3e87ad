"""The frames of a reply: those recorded, in any form, cut anywhere."""

import json
from typing import Any

import pytest
from app.chat.events import Event, Extra, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import Origin
from app.errors import UpstreamFailed
from app.formats.autogen import AUTOGEN

from tests.each_case import each_case
from tests.formats.autogen.recorded_cases import cases, read
from tests.formats.autogen.reply_frames import (
    NOT_AS_AUTOGEN,
    STREAMS,
    Json,
    encode_frames,
    frames,
    info,
    renamed,
    upstream,
    whole,
    without_result,
)

EMITTED = cases("emit/autogen")


@each_case("size", [10**9, 7])
@each_case("name", EMITTED)
def test_a_recorded_reply_has_the_agreed_frames(name: str, size: int) -> None:
    ours = without_result(encode_frames(upstream(name, size)))
    assert renamed(ours) == renamed(EMITTED[name]["frames"])


@each_case("name", [name for name in STREAMS if not name.startswith("s20")])
def test_the_model_view_is_what_autogens_client_yields(name: str) -> None:
    *chunks, last = STREAMS[name]["create_stream"]
    assert (encode_frames(upstream(name), "model") == [*chunks, last["CreateResult"]]) is (name not in NOT_AS_AUTOGEN)


def chunks_by_id(items: list[Any]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for one in items:
        if one["type"] == "ModelClientStreamingChunkEvent":
            texts[one["full_message_id"]] = texts.get(one["full_message_id"], "") + one["content"]
    return texts


MIXED: list[Event] = [
    ReasoningDelta("r1"),
    TextDelta("t1"),
    ReasoningDelta("r2"),
    ReasoningDelta("!"),
    TextDelta("t2"),
    ToolCallDelta(0, "{}", "c1", "f"),
    TextDelta("t3"),
    ToolCallDelta(1, "", "c2", "g"),
    Finish("tool_calls", {"prompt_tokens": 1, "completion_tokens": 2, "reasoning_tokens": 1}),
]


def test_the_chunks_of_an_id_add_up_to_its_message() -> None:
    items = encode_frames([MIXED])
    whole_ones = {one["id"]: one["content"] for one in items[-1]["messages"] if isinstance(one["content"], str)}
    assert chunks_by_id(items) == whole_ones
    assert list(whole_ones.values()) == ["r1", "r2!", "t1t2", "t3"]
    assert [one["type"] for one in items[-1]["messages"]] == ["ThoughtEvent"] * 4 + ["ToolCallRequestEvent"]
    assert len({one["id"] for one in items[:-1]}) == len(items) - 1


def test_text_after_the_last_call_is_written_before_the_calls() -> None:
    items = encode_frames([[ToolCallDelta(0, "{}", "c", "f"), TextDelta("late"), Finish("tool_calls")]])
    assert chunks_by_id(items) == {items[1]["id"]: "late"}
    assert [one["type"] for one in items[1:-1]] == ["ThoughtEvent", "ToolCallRequestEvent"]


def test_usage_beyond_the_totals_is_kept_in_metadata() -> None:
    last = encode_frames([MIXED])[-1]["messages"][-1]
    assert last["models_usage"] == {"prompt_tokens": 1, "completion_tokens": 2}
    assert json.loads(last["metadata"]["usage"])["reasoning_tokens"] == 1


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 1}, {}])
def test_usage_that_is_not_known_is_null(usage: Json | None) -> None:
    assert encode_frames([[TextDelta("x"), Finish("stop", usage)]])[-1]["messages"][-1]["models_usage"] is None


def test_an_empty_answer_is_an_empty_text() -> None:
    replies: list[list[Event]] = [[Finish("stop")], [ReasoningDelta("hm"), Finish("length")]]
    for events in replies:
        messages = encode_frames([events])[-1]["messages"]
        assert (messages[-1]["type"], messages[-1]["content"]) == ("TextMessage", "")
        assert encode_frames([events], "compat")[-1]["messages"][-1]["content"] == ""
        assert encode_frames([events], "model")[-1]["content"] == ""


def test_line_separators_are_escaped_and_other_letters_are_not() -> None:
    encoder = AUTOGEN.reply_encoder(info(), "delta")
    data = encoder.feed([TextDelta("é\u2028\u2029\x85"), Finish("stop")])
    assert "é\\u2028\\u2029\\u0085".encode() in data
    assert len(data.decode().splitlines()) == data.count(b"\n")


@pytest.mark.parametrize("form", ["interleaved", "compat", "model"])
def test_no_chunk_is_too_long_for_a_line_reader(form: str) -> None:
    encoder = AUTOGEN.reply_encoder(info(form), "delta")
    data = encoder.feed([TextDelta("x" + "\u2028" * 50_000)])
    assert max(map(len, data.split(b"\n\n"))) < 60_000
    texts = [one if isinstance(one, str) else one["content"] for one in frames(data)]
    assert "".join(texts) == "x" + "\u2028" * 50_000


def test_snapshots_are_written_as_deltas() -> None:
    assert encode_frames([MIXED], mode="snapshot") == encode_frames([MIXED])


def test_an_error_is_the_last_frame_and_completes_nothing() -> None:
    batches = upstream("s20_error_mid_stream")
    for form in ("interleaved", "compat", "model"):
        error = encode_frames(batches, form)[-1]
        assert (error["type"], error["source"], error["content"]) == ("error", "system", "boom (server error)")
        assert (error["code"], error["status"], error["request_id"]) == ("server_error", 502, "req-1")
        assert "message" not in error


def test_an_http_error_has_the_body_of_the_error_frame() -> None:
    failed = upstream("s20_error_mid_stream")[-1][-1]
    assert isinstance(failed, Failed)
    error = UpstreamFailed(failed.fault).to_dict("req-1")
    assert AUTOGEN.error(error) == frames(AUTOGEN.reply_encoder(info(), "delta").fail(error))[0]


def test_warnings_and_a_cache_hit_are_reported() -> None:
    events: list[Event] = [TextDelta("x"), Finish("stop")]
    assert whole(events, warnings=("careful",))["warnings"] == ["careful"]
    assert whole(events, "model", origin=Origin("hit", 3))["cached"] is True


def test_opaque_fields_come_back_with_the_history() -> None:
    events: list[Event] = [
        Extra({"reasoning_details": [{"a": 1}]}),
        ReasoningDelta("r"),
        TextDelta("no", refusal=True),
        ToolCallDelta(0, "{}", "c", "f"),
        ToolCallDelta(1, "{}", "d", "g"),
        Extra({"extra_content": {"s": "x"}}, 0),
        Finish("tool_calls"),
    ]
    reasoning, texts, first, second = read(whole(events)["messages"])
    assert reasoning.extra["reasoning_details"] == [{"a": 1}]
    assert texts.extra["refusal"] is True
    assert first.parts[0].extra == {"extra_content": {"s": "x"}}  # type: ignore[union-attr]  # a call
    assert second.parts[0].extra == {}  # type: ignore[union-attr]  # a call


def test_opaque_fields_behind_the_last_message_stand_on_it() -> None:
    events: list[Event] = [ToolCallDelta(0, "{}", "d", "g"), Extra({"reasoning_details": [1]}), Finish("tool_calls")]
    assert read(whole(events)["messages"])[0].extra["reasoning_details"] == [1]
