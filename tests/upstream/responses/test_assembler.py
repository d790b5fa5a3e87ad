"""The rules by which the events of a Responses server become the gateway's."""

import json
from typing import Any

from app.chat.events import Event, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.upstream.responses.assembler import ResponsesAssembler
from app.upstream.responses.decoder import decode
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.upstream.responses.reader import Json, get_end, read_events, read_messages, write_stream

COMPLETED: Json = {"type": "response.completed", "response": {"status": "completed", "output": []}}


def added(index: int | None, **item: Any) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int | None, **item: Any) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text(delta: str, index: int | None = 0, **fields: Any) -> Json:
    return {"type": "response.output_text.delta", "delta": delta, "output_index": index, **fields}


def read(*events: Json) -> list[Event]:
    return read_events([write_stream(*events)])


def message(content: str) -> Json:
    return {"role": "assistant", "content": content}


def test_deltas_pass_as_they_arrive_and_the_end_of_a_text_adds_only_its_rest() -> None:
    whole = {"type": "response.output_text.done", "output_index": 0, "text": "Hello!"}
    item = {"type": "message", "content": [{"type": "output_text", "text": "Hello!"}]}
    events = read(added(0, type="message", id="m"), text("Hel"), text("lo"), whole, done(0, **item), COMPLETED)
    assert events == [TextDelta("Hel"), TextDelta("lo"), TextDelta("!"), Finish("stop")]


def test_an_item_that_ends_twice_is_told_once_but_two_without_ids_are_two() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
    assert read(done(0, id="m", **item), done(0, id="m", **item), COMPLETED) == [TextDelta("Hello"), Finish("stop")]
    twice = [TextDelta("Hello"), TextDelta("\n\nHello"), Finish("stop")]
    assert read(done(0, **item), done(0, **item), COMPLETED) == twice
    assert read(done(0, id="m", **item), done(0, id="n", **item), COMPLETED) == twice


NAMES = ("reasoning_summary_text", "reasoning_text", "output_text", "refusal", "function_call_arguments")
TYPES = ("reasoning", "message", "function_call", "web_search_call")
a_delta = st.builds(
    lambda name, index, part, said: {
        "type": f"response.{name}.delta",
        "output_index": index,
        "content_index": part,
        "summary_index": part,
        "delta": said,
    },
    st.sampled_from(NAMES),
    st.sampled_from((0, 1, None)),
    st.integers(0, 1),
    st.sampled_from(("a", " ", "", '{"b":')),
)
an_item = st.builds(
    lambda step, index, kind: {
        "type": f"response.output_item.{step}",
        "output_index": index,
        "item": {"type": kind, "name": "f", "call_id": f"c{index}"},
    },
    st.sampled_from(("added", "done")),
    st.sampled_from((0, 1, 2)),
    st.sampled_from(TYPES),
)


@given(st.lists(an_item | a_delta | a_delta.map(lambda one: (one, one, one)), max_size=12))
def test_a_delta_of_the_text_that_was_told_last_does_what_any_delta_does(drawn: list[Any]) -> None:
    flat = [one for each in drawn for one in (each if isinstance(each, tuple) else (each,))]
    given_events = [decode(json.dumps(one).encode()) for one in (*flat, COMPLETED)]
    one_by_one = [decode(json.dumps(one).encode()) for one in (*flat, COMPLETED)]
    for event in one_by_one:
        assert event is not None
        event.ragged = True  # such a delta is never taken as the continuation of a text
    assert ResponsesAssembler("r").feed(given_events) == ResponsesAssembler("r").feed(one_by_one)


@each_case(
    ("response", "end"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete"}, "length"),
        ({"status": "completed", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "completed", "incomplete_details": {"reason": None}}, "stop"),
        ({"status": "in_progress"}, "stop"),
        ({"status": "failed", "error": {"message": "out of memory"}}, "out of memory"),
        ({"status": "cancelled"}, "the model server cancelled its reply"),
    ],
)
def test_a_completed_event_does_not_hide_that_the_response_was_cut_or_failed(response: Json, end: str) -> None:
    last = read(text("Hel"), {"type": "response.completed", "response": response})[-1]
    assert isinstance(last, Finish | Failed)
    assert (last.reason if isinstance(last, Finish) else last.fault.message) == end


def test_deltas_stand_where_the_whole_text_differs() -> None:
    whole = {"type": "response.output_text.done", "output_index": 0, "text": "Other"}
    assert read(text("Hello"), whole, COMPLETED)[:-1] == [TextDelta("Hello")]


