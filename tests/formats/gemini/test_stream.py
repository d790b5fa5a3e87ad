"""A reply as chunks, as an array and as one object. The goldens have the usual ones."""

import json
from typing import Any

from app.chat.events import (
    CallEnd,
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    MediaOutput,
    ReasoningDelta,
    ServerCall,
    ServerResult,
    TextDelta,
    ToolCallDelta,
    TurnEnd,
)
from app.chat.messages import Text
from app.chat.server_tools import ServerToolsSummary
from app.formats.base import Options, ReplyInfo
from app.formats.gemini import GEMINI, GEMINI_ARRAY
from app.formats.gemini.signatures import Signature
from app.formats.gemini.stream import HEARTBEAT, write_usage
from app.formats.seal import Seal

from tests.each_case import each_case
from tests.formats.gemini.golden_cases import join_parts, read_events

Json = dict[str, Any]
OWN, OTHER = {"google": {"thought_signature": "czE="}}, {"google": {"thought_signature": "czI="}}
SHOWN, HIDDEN = Options(), Options(hide_thinking=True)
STOP = Finish("stop", {"prompt_tokens": 3, "completion_tokens": 2})


def make_info(options: Options = SHOWN) -> ReplyInfo:
    return ReplyInfo("chat-1", "req-1", "m", 1, options=options)


def stream(*events: Event, options: Options = SHOWN) -> list[Json]:
    encoder = GEMINI.reply_encoder(make_info(options), "delta")
    return read_events(encoder.open() + b"".join(encoder.feed([event]) for event in events))


def whole(*events: Event, options: Options = SHOWN) -> Json:
    found: Json = json.loads(GEMINI.reply_encoder(make_info(options), "whole").feed(list(events)))
    return found


def parts(*events: Event, options: Options = SHOWN) -> list[Json]:
    """The parts of a reply, which are the same in all forms."""
    chunks = stream(*events, options=options)
    encoder = GEMINI_ARRAY.reply_encoder(make_info(options), "delta")
    array = encoder.open() + b"".join(encoder.heartbeat() + encoder.feed([event]) for event in events)
    assert json.loads(array) == chunks
    found = join_parts(chunks)
    assert join_parts([whole(*events, options=options)]) == found
    return found


def call(index: int, id_: str, arguments: str = "{}", name: str = "f") -> list[Event]:
    return [ToolCallDelta(index, "", id_, name), *([ToolCallDelta(index, arguments)] if arguments else [])]


def seal_of(part: Json) -> Seal | None:
    return Signature(part["thoughtSignature"]).seal


def test_calls_are_sent_when_something_follows_them() -> None:
    found = parts(*call(0, "a"), *call(1, "b"), TextDelta("x"), *call(2, "c"), STOP)
    assert [part.get("text", part.get("functionCall", {}).get("id")) for part in found] == ["a", "b", "x", "c"]
    chunks = stream(*call(0, "a"), *call(1, "b"), TextDelta("x"), STOP)
    assert [len(chunk["candidates"][0]["content"].get("parts", ())) for chunk in chunks] == [2, 1, 1]


def test_each_chunk_of_a_reply_that_says_something_has_parts() -> None:
    for events in ([TextDelta("x")], [ReasoningDelta("A")], [TextDelta("x"), *call(0, "a", "[")], [*call(0, "a")]):
        chunks = stream(*events, STOP)
        assert all(chunk["candidates"][0]["content"]["parts"] for chunk in chunks)
    assert "parts" not in stream(STOP)[0]["candidates"][0]["content"]


def test_fields_that_come_after_their_call_was_sent_are_in_the_last_seal() -> None:
    for last in ([], call(1, "b")):
        chunks = stream(*call(0, "a"), TextDelta("x"), Extra({"extra_content": OWN}, 0), *last, STOP)
        found = seal_of(chunks[-1]["candidates"][0]["content"]["parts"][0])
        assert found is not None and found.calls == {"a": OWN}


