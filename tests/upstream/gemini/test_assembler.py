"""Chunks of the Gemini API become events."""

import json
from typing import Any

from app.chat.events import Extra, Failed, Finish, MediaOutput, TextDelta, ToolCallDelta
from app.upstream.gemini.api import make_reader
from app.upstream.gemini.assembler import MAX_ITEMS
from app.upstream.reply.tool_calls import MAX_CALLS

from tests.each_case import each_case
from tests.upstream.gemini.replies import call, chunk, read, read_told, write_stream

Json = dict[str, Any]
SIGNED = {"thoughtSignature": "czE="}
GOOGLE = {"google": {"thought_signature": "czE="}}


def tell(*chunks: Json, size: int | None = None) -> Json:
    return read_told(read(write_stream(*chunks), size))


def tell_message(*parts: Json) -> Json:
    """Return the message of a reply with these parts, which is the same in one chunk or in one for each."""
    together = tell(chunk(*parts, end="STOP"))
    apart = tell(*[chunk(part) for part in parts], chunk(end="STOP"))
    assert together == apart
    message: Json = together["message"]
    return message


def test_a_signature_is_of_its_text_or_call() -> None:
    assert tell_message({"text": "a", **SIGNED}) == {"content": "a", "extra_content": GOOGLE}
    message = tell_message(call("f", {}, **SIGNED), call("g"))
    assert [one.get("extra_content") for one in message["tool_calls"]] == [GOOGLE, None]


def test_a_signature_on_an_empty_text_is_of_the_text_before() -> None:
    assert tell_message({"text": "a"}, {"text": "b"}, {"text": "", **SIGNED})["extra_content"] == GOOGLE
    assert tell_message({"text": "a"}, dict(SIGNED))["extra_content"] == GOOGLE


def test_a_signature_that_no_text_is_before_is_alone() -> None:
    assert tell_message({"text": "", **SIGNED}) == {"extra_content": GOOGLE}
    assert tell_message(call("f"), {"text": "", **SIGNED})["extra_content"] == GOOGLE


def test_a_signature_on_a_thought_is_of_what_follows() -> None:
    thought = {"text": "hm", "thought": True, **SIGNED}
    assert tell_message(thought, {"text": "a"}) == {
        "reasoning_content": "hm",
        "content": "a",
        "extra_content": GOOGLE,
    }
    assert tell_message(thought, call("f"))["tool_calls"][0]["extra_content"] == GOOGLE
    assert tell_message({"thought": True, "text": "", **SIGNED}, {"text": "a"})["extra_content"] == GOOGLE


def test_a_text_behind_a_signed_one_is_another_message() -> None:
    events = read(write_stream(chunk({"text": "a", **SIGNED}, {"text": "b"}, {"text": "", **SIGNED}, end="STOP")))
    texts = [(type(event), getattr(event, "text", None)) for event in events[:-1]]
    assert texts == [(TextDelta, "a"), (Extra, None), (Extra, None), (TextDelta, "b"), (Extra, None)]


def test_white_space_begins_no_text() -> None:
    assert tell_message({"text": "\n"}, {"text": "a", **SIGNED}) == {"content": "\na", "extra_content": GOOGLE}


def test_parts_that_only_the_server_can_read_are_details_at_their_place() -> None:
    code, output = {"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}
    events = read(write_stream(chunk({"text": "a"}, code, output, {"text": "b"}, code, end="STOP")))
    items = [event.fields["reasoning_details"] for event in events if isinstance(event, Extra)]
    assert [[detail["item"] for detail in details] for details in items] == [[code, output], [code]]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a", "b"]


def test_an_image_is_media_with_its_signature_and_other_data_are_details() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, **SIGNED}
    [media] = [event for event in read(write_stream(chunk(image, end="STOP"))) if isinstance(event, MediaOutput)]
    assert (media.media, media.url) == ("image", "data:image/png;base64,AAAA")
    assert media.fields == {"extra_content": GOOGLE}
    other = {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}}
    assert tell_message(other)["reasoning_details"][0]["item"] == other


def test_a_call_has_the_given_id_if_it_is_the_only_one_with_it() -> None:
    one, other = call("f"), call("g")
    one["functionCall"]["id"] = other["functionCall"]["id"] = "x"
    ids = [made["id"] for made in tell_message(one, other, call("h"))["tool_calls"]]
    assert ids[0] == "x" and len(set(ids)) == 3


@each_case(
    ("arguments", "told"),
    [
        ({"a": None, "b": 1.0}, '{"a":null,"b":1.0}'),
        ({}, "{}"),
        (None, "{}"),
        ([1], "[1]"),
        ('{"a":1}', '{"a":1}'),
        ({"a": 2**70}, '{"a":1180591620717411303424}'),
        ("text", '"text"'),
    ],
)
def test_arguments_are_compact_json(arguments: Any, told: str) -> None:
    [made] = tell_message(call("f", arguments))["tool_calls"]
    assert made["arguments"] == told