def test_items_without_an_index_are_told_apart_by_their_ids() -> None:
    events = read(
        added(None, type="reasoning", id="r"),
        {"type": "response.reasoning_text.delta", "delta": "Hm.", "item_id": "r"},
        added(None, type="message", id="m"),
        text("Hi", None, item_id="m"),
        {"type": "response.completed", "response": {"output": [{"type": "message", "id": "m2", "content": "Hi"}]}},
    )
    assert events[:-1] == [ReasoningDelta("Hm."), TextDelta("Hi")]


def test_the_second_kind_of_reasoning_in_an_item_is_not_told_again() -> None:
    events = read(
        {"type": "response.reasoning_summary_text.delta", "delta": "a", "output_index": 0, "summary_index": 0},
        {"type": "response.reasoning_text.delta", "delta": "a", "output_index": 0, "content_index": 0},
        {"type": "response.reasoning_summary_text.delta", "delta": "b", "output_index": 0, "summary_index": 1},
        COMPLETED,
    )
    assert events[:-1] == [ReasoningDelta("a"), ReasoningDelta("\n\nb")]


def test_encrypted_content_of_the_end_of_an_item_counts_and_stands_at_its_own_message() -> None:
    events = read(
        added(0, type="reasoning", id="r", encrypted_content="first"),
        {"type": "response.reasoning_summary_text.delta", "delta": "Hm.", "output_index": 0, "summary_index": 0},
        done(0, type="reasoning", id="r", summary=[{"text": "Hm."}], encrypted_content="last"),
        text("Hi", 1),
        COMPLETED,
    )
    messages, _ = read_messages(events)
    detail = {"type": "reasoning.encrypted", "data": "last", "id": "r", "format": "openai-responses-v1"}
    assert messages == [
        {"role": "assistant", "reasoning_content": "Hm.", "extra": {"reasoning_details": [detail]}},
        message("Hi"),
    ]


def test_an_opaque_item_between_two_calls_stands_at_the_second() -> None:
    events = read(
        done(0, type="function_call", call_id="a", name="f", arguments="{}"),
        done(1, type="program", code="x"),
        done(2, type="function_call", call_id="b", name="f", arguments="{}"),
        COMPLETED,
    )
    extras = [one["extra"] for one in read_messages(events)[0]]
    assert extras[0] == {"function_id": "a"}
    assert extras[1]["reasoning_details"][0]["item"] == {"type": "program", "code": "x"}


def test_two_calls_with_one_id_stay_two_calls() -> None:
    events = read(
        added(0, type="function_call", call_id="a", name="f"),
        added(1, type="function_call", call_id="a", name="f"),
        {"type": "response.function_call_arguments.delta", "delta": '{"x":1}', "output_index": 0},
        {"type": "response.function_call_arguments.delta", "delta": '{"x":2}', "output_index": 1},
        COMPLETED,
    )
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert [call.arguments for call in calls if call.arguments] == ['{"x":1}', '{"x":2}']
    ids = [call.id for call in calls if call.id]
    assert ids[0] == "a" and len(set(ids)) == 2
    assert get_end(events) == Finish("tool_calls")


def test_a_call_without_a_name_becomes_text_with_a_warning() -> None:
    events = read(done(0, type="function_call", call_id="a", arguments='{"x":1}'), COMPLETED)
    assert events[0] == TextDelta('{"x":1}')
    end = get_end(events)
    assert isinstance(end, Finish) and end.reason == "stop" and end.warnings and not end.cacheable


def test_the_phase_stands_at_a_message_from_its_first_text_on_and_white_space_begins_none() -> None:
    events = read(
        added(0, type="message", phase="commentary"),
        text(" ", 0),
        done(1, type="function_call", call_id="a", name="f", arguments="{}"),
        added(2, type="message", phase="final_answer"),
        text("Done.", 2),
        COMPLETED,
    )
    messages, _ = read_messages(events)
    assert messages[0]["extra"] == {"function_id": "a"}
    assert messages[1] == message("Done.") | {"extra": {"extra_content": {"openai": {"phase": "final_answer"}}}}


def test_a_failed_tool_of_the_server_does_not_fail_the_reply() -> None:
    failed = {"type": "response.mcp_call.failed", "output_index": 0}
    assert read(failed, text("Hi", 1), COMPLETED) == [TextDelta("Hi"), Finish("stop")]


