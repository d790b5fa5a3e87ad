"""What a reply has beside text and calls of functions: told in a stream and in one piece alike."""

import base64
import json
from typing import Any

import pytest
from app.chat.events import Event, Extra, Failed, Finish, MediaOutput, TextDelta, ToolCallDelta

from tests.upstream.reply.assembled_events import events

Json = dict[str, Any]
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "
SOUND = f"data:audio/wav;base64,{base64.b64encode(WAV).decode()}"
CITED = [{"type": "url_citation", "url_citation": {"url": "https://example.com", "title": "t"}}]
SIGNED = {"google": {"thought_signature": "AbC="}}
PICTURE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def streamed(*deltas: Json, end: str = "stop") -> list[Event]:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
    return events(*(json.dumps(chunk).encode() for chunk in chunks), b"[DONE]")


def whole(message: Json, end: str = "stop") -> list[Event]:
    return events(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": end}]}).encode())


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_sound_is_one_data_uri_and_its_transcript_is_text() -> None:
    expected = [TextDelta("Hi"), MediaOutput("audio", SOUND, {"id": "a1", "transcript": "Hi"}), Finish("stop")]
    assert whole({"content": None, "audio": {"id": "a1", "data": b64(WAV), "transcript": "Hi"}}) == expected
    pieces = ({"id": "a1", "transcript": "Hi"}, {"data": b64(WAV[:4])}, {"data": b64(WAV[4:])})
    assert streamed(*({"audio": piece} for piece in pieces)) == expected


def test_sound_without_a_head_is_pcm_and_broken_sound_is_warned_of() -> None:
    _, made, _ = whole({"audio": {"data": b64(b"\x01\x02"), "transcript": "Hi"}})
    assert isinstance(made, MediaOutput)
    assert made.url == "data:audio/pcm;base64,AQI="
    [first, end] = whole({"audio": {"data": "?", "transcript": "Hi"}})
    assert first == TextDelta("Hi")
    assert isinstance(end, Finish)
    assert "not valid base64" in end.warnings[0]


@pytest.mark.parametrize("field", [{"annotations": CITED}, {"extra_content": SIGNED}])
def test_what_stands_beside_the_text_goes_with_its_message(field: Json) -> None:
    expected = [TextDelta("Hi"), Extra(field), Finish("stop")]
    assert whole({"content": "Hi", **field}) == expected
    assert streamed({"content": "Hi"}, field) == expected


def test_citations_of_the_whole_reply_are_emitted_once_at_its_end() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}}], "citations": ["https://a"]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "citations": ["https://a", "https://b"]}
    expected = events(json.dumps(chunk).encode(), json.dumps(chunk).encode(), json.dumps(end).encode(), b"[DONE]")
    assert expected == [
        TextDelta("a"),
        TextDelta("a"),
        Extra({"citations": ["https://a", "https://b"]}),
        Finish("stop"),
    ]


@pytest.mark.parametrize(
    "message", [{"content": "Hi", "images": [PICTURE]}, {"content": [{"type": "text", "text": "Hi"}, PICTURE]}]
)
def test_a_picture_is_carried_wherever_the_server_has_it(message: Json) -> None:
    expected = [TextDelta("Hi"), MediaOutput("image", PICTURE["image_url"]["url"]), Finish("stop")]
    assert whole(message) == streamed(message) == expected


def test_pictures_and_sound_of_a_closing_message_are_emitted_only_once() -> None:
    delta = {"content": "Hi", "images": [PICTURE], "annotations": CITED}
    chunks = [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "message": delta, "finish_reason": "stop"}]},
    ]
    expected = events(*(json.dumps(chunk).encode() for chunk in chunks), b"[DONE]")
    assert expected == streamed(delta)


@pytest.mark.parametrize("tell", [whole, streamed])
def test_a_part_that_nothing_carries_is_named_in_a_warning(tell: Any) -> None:
    found = tell({"content": [{"type": "text", "text": "Hi"}, {"type": "hologram", "data": "x"}]})
    assert found[0] == TextDelta("Hi")
    assert "'hologram'" in found[-1].warnings[0]