def test_a_call_without_a_name_becomes_text_with_a_warning() -> None:
    finish = read(write_stream(chunk({"functionCall": {"args": {"a": 1}}}, end="STOP")))[-1]
    assert isinstance(finish, Finish) and "no name" in finish.warnings[0] and not finish.cacheable
    assert tell_message({"functionCall": {}}, {"text": "a"}) == {"content": "a"}


def piece(path: str, text: str, *, more: bool = False) -> Json:
    argument: Json = {"jsonPath": path, "stringValue": text, **({"willContinue": True} if more else {})}
    return {"functionCall": {"partialArgs": [argument], "willContinue": True}}


OPEN: Json = {"functionCall": {"name": "f", "willContinue": True}}


@each_case("closing", [{"functionCall": {}}, {"text": "t"}, call("g"), None])
def test_arguments_in_pieces_are_told_whole_when_they_end(closing: Json | None) -> None:
    parts = [OPEN, piece("$.a", "x", more=True), piece("$.a", "y"), *([closing] if closing else [])]
    first = tell_message(*parts)["tool_calls"][0]
    assert (first["name"], json.loads(first["arguments"])) == ("f", {"a": "xy"})


def test_pieces_of_arguments_are_progress() -> None:
    reader, assembler = make_reader("r")
    for part in (OPEN, piece("$.a", "x")):
        assert assembler.feed(reader.feed(write_stream(chunk(part)))) == []
        assert assembler.check_progress()
    assert not assembler.check_progress()


def test_a_call_that_the_limit_of_tokens_has_cut_is_left_out() -> None:
    told = tell(chunk(OPEN, piece("$.a", "x", more=True), end="MAX_TOKENS"))
    assert told["message"] == {} and told["finish_reason"] == "length"


@each_case(
    "following", [{"text": "t"}, {"text": "t", "thought": True}, call("g"), {"executableCode": {}}, {"fileData": {}}]
)
def test_a_path_that_cannot_be_read_is_a_fault(following: Json) -> None:
    number = {"functionCall": {"partialArgs": [{"jsonPath": "a", "numberValue": 1}], "willContinue": True}}
    for bad in (piece("a", "x"), number):
        events = read(write_stream(chunk(OPEN, bad, following, end="STOP")))
        assert [type(event) for event in events] == [Failed]
    assert tell(chunk(OPEN, piece("a", "x"), end="STOP"))["error"] == "upstream_protocol"


@each_case(
    ("word", "reason", "native"),
    [
        ("STOP", "stop", "STOP"),
        (1, "stop", "STOP"),
        ("MAX_TOKENS", "length", "MAX_TOKENS"),
        (2, "length", "MAX_TOKENS"),
        ("SAFETY", "content_filter", "SAFETY"),
        (3, "content_filter", "SAFETY"),
        ("RECITATION", "content_filter", "RECITATION"),
        ("LANGUAGE", "content_filter", "LANGUAGE"),
        ("BLOCKLIST", "content_filter", "BLOCKLIST"),
        ("PROHIBITED_CONTENT", "content_filter", "PROHIBITED_CONTENT"),
        ("SPII", "content_filter", "SPII"),
        ("MODEL_ARMOR", "content_filter", "MODEL_ARMOR"),
        ("IMAGE_SAFETY", "content_filter", "IMAGE_SAFETY"),
        ("OTHER", "stop", "OTHER"),
        (12, "stop", "12"),
        ("NEW_WORD", "stop", "NEW_WORD"),
    ],
)
def test_a_finish_reason_is_told_with_the_servers_word(word: Any, reason: str, native: str) -> None:
    told = tell(chunk({"text": "a"}, end=word))
    assert (told["finish_reason"], told["native"]) == (reason, native)


@each_case(
    ("word", "code"),
    [
        ("MALFORMED_FUNCTION_CALL", "tool_use_failed"),
        ("UNEXPECTED_TOOL_CALL", "tool_use_failed"),
        ("TOO_MANY_TOOL_CALLS", "tool_use_failed"),
        ("MISSING_THOUGHT_SIGNATURE", "tool_use_failed"),
        ("MALFORMED_RESPONSE", "server_error"),
        ("NO_IMAGE", "server_error"),
        ("IMAGE_OTHER", "server_error"),
        ("OTHER", "server_error"),
        (5, "server_error"),
        ("FINISH_REASON_UNSPECIFIED", "upstream_incomplete"),
        (0, "upstream_incomplete"),
        (None, "upstream_incomplete"),
    ],
)
def test_a_finish_reason_that_means_a_failure_is_a_fault(word: Any, code: str) -> None:
    failed = read(write_stream(chunk(end=word, finishMessage="because")))[-1]
    assert isinstance(failed, Failed) and failed.fault.code == code
    assert ("because" in failed.fault.message) == (code != "upstream_incomplete")