@each_case(
    ("response", "reason", "native"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            "max_output_tokens",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
            "content_filter",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_tool_calls"}}, "length", "max_tool_calls"),
        ({"status": "incomplete"}, "length", None),
        ({"status": "completed"}, "stop", None),
    ],
)
def test_the_end_of_a_reply_has_a_reason(response: Json, reason: str, native: str | None) -> None:
    for events in (
        read(text("Hi"), {"type": f"response.{response['status']}", "response": response}),
        read_events([json.dumps(response | {"output": []}).encode()]),
    ):
        end = get_end(events)
        assert isinstance(end, Finish) and (end.reason, end.native_reason) == (reason, native)


@each_case(
    ("event", "code"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow."}, "rate_limit"),
        ({"type": "error", "error": {"code": "server_is_overloaded", "message": "Later."}}, "overloaded"),
        ({"type": "response.failed", "response": {"error": {"code": "slow_down", "message": "Later."}}}, "overloaded"),
        (
            {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "No."}}},
            "invalid_request",
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "error": {"code": "invalid_prompt", "message": "It was flagged as potentially violating."}
                },
            },
            "content_filter",
        ),
        (
            {"type": "response.failed", "response": {"error": {"code": "bio_policy", "message": "No."}}},
            "content_filter",
        ),
        (
            {"type": "response.failed", "response": {"error": {"code": "vector_store_timeout", "message": "."}}},
            "timeout",
        ),
        (
            {"type": "response.failed", "response": {"error": {"code": "invalid_image_url", "message": "."}}},
            "invalid_request",
        ),
        ({"type": "response.failed", "response": {"error": {"code": "new_one", "message": "."}}}, "server_error"),
        ({"type": "response.failed", "response": {"error": None}}, "server_error"),
        ({"type": "response.cancelled", "response": {}}, "upstream_incomplete"),
        ({"type": "", "detail": "Incorrect API key provided"}, "authentication"),
    ],
)
def test_a_failure_in_a_stream_has_the_kind_of_its_code(event: Json, code: str) -> None:
    end = get_end(read(text("Hi"), event, COMPLETED))
    assert isinstance(end, Failed) and end.fault.code == code and end.fault.status == 200


@each_case(
    ("body", "code"),
    [
        (b"", "upstream_incomplete"),
        (b'data: {"type":"response.created"}\n\n', "upstream_incomplete"),
        (b"data: [DONE]\n\n", "upstream_incomplete"),
        (b'{"object":"chat.completion","choices":[]}', "upstream_incomplete"),
        (b'{"output":[],"status":"in_progress"}', "upstream_protocol"),
        (b"<html><title>Hi</title></html>\n", "upstream_protocol"),
        (b'data: {"type"\n\n', "upstream_protocol"),
    ],
)
def test_what_is_no_whole_reply_is_a_typed_error(body: bytes, code: str) -> None:
    end = get_end(read_events([body]))
    assert isinstance(end, Failed) and end.fault.code == code


def test_half_a_surrogate_pair_waits_for_its_other_half() -> None:
    half = b'data: {"type":"response.output_text.delta","output_index":0,"delta":"%b"}\n\n'
    events = read_events([half % b"a\\ud83d", half % b"\\ude00", half % b"\\ud83d", write_stream(COMPLETED)])
    assert events[:-1] == [TextDelta("a"), TextDelta("\U0001f600"), TextDelta("\ufffd")]


def test_a_thought_of_the_whole_reply_comes_before_its_text() -> None:
    body = b'{"status":"completed","reasoning":"Hm.","output":[{"type":"message","content":"Hi"}]}'
    assert read_events([body])[:-1] == [ReasoningDelta("Hm."), TextDelta("Hi")]


def write_call(*deltas: str, whole: str = '{"a": 1}') -> list[Json]:
    call: Json = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f"}
    events: list[Json] = [added(0, **call, arguments="")]
    for delta in deltas:
        events.append({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": delta})
    return [*events, done(0, **call, arguments=whole), COMPLETED]


@each_case(
    "deltas",
    [
        ("gAAA", "Bx"),
        ("[xx",),
        ("{enc", "yy"),
        (" {", "gA"),
    ],
)
def test_deltas_that_cannot_begin_an_object_are_held_for_the_end_of_the_call(deltas: tuple[str, ...]) -> None:
    events = read(*write_call(*deltas))
    calls = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(calls) == '{"a": 1}'


def test_a_warning_says_that_the_end_of_a_call_has_other_arguments() -> None:
    end = read(*write_call('{"a": ', "9}"))[-1]
    assert isinstance(end, Finish)
    assert end.warnings == ("the arguments of a tool call differ from those that the model server sent at its end",)
    same = read(*write_call('{"a":', " 1}"))[-1]
    assert isinstance(same, Finish)
    assert not same.warnings