CUSTOM = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "grep", "input": "x"}}


@pytest.mark.parametrize("tell", [whole, streamed])
@pytest.mark.parametrize("call", [CUSTOM, {"index": 0, "id": "c1", "type": "mcp", "mcp": {}}])
def test_a_call_that_is_none_of_a_function_is_an_error_that_names_it(tell: Any, call: Json) -> None:
    [first, failed] = tell({"content": "Hi", "tool_calls": [call]}, end="tool_calls")
    assert first == TextDelta("Hi")
    assert isinstance(failed, Failed)
    assert (failed.fault.code, failed.fault.transient) == ("unsupported", False)
    assert call["type"] in failed.fault.message


ENDED = b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}'


@pytest.mark.parametrize(
    "late",
    [b'{"error":{"message":"disk full"}}', b'{"object":"error","message":"disk full"}'],
)
def test_an_error_behind_the_finish_reason_is_a_warning_and_the_reply_is_not_kept(late: bytes) -> None:
    first, end = events(ENDED, late, b"[DONE]")
    assert first == TextDelta("Hi")
    warning = "the model server sent an error after the end of its reply: disk full"
    assert end == Finish("stop", warnings=(warning,), cacheable=False)


def test_an_image_without_a_usable_address_is_left_out_with_a_warning() -> None:
    for wrong in ({"type": "image_url"}, {"type": "image_url", "image_url": {"url": "ftp://a.test/x"}}, "x", 3):
        found = whole({"content": "Hi", "images": [wrong, wrong, PICTURE]})
        assert [type(event) for event in found if isinstance(event, MediaOutput)] == [MediaOutput]
        end = found[-1]
        assert isinstance(end, Finish)
        expected = [text for event in found if isinstance(event, Extra) for text in event.fields.get("warnings", ())]
        assert [text for text in [*expected, *(end.warnings or ())] if "image" in text], wrong


def closed(deltas: list[Json], message: Json) -> list[Event]:
    """Deltas, and then the whole message again."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    last = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return events(*(json.dumps(chunk).encode() for chunk in [*chunks, last]), b"[DONE]")


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "Hm"},
        {"refusal": "No."},
        {"audio": {"id": "a", "data": base64.b64encode(WAV).decode(), "transcript": "Hi"}},
    ],
    ids=["a thought", "a refusal", "audio"],
)
def test_the_whole_message_does_not_repeat_what_deltas_brought(delta: Json) -> None:
    assert closed([delta], delta)[:-1] == closed([delta], {})[:-1]


def test_an_object_without_choices_may_bring_the_usage_alone() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    usage = {"object": "x", "x_groq": {"id": "r", "usage": {"total_tokens": 7}}}
    end = events(json.dumps(chunk).encode(), json.dumps(usage).encode(), b"[DONE]")[-1]
    assert isinstance(end, Finish)
    assert end.usage is not None and end.usage["total_tokens"] == 7


@pytest.mark.parametrize(("delta", "text"), [("Hi", "Hi"), ({"content": "Hi", "images": "x"}, "Hi")])
def test_a_delta_that_is_a_text_is_the_text(delta: Any, text: str) -> None:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    assert TextDelta(text) in events(json.dumps(chunk).encode(), b"[DONE]")


@pytest.mark.parametrize("index", [0.0, "0", True, 0])
def test_the_number_of_a_call_may_be_of_another_type(index: Any) -> None:
    call = {"index": index, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    (found,) = [one for one in streamed({"tool_calls": [call]}, end="tool_calls") if isinstance(one, ToolCallDelta)]
    assert (found.index, found.name) == (0, "f")


@pytest.mark.parametrize("arguments", ['"5"', '"[1]"', '"no JSON"', "5"])
def test_arguments_in_quotes_that_are_no_object_stay_as_they_are(arguments: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    found = [one for one in whole({"tool_calls": [call]}, "tool_calls") if isinstance(one, ToolCallDelta)]
    assert "".join(one.arguments for one in found) == arguments
