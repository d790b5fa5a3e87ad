"""A conversation as the contents of the Gemini API."""

from typing import Any

import msgspec
import pytest
from app.chat.messages import Beginning, ChatRequest, Media, Message, Reasoning, Text, ToolCall
from app.errors import InvalidInput
from app.upstream.gemini.conversation import write_beginning

from tests.each_case import each_case
from tests.upstream.gemini.requests import PROFILE, Q, assistant, list_contents, result, send

GOOGLE = {"extra_content": {"google": {"thought_signature": "czE="}}}
SKIP = "skip_thought_signature_validator"


def test_results_are_one_content_in_the_order_of_the_calls() -> None:
    calls = assistant(ToolCall("f", "{}", "1"), ToolCall("g", '{"a":1.0}', "2"))
    contents = list_contents(Q, calls, result("2"), result("1", is_error=True), Message("user", (Text("on"),)))
    assert contents[1:] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": SKIP},
                {"functionCall": {"id": "2", "name": "g", "args": {"a": 1.0}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "1", "name": "f", "response": {"error": "r"}}},
                {"functionResponse": {"id": "2", "name": "g", "response": {"result": "r"}}},
                {"text": "on"},
            ],
        },
    ]


def test_a_result_that_is_an_object_is_the_response_itself() -> None:
    contents = list_contents(Q, assistant(ToolCall("f", "{}", "1")), result("1", Text('{"b": 1, "a": 2}')))
    assert list(contents[2]["parts"][0]["functionResponse"]["response"].items()) == [("b", 1), ("a", 2)]


def test_a_schema_in_a_result_is_sent_as_text() -> None:
    schema = '{"a": {"$ref": "#/$defs/A"}}'
    contents = list_contents(Q, assistant(ToolCall("f", "{}", "1")), result("1", Text(schema)))
    assert contents[2]["parts"][0]["functionResponse"]["response"] == {"result": schema}


def test_images_of_a_result_stand_in_it_or_follow_it() -> None:
    image = Media("image", ("data:image/png;base64,AAAA",))
    messages = Q, assistant(ToolCall("f", "{}", "1")), result("1", Text("see"), image)
    data = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    parts = list_contents(*messages)[2]["parts"]
    assert parts[0]["functionResponse"]["response"] == {"result": "see\n[image 1: see below]"}
    assert parts[1:] == [{"text": "[image 1]"}, data]
    inside = list_contents(*messages, change={"tool_media": True})[2]["parts"]
    assert [part["functionResponse"]["parts"] for part in inside] == [[data]]