def test_a_call_that_is_not_whole_waits_for_its_end() -> None:
    chunks = stream(ToolCallDelta(0, '{"a"', "a", "f"), TextDelta("x"), ToolCallDelta(0, ":1}"), STOP)
    assert [chunk["candidates"][0]["content"]["parts"][0].get("text") for chunk in chunks] == ["x", None]
    assert chunks[1]["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == {"a": 1}


def test_a_broken_call_takes_only_those_with_it_that_were_not_sent() -> None:
    found = whole(*call(0, "a"), TextDelta("x"), *call(1, "b"), *call(2, "c", "[1]", "g"), STOP)["candidates"][0]
    assert [[*part] for part in found["content"]["parts"]] == [["functionCall"], ["text"]]
    assert found["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert "g" in found["finishMessage"]


@each_case("reason", ["length", "content_filter"])
def test_a_reply_that_was_cut_off_leaves_out_only_the_broken_call(reason: Any) -> None:
    found = whole(*call(0, "a"), *call(1, "b", '{"x'), Finish(reason))["candidates"][0]
    assert [part["functionCall"]["id"] for part in found["content"]["parts"]] == ["a"]
    assert found["finishReason"] == {"length": "MAX_TOKENS", "content_filter": "SAFETY"}[reason]


def test_arguments_are_one_line() -> None:
    [part] = parts(*call(0, "a", '{\n "x":\r\n "\\n"}'), STOP)
    assert part["functionCall"]["args"] == {"x": "\n"}


def test_each_call_has_an_id_of_its_own() -> None:
    ids = [
        part["functionCall"]["id"] for part in parts(*call(0, "a"), *call(1, "a"), *call(2, ""), *call(3, "a"), STOP)
    ]
    assert ids[0] == "a"
    assert len(set(ids)) == 4
    assert all(ids)


def test_hidden_reasoning_rides_on_the_first_call_and_then_on_what_follows() -> None:
    called = [*call(0, "a"), *call(1, "b")]
    events: list[Event] = [ReasoningDelta("A"), *called, ReasoningDelta("B"), TextDelta("x"), STOP]
    first, second, last = parts(*events, options=HIDDEN)
    assert seal_of(first) == Seal("A")
    assert "thoughtSignature" not in second
    assert (last["text"], seal_of(last)) == ("x", Seal("B"))


def test_shown_reasoning_is_sealed_only_before_calls() -> None:
    assert parts(ReasoningDelta("A"), TextDelta("x"), STOP) == [{"text": "A", "thought": True}, {"text": "x"}]
    thought, called = parts(ReasoningDelta("A"), *call(0, "a"), STOP)
    assert thought == {"text": "A", "thought": True}
    assert seal_of(called) == Seal("A")


def test_reasoning_of_a_malformed_reply_is_kept() -> None:
    [part] = parts(ReasoningDelta("A"), *call(0, "a", "["), STOP, options=HIDDEN)
    assert (part["text"], seal_of(part)) == ("", Seal("A"))


def test_googles_signatures_stand_on_their_parts() -> None:
    events = [TextDelta("x"), Extra({"extra_content": OTHER}), *call(0, "a"), Extra({"extra_content": OWN}, 0)]
    events += [*call(1, "b"), Extra({"extra_content": OTHER}, 1)]
    found = parts(*events, STOP)
    assert [part.get("thoughtSignature") for part in found] == ["czI=", "czE=", "czI="]
    assert parts(TextDelta("x"), Extra({"extra_content": OWN}), STOP) == [{"text": "x", "thoughtSignature": "czE="}]


def test_with_more_to_keep_a_signature_is_in_the_seal() -> None:
    events: list[Event] = [ReasoningDelta("A"), TextDelta("x"), Extra({"extra_content": OWN})]
    [part] = parts(*events, STOP, options=HIDDEN)
    assert seal_of(part) == Seal("A", texts=[OWN])
    [called] = parts(ReasoningDelta("A"), *call(0, "a"), Extra({"extra_content": OWN}, 0), STOP, options=HIDDEN)
    assert seal_of(called) == Seal("A", calls={"a": OWN})


def test_other_fields_are_in_the_seal() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    events = [TextDelta("x"), Extra({"extra_content": {"phase": "p"}}), *call(0, "a"), *call(1, "b")]
    events += [Extra({"extra_content": {"v": 1}}, 1), Extra({"reasoning_details": details}, 0)]
    _, first, second = parts(*events, STOP)
    assert seal_of(first) == Seal(None, details, {"b": {"v": 1}}, [{"phase": "p"}])
    assert "thoughtSignature" not in second


def test_details_that_nothing_follows_are_kept() -> None:
    details = [{"data": "x"}]
    [part] = parts(Extra({"reasoning_details": details}), STOP)
    assert seal_of(part) == Seal(None, details)
    [called] = parts(*call(0, "a"), CallEnd(0), Extra({"reasoning_details": details}), STOP)
    assert seal_of(called) == Seal(None, details)


def test_media_are_parts() -> None:
    found = parts(
        MediaOutput("image", "data:image/png;base64,AAAA"),
        MediaOutput("audio", "data:;base64,AAAA"),
        MediaOutput("image", "https://h/a.png"),
        MediaOutput("image", "data:image/svg+xml,x"),
        STOP,
    )
    assert found == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        {"fileData": {"fileUri": "https://h/a.png"}},
        {"fileData": {"fileUri": "data:image/svg+xml,x"}},
    ]


def test_nothing_said_is_a_content_without_parts() -> None:
    assert whole(STOP)["candidates"] == [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}]


