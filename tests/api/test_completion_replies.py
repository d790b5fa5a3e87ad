"""How `POST /v1/chat/completions` writes a reply: chunk by chunk, and as one completion."""

import json
from typing import Any

import pytest

from tests.api.completion_requests import (
    DONE,
    ENDED,
    THOUGHT_SAID_CALLED,
    TOOL,
    USAGE,
    Json,
    ask,
    called,
    event,
    frame,
    profiled,
    server_sending,
)
from tests.cuts import bytewise, random_cuts
from tests.in_process_gateway import Answer
from tests.interop.shapes import CHUNK_VALIDATOR, COMPLETION_VALIDATOR

DETAILS = [{"type": "reasoning.encrypted", "data": "e"}]
BROKEN = frame({"error": {"message": "out of memory", "type": "server_error"}})


def read_chunks(answer: Answer) -> list[Json]:
    """The chunks of a stream that ended well; each has the shape that SDKs expect and the same head."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    *lines, done = [line for line in answer.body.decode().split("\n\n") if line and not line.startswith(":")]
    assert done == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    for chunk in chunks:
        CHUNK_VALIDATOR.validate(chunk)
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    return chunks


def deltas(*pieces: bytes, **body: Any) -> list[Any]:
    """The delta of every chunk, and at last the reason why the reply ended."""
    chunks = read_chunks(ask(server_sending(*pieces), stream=True, **body))
    *middle, last = [choice for chunk in chunks for choice in chunk["choices"]]
    assert all(choice["finish_reason"] is None for choice in middle)
    assert last["delta"] == {}
    return [*(choice["delta"] for choice in middle), last["finish_reason"]]


def message(*pieces: bytes, settings: Json | None = None, **body: Any) -> Json:
    answer = ask(server_sending(*pieces), settings, **body)
    assert answer.status == 200, answer.body
    COMPLETION_VALIDATOR.validate(answer.json)
    found: Json = answer.json["choices"][0]["message"]
    return found


# -- a stream ----------------------------------------------------------


def test_a_stream_has_reasoning_text_and_calls_in_their_order() -> None:
    assert deltas(*THOUGHT_SAID_CALLED, tools=[TOOL]) == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Where "},
        {"reasoning_content": "is it?"},
        {"content": "Let me "},
        {"content": "look."},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        "tool_calls",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"include_usage": True}, True), ({"include_usage": False}, False), ({}, False), (None, False)],
)
def test_usage_comes_in_a_chunk_without_choices_and_only_where_it_was_requested(options: Any, expected: bool) -> None:
    chunks = read_chunks(ask(server_sending(event({"content": "Hi"}), ENDED), stream=True, stream_options=options))
    assert [chunk for chunk in chunks if not chunk["choices"]] == (chunks[-1:] if expected else [])
    assert [chunk.get("usage") for chunk in chunks] == [None] * (len(chunks) - expected) + [USAGE] * expected


def test_missing_usage_is_null() -> None:
    pieces = event({"content": "Hi"}) + event({}, "stop") + DONE
    answer = ask(server_sending(pieces), stream=True, stream_options={"include_usage": True})
    last = [line for line in answer.body.decode().split("\n\n") if line][-2]
    assert json.loads(last.removeprefix("data: "))["usage"] is None


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_the_finish_reason_is_passed_on(reason: str) -> None:
    pieces = event({"content": "Hi"}), event({}, reason), DONE
    assert deltas(*pieces)[-1] == reason
    assert ask(server_sending(*pieces)).json["choices"][0]["finish_reason"] == reason


def test_calls_end_a_reply_with_tool_calls_whatever_the_server_says() -> None:
    assert deltas(called(0, "c", "f", "{}"), event({}, "stop"), DONE)[-1] == "tool_calls"


def test_a_refusal_is_in_the_field_refusal() -> None:
    pieces = event({"refusal": "I must "}), event({"refusal": "not."}), ENDED
    assert deltas(*pieces)[1:] == [{"refusal": "I must "}, {"refusal": "not."}, "stop"]
    assert message(*pieces) == {"role": "assistant", "content": None, "refusal": "I must not."}


def test_fields_that_the_next_request_needs_are_passed_on() -> None:
    signed = called(0, "c", "f", "{}", extra_content={"google": {"thought_signature": "s"}})
    pieces = event({"reasoning": "Hm", "reasoning_details": DETAILS}), signed, ENDED
    streamed_ = deltas(*pieces)
    calls = [call for delta in streamed_[:-1] for call in delta.get("tool_calls", ())]
    assert [delta["reasoning_details"] for delta in streamed_[:-1] if "reasoning_details" in delta] == [DETAILS]
    assert [call["extra_content"] for call in calls if "extra_content" in call] == [
        {"google": {"thought_signature": "s"}}
    ]
    whole = message(*pieces)
    assert (whole["reasoning_content"], whole["reasoning_details"]) == ("Hm", DETAILS)
    assert whole["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}


def test_line_ends_of_other_alphabets_are_escaped() -> None:
    answer = ask(server_sending(event({"content": "a\u2028b\u0085c"}), ENDED), stream=True)
    assert "\u2028" not in answer.body.decode()
    assert read_chunks(answer)[1]["choices"][0]["delta"] == {"content": "a\u2028b\u0085c"}


def test_an_empty_reply_is_a_sound_stream_and_a_sound_completion() -> None:
    assert deltas(ENDED) == [{"role": "assistant", "content": ""}, "stop"]
    assert message(ENDED) == {"role": "assistant", "content": None, "refusal": None}


def test_thoughts_between_tags_become_reasoning() -> None:
    pieces = event({"content": "<think>Hm"}), event({"content": "m</think>Yes"}), ENDED
    found = deltas(*pieces)
    assert "".join(delta.get("reasoning_content", "") for delta in found[:-1]) == "Hmm"
    assert "".join(delta.get("content", "") for delta in found[:-1]) == "Yes"


def test_calls_in_text_become_calls_if_tools_were_prompted() -> None:
    text = 'Sure.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    pieces = [event({"content": text[at : at + 7]}) for at in range(0, len(text), 7)]
    whole = message(*pieces, ENDED, settings=profiled(native_tools=False), tools=[TOOL])
    (call,) = whole["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("f", {"a": 1})
    assert whole["content"].strip() == "Sure."


# -- one completion ----------------------------------------------------------


def test_a_whole_reply_is_one_message() -> None:
    answer = ask(server_sending(*THOUGHT_SAID_CALLED), tools=[TOOL])
    COMPLETION_VALIDATOR.validate(answer.json)
    assert answer.json["usage"] == USAGE
    assert answer.json["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "refusal": None,
                "reasoning_content": "Where is it?",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                ],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ]


def test_the_chunks_of_a_stream_add_up_to_the_whole_reply() -> None:
    found: Json = {"role": "assistant", "content": "", "refusal": None, "reasoning_content": "", "tool_calls": []}
    for delta in deltas(*THOUGHT_SAID_CALLED)[:-1]:
        found["content"] += delta.get("content", "")
        found["reasoning_content"] += delta.get("reasoning_content", "")
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                function = dict(call["function"])
                found["tool_calls"].append({"id": call["id"], "type": "function", "function": function})
            else:
                found["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    assert found == message(*THOUGHT_SAID_CALLED)


def test_any_cut_of_the_servers_bytes_gives_the_same_chunks() -> None:
    data = event({"reasoning_content": "é"}) + called(0, "c", "f", "{}") + event({}, "tool_calls") + DONE
    expected = deltas(data)
    for pieces in (bytewise(data), random_cuts(data, 1, 9), random_cuts(data, 2, 30)):
        assert deltas(*pieces) == expected


def test_warnings_are_in_the_body_beside_the_choices() -> None:
    settings, said = profiled(lacks=["top_k"]), event({"content": "Hi"})
    answer = ask(server_sending(said, ENDED), settings, top_k=5)
    assert answer.json["warnings"] == ["top_k was not sent: this model's server has no such parameter"]
    chunks = read_chunks(
        ask(server_sending(said, ENDED), settings, top_k=5, stream=True, stream_options={"include_usage": True})
    )
    assert [chunk.get("warnings") for chunk in chunks] == [None, None, answer.json["warnings"], None]
    assert "warnings" not in ask(server_sending(said, ENDED)).json


# -- what breaks ----------------------------------------------------------


def test_an_error_in_the_middle_is_an_event_with_an_error_and_nothing_follows() -> None:
    answer = ask(server_sending(event({"content": "Hel"}), BROKEN), stream=True, max_retries=0)
    *_, last = [line for line in answer.body.decode().split("\n\n") if line]
    error = json.loads(last.removeprefix("data: "))["error"]
    assert answer.status == 200
    assert (error["type"], error["code"], error["param"]) == ("server_error", "server_error", None)
    assert "out of memory" in error["message"]


def test_a_stream_that_just_stops_is_an_error() -> None:
    answer = ask(server_sending(event({"content": "Hel"})), stream=True, max_retries=0)
    assert b"[DONE]" not in answer.body
    assert b'"upstream_incomplete"' in answer.body


@pytest.mark.parametrize("pieces", [(BROKEN,), (event({"content": "Hel"}), BROKEN), (event({"content": "Hel"}),)])
def test_a_whole_reply_that_breaks_is_a_status(pieces: tuple[bytes, ...]) -> None:
    answer = ask(server_sending(*pieces), max_retries=0)
    assert (answer.status, answer.json["error"]["type"], "choices" in answer.json) == (502, "server_error", False)


def test_an_error_before_the_first_word_is_a_status_also_of_a_stream() -> None:
    answer = ask(server_sending(BROKEN), stream=True, max_retries=0)
    kind = answer.headers["content-type"].partition(";")[0]
    assert (answer.status, kind) in [(502, "application/json"), (200, "text/event-stream")]
    assert b'"server_error"' in answer.body