def test_a_signature_stands_on_its_own_text_or_call() -> None:
    texts = assistant(Text("a"), Text("b"), **GOOGLE)
    assert list_contents(Q, texts)[1]["parts"] == [{"text": "a"}, {"text": "b", "thoughtSignature": "czE="}]
    signed = assistant(ToolCall("f", "{}", "1", extra=GOOGLE), ToolCall("g", "{}", "2"))
    parts = list_contents(Q, signed, result("1"), result("2"))[1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["czE=", None]


def test_a_signature_without_a_text_stands_on_an_empty_one() -> None:
    parts = list_contents(Q, assistant(Reasoning("hm"), **GOOGLE))[1]["parts"]
    assert parts == [{"text": "", "thoughtSignature": "czE="}]


@each_case("signature", ["parley1.abc", "no base64!", "", 7])
def test_what_google_has_not_signed_is_not_sent(signature: Any) -> None:
    extra = {"extra_content": {"google": {"thought_signature": signature}}}
    assert list_contents(Q, assistant(Text("a"), **extra))[1]["parts"] == [{"text": "a"}]


def test_without_replay_no_signature_is_sent() -> None:
    signed = assistant(ToolCall("f", "{}", "1", extra=GOOGLE))
    change = {"replay_extra_content": False, "missing_signature": None}
    assert "thoughtSignature" not in list_contents(Q, signed, result("1"), change=change)[1]["parts"][0]


def test_each_content_has_a_signed_first_call() -> None:
    history = [Q]
    for id_ in "123":
        history += [assistant(Text("t"), ToolCall("f", "{}", id_)), result(id_)]
    signed = [part for one in list_contents(*history) for part in one["parts"] if "thoughtSignature" in part]
    assert [part["functionCall"]["id"] for part in signed] == ["1", "2", "3"]


@each_case(
    "item",
    [
        {"functionCall": {"name": "f"}},
        {"fileData": {"fileUri": "gs://x"}},
        {"text": "x", "executableCode": {}},
        {"toolResponse": {"image_url": "http://10.0.0.1"}},
        {},
        "x",
    ],
)
def test_a_detail_smuggles_in_no_other_part(item: Any) -> None:
    details = [{"type": "provider.item", "format": "google-gemini-v1", "item": item}]
    body, warnings = send(Q, assistant(Text("a"), reasoning_details=details))
    assert body["contents"][1]["parts"] == [{"text": "a"}]
    assert len(warnings) == 1


@each_case("item", ["x", {"type": "reasoning.text"}, {"type": "provider.item", "item": {"a": 1}, "format": "other"}])
def test_details_of_other_servers_are_left_out(item: Any) -> None:
    body, warnings = send(Q, assistant(Text("a"), reasoning_details=[item]))
    assert body["contents"][1]["parts"] == [{"text": "a"}] and not warnings


def test_parts_of_the_server_return_before_the_text_that_followed_them() -> None:
    code = {"executableCode": {"code": "1"}, "thoughtSignature": "czE="}
    details = [{"type": "provider.item", "format": "google-gemini-v1", "item": code}]
    assert list_contents(Q, assistant(Text("a"), reasoning_details=details))[1]["parts"] == [code, {"text": "a"}]


@each_case("arguments", ["", " ", "null", "[]", '""'])
def test_arguments_that_say_nothing_are_an_empty_object(arguments: str) -> None:
    contents = list_contents(Q, assistant(ToolCall("f", arguments, "1")), result("1"))
    assert contents[1]["parts"][0]["functionCall"]["args"] == {}


def test_without_ids_calls_and_results_have_none() -> None:
    contents = list_contents(Q, assistant(ToolCall("f", "{}", "1")), result("1"), change={"call_ids": "none"})
    assert b'"id"' not in msgspec.json.encode(contents)


def test_a_conversation_that_the_model_begins_gets_a_text_of_the_user() -> None:
    body, warnings = send(assistant(Text("a")), Q)
    assert [part["text"] for content in body["contents"] for part in content["parts"]] == [".", "a", "Q"]
    assert len(warnings) == 1


def test_a_system_message_alone_is_the_users() -> None:
    body, _ = send(Message("system", (Text("a"),)), Message("system", (Text("b"), Text(" "))))
    assert body == {**body, "contents": [{"role": "user", "parts": [{"text": "a\nb"}]}]}
    assert "systemInstruction" not in body


SYSTEM = Message("system", (Text("s"),))
CALLED = (assistant(ToolCall("f", "{}", "1")), result("1"))


def test_the_beginning_of_a_conversation_is_written_as_a_part_of_the_whole() -> None:
    begun = write_beginning(ChatRequest("m", (SYSTEM, Q, *CALLED)), PROFILE)
    assert begun is not None and begun.state == "s"
    written = msgspec.json.encode(begun.messages)[1:-1]
    before = Beginning((SYSTEM, Q, *CALLED), begun.calls, written, (), begun.state)
    rest = (assistant(Text("a")), Q)
    assert send(*rest, before=before)[0] == send(SYSTEM, Q, *CALLED, *rest)[0]


@each_case(
    "messages",
    [
        (Q, assistant(ToolCall("f", "{}", "1"))),
        (Q, assistant(Text("a"))),
        (assistant(Text("a")), Q),
        (Q, assistant(ToolCall("f", "[1", "1")), result("1")),
        (SYSTEM,),
    ],
)
def test_a_beginning_that_others_could_change_is_not_written(messages: tuple[Message, ...]) -> None:
    assert write_beginning(ChatRequest("m", messages), PROFILE) is None


def test_arguments_that_are_no_object_are_wrapped() -> None:
    body, warnings = send(Q, assistant(ToolCall("f", "[1", "1")), result("1"))
    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"_raw": "[1"}
    assert "sent as _raw" in warnings[0]


def test_a_later_system_message_is_a_text_of_the_user() -> None:
    body, _ = send(Message("system", (Text("s"),)), Q, assistant(Text("a")), Message("system", (Text("later"),)))
    assert body["systemInstruction"] == {"parts": [{"text": "s"}]}
    assert body["contents"][-1] == {"role": "user", "parts": [{"text": "later"}]}


def test_a_conversation_without_content_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no message has content"):
        send(Message("user", ()))


def test_calls_and_results_must_be_pairs() -> None:
    with pytest.raises(InvalidInput, match="has no result"):
        send(Q, assistant(ToolCall("f", "{}", "1")))