def test_calls_of_the_gateways_tools_are_not_shown() -> None:
    served: list[Event] = [ServerCall(0, "s", "t"), *call(0, "a", name="s-t"), CallEnd(0)]
    served += [TurnEnd("tool_calls"), ServerResult("a", "s-t", "s", "t", (Text("1"),), None, 0)]
    ending = Finish("tool_limit", server_tools=ServerToolsSummary((), ()))
    events = [TextDelta("x"), *served, TextDelta("y"), ending]
    assert [part["text"] for part in parts(*events)] == ["xy"]
    found = whole(*events)
    assert found["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert "server_tools" in found["parley"]


def test_what_has_no_place_is_beside_the_usage() -> None:
    events: list[Event] = [
        TextDelta("x"),
        Extra({"citations": ["u"]}),
        MediaOutput("audio", "data:;base64,AA", {"id": "a1"}),
    ]
    events += [Extra({"search_results": [1]}), Finish("stop", {"cost": 0.5}, warnings=("beware",))]
    assert whole(*events)["parley"] == {
        "warnings": ["beware"],
        "cost": 0.5,
        "media": [{"type": "audio", "id": "a1"}],
        "citations": ["u"],
        "search_results": [1],
    }


@each_case(
    ("usage", "written"),
    [
        (None, (0, None, 0, None, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 3, "reasoning_tokens": 2, "cached_tokens": 4}, (5, 4, 1, 2, 8)),
        (
            {"prompt_tokens": 5, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 9}},
            (5, None, 0, 3, 8),
        ),
        ({"prompt_tokens": True, "completion_tokens": -1}, (0, None, 0, None, 0)),
    ],
)
def test_the_total_is_the_sum(usage: Json | None, written: tuple[int | None, ...]) -> None:
    found = write_usage(Finish("stop", usage))
    names = (
        "promptTokenCount",
        "cachedContentTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "totalTokenCount",
    )
    assert tuple(found.get(name) for name in names) == written


def test_a_failure_is_the_last_chunk_and_the_array_stays_json() -> None:
    failed = Failed(Fault("overloaded", "busy", transient=True))
    *before, last = stream(TextDelta("x"), *call(0, "a"), failed)
    assert join_parts(before) == [{"text": "x"}]
    assert last["error"]["status"] == "UNAVAILABLE"
    encoder = GEMINI_ARRAY.reply_encoder(make_info(), "delta")
    assert [*json.loads(encoder.open() + encoder.feed([failed]))[0]] == ["error"]
    error = {"code": "timeout", "message": "late", "status": 504, "retryable": True, "request_id": "r", "param": None}
    assert json.loads(GEMINI.reply_encoder(make_info(), "whole").fail(error))["error"]["code"] == 504
    assert read_events(GEMINI.reply_encoder(make_info(), "delta").fail(error))[0]["error"]["code"] == 504


def test_a_heartbeat_is_a_blank_line() -> None:
    assert GEMINI.reply_encoder(make_info(), "delta").heartbeat() == HEARTBEAT == GEMINI.heartbeat == b"\r\n"
    assert GEMINI_ARRAY.reply_encoder(make_info(), "whole").open() == b""