def test_nothing_is_read_behind_the_end() -> None:
    reader, assembler = make_reader("r")
    failed = assembler.feed(reader.feed(b'data: {"error": {"message": "m"}}\n\ndata: {]\n\ndata: [DONE]\n\n'))
    assert [type(event) for event in failed] == [Failed]
    assert assembler.feed(reader.feed(write_stream(chunk({"text": "a"})))) == assembler.close() == []
    listed = json.dumps([{"error": {"message": "m"}}, chunk({"text": "a"}, end="STOP")]).encode()
    assert [type(event) for event in read(listed)] == [Failed]


def test_the_end_of_a_stream_in_words_says_nothing() -> None:
    assert read_told(read(write_stream(chunk({"text": "a"}, end="STOP")) + b"data: [DONE]\n\n"))["native"] == "STOP"


def test_the_last_finish_reason_counts() -> None:
    assert tell(chunk({"text": "a"}, end="STOP"), chunk({"text": "b"}, end="MAX_TOKENS"))["finish_reason"] == "length"


def test_what_stopped_a_reply_is_a_warning() -> None:
    finish = read(write_stream(chunk({"text": "a"}, end="SAFETY", finishMessage="no recipes")))[-1]
    assert isinstance(finish, Finish) and "no recipes" in finish.warnings[0]


def test_a_broken_body_is_a_fault_whatever_its_finish_reason() -> None:
    failed = read(write_stream(chunk({"text": "a"}, end="STOP")), broken=True)[-1]
    assert isinstance(failed, Failed) and failed.fault.code == "upstream_incomplete"


def test_a_refused_prompt_is_a_fault_that_says_why() -> None:
    feedback = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "not this"}}
    failed = read(write_stream(feedback))[-1]
    assert isinstance(failed, Failed) and failed.fault.code == "content_filter" and not failed.fault.transient
    assert failed.fault.message.endswith("SAFETY: not this")
    assert tell({"promptFeedback": {"blockReason": 4}})["error"] == "content_filter"
    assert tell({"promptFeedback": {"safetyRatings": []}})["error"] == "upstream_incomplete"


def test_an_error_behind_a_finish_reason_is_a_fault() -> None:
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    assert tell(chunk({"text": "a"}, end="STOP"), error) == {"before": {"content": "a"}, "error": "overloaded"}
    raw = write_stream(chunk({"text": "a"}, end="STOP")) + json.dumps(error, indent=1).encode()
    assert read_told(read(raw, 5))["error"] == "overloaded"


@each_case(
    ("data", "code"),
    [
        (b"", "upstream_incomplete"),
        (b"data: {}\n\n", "upstream_incomplete"),
        (b'data: {"choices": []}\n\n', "upstream_incomplete"),
        (b'data: {"message": "Internal server error"}\n\n', "server_error"),
        (b"event: error\ndata: overloaded\n\n", "overloaded"),
        (b"<html><title>x</title>", "upstream_protocol"),
        (b"data: {]\n\n", "upstream_protocol"),
        (b"data: [1]\n\n", "upstream_protocol"),
        (b"data: " + b"[" * 300 + b"]" * 300 + b"\n\n", "upstream_protocol"),
    ],
)
def test_what_is_no_reply_is_a_fault(data: bytes, code: str) -> None:
    failed = read(data)[-1]
    assert isinstance(failed, Failed) and failed.fault.code == code


def test_a_few_words_within_a_stream_are_left_out_with_a_warning() -> None:
    finish = read(b"data: keep alive\n\ndata: keep alive\n\n" + write_stream(chunk({"text": "a"}, end="STOP")))[-1]
    assert isinstance(finish, Finish) and "keep alive" in finish.warnings[0] and len(finish.warnings) == 1


def test_nothing_that_is_empty_or_of_another_candidate_counts() -> None:
    odd: list[Json] = [
        {"candidates": None},
        {"candidates": [None, {"content": None}, {"content": {"parts": None}}, {"content": {"parts": [None, {}]}}]},
        chunk({"text": "other"}, index=1),
        {"error": {}, "candidates": []},
    ]
    assert tell(*odd, chunk({"text": "a"}, end="STOP"))["message"] == {"content": "a"}


def test_a_reply_has_a_limit_of_parts() -> None:
    code = {"executableCode": {"code": "1"}}
    assert tell(chunk(*[code] * (MAX_ITEMS + 2), end="STOP"))["error"] == "upstream_protocol"
    events = read(write_stream(chunk(*[call("f")] * (MAX_CALLS + 5), {"text": "a"}, end="STOP")))
    assert isinstance(events[-1], Failed) and events[-1].fault.cause == "reply_too_large"
    assert sum(isinstance(event, ToolCallDelta) and bool(event.name) for event in events) <= MAX_CALLS + 1
    open_call = {"functionCall": {"name": "g", "willContinue": True}}
    assert tell(chunk(*[call("f")] * (MAX_CALLS + 1), open_call, end="STOP"))["error"] == "upstream_protocol"
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    for last in (image, {"text": "a"}):
        events = read(write_stream(chunk(*[call("f")] * (MAX_CALLS + 1), open_call, last, end="STOP")))
        assert isinstance(events[-1], Failed)
