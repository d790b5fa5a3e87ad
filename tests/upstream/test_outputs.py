"""What a reply has beside text and function calls: the same in a stream and in one body."""

import base64
import json
from random import Random
from typing import Any

import pytest
from app.chat.events import Event, Extra, Failed, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.linear_time import linear
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


words = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4)


@given(words, words, st.randoms(use_true_random=False))
def test_a_transcript_and_content_are_one_text_if_they_say_the_same(
    said: list[str], written: list[str], random: Random
) -> None:
    """However they are cut, and whichever comes first. What differs is kept."""
    spoken = "".join(said)
    for content in (list(spoken), written):
        deltas: list[Json] = [{"audio": {"transcript": text}} for text in said]
        places = sorted(random.choices(range(len(deltas) + 1), k=len(content)))
        for offset, (place, text) in enumerate(zip(places, content, strict=True)):
            deltas.insert(place + offset, {"content": text})
        found = "".join(event.text for event in streamed(*deltas) if isinstance(event, TextDelta))
        text = "".join(content)
        if text == spoken:
            assert found == spoken
        assert is_within(text, found)
        if "audio" in deltas[0] or not spoken.startswith(content[0]):
            assert is_within(spoken, found)


def is_within(part: str, text: str) -> bool:
    """Whether the characters of a part are in a text, in their order."""
    rest = iter(text)
    return all(character in rest for character in part)


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
    found = [one for one in streamed({"tool_calls": [call]}, end="tool_calls") if isinstance(one, ToolCallDelta)]
    assert [(one.index, one.name) for one in found if one.name] == [(0, "f")]


@pytest.mark.parametrize("arguments", ['"5"', '"[1]"', '"no JSON"', "5"])
def test_arguments_in_quotes_that_are_no_object_stay_as_they_are(arguments: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    found = [one for one in whole({"tool_calls": [call]}, "tool_calls") if isinstance(one, ToolCallDelta)]
    assert "".join(one.arguments for one in found) == arguments


def spoken(times: int, first: Json, *pieces: Json) -> object:
    return streamed(first, *pieces * times)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "pieces",
    [
        [{"content": "a" * 50}],
        [{"audio": {"transcript": "a" * 50}}],
        [{"audio": {"transcript": "a" * 50}}, {"content": "a" * 50}],
        [{"audio": {"transcript": "a"}}, {"content": "aa"}],
        [{"audio": {"transcript": "aa"}}, {"content": "a"}],
    ],
)
def test_a_flood_of_speech_takes_linear_time(pieces: list[Json]) -> None:
    assert linear(lambda times: spoken(times, {"audio": {"transcript": "a" * times}}, *pieces), 1000)
    assert linear(lambda times: spoken(times, {"content": "a" * times}, *pieces), 1000)


SIGNED_BLOCK = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
SEALED_BLOCK = {"type": "redacted_thinking", "data": "ZW5j"}
SIGNED_PART = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm.", "signature": "c2ln"}]}


@pytest.mark.parametrize("tell", [whole, streamed])
@pytest.mark.parametrize(
    ("fields", "blocks"),
    [
        ({"thinking_blocks": [SIGNED_BLOCK, SEALED_BLOCK]}, [SIGNED_BLOCK, SEALED_BLOCK]),
        ({"reasoning_content": "Hm.", "thinking_blocks": [SIGNED_BLOCK]}, [SIGNED_BLOCK]),
        ({"content": [SIGNED_PART]}, [SIGNED_PART]),
    ],
)
def test_signed_and_encrypted_reasoning_is_kept_as_the_server_wrote_it(tell: Any, fields: Json, blocks: Any) -> None:
    details = [{"type": "provider.field", "name": "thinking_blocks", "value": blocks, "format": "chat-completions-v1"}]
    assert tell(fields) == [ReasoningDelta("Hm."), Extra({"reasoning_details": details}), Finish("stop")]


@each_case(
    "last",
    [{"thinking": "", "signature": "s"}, {"thinking": "b.", "signature": "s"}, {"thinking": "ab.", "signature": "s"}],
)
def test_a_signed_block_has_all_of_the_text_that_it_signs(last: Json) -> None:
    texts = ["a", "b."] if last["thinking"] != "b." else ["a"]
    deltas: list[Json] = [
        {"reasoning_content": t, "thinking_blocks": [{"type": "thinking", "thinking": t}]} for t in texts
    ]
    end = {"reasoning_content": last["thinking"], "thinking_blocks": [{"type": "thinking", **last}]}
    *told, extra, _ = streamed(*deltas, end)
    assert "".join(event.text for event in told if isinstance(event, ReasoningDelta)) == "ab."
    assert isinstance(extra, Extra)
    assert extra.fields["reasoning_details"][0]["value"] == [{"type": "thinking", "thinking": "ab.", "signature": "s"}]


@pytest.mark.parametrize("tell", [whole, streamed])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tool_calls": "f()"}, "tool_calls that are a string"),
        ({"tool_calls": ["f"]}, "a tool call that is a string"),
        ({"tool_calls": [{"index": 0, "function": 5}]}, "a function that is a number"),
        ({"reasoning": True}, "reasoning that is true or false"),
        ({"reasoning_details": "x"}, "reasoning_details that is a string"),
        ({"thinking_blocks": 5}, "thinking_blocks that is a number"),
        ({"annotations": "x"}, "annotations that is a string"),
        ({"images": "x"}, "images that is a string"),
    ],
)
def test_what_cannot_be_read_is_named_in_a_warning(tell: Any, fields: Json, named: str) -> None:
    *told, end = tell({"content": "Hi", **fields})
    assert [event for event in told if isinstance(event, TextDelta)] == [TextDelta("Hi")]
    assert named in end.warnings[0]


@pytest.mark.parametrize(
    ("deltas", "named"),
    [
        ([5], "a delta that is a number"),
        ([[{"content": "Hi"}, {"content": "x"}]], "a delta that is a list of 2"),
    ],
)
def test_a_delta_that_cannot_be_read_is_named_in_a_warning(deltas: list[Any], named: str) -> None:
    assert named in streamed({"content": "Hi"}, *deltas)[-1].warnings[0]  # type: ignore[union-attr]


def test_an_announced_call_that_the_server_answers_does_not_end_the_reply_with_calls() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    other = {"index": 1, "id": "c2", "type": "function", "function": {"name": "g", "arguments": '{"a":1}'}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "found"}
    *told, end = streamed({"tool_calls": [call]}, result, {"content": "Hi"})
    assert told == [ToolCallDelta(0, '{"a":1}', "c1", "f"), TextDelta("Hi")]
    assert isinstance(end, Finish)
    assert end.reason == "stop" and "a tool of its own" in end.warnings[0]
    *_, end = streamed({"tool_calls": [call, other]}, result, {"content": "Hi"})
    assert isinstance(end, Finish)
    assert end.reason == "tool_calls"


def test_a_transcript_is_passed_on_after_content_that_differs_from_it() -> None:
    deltas: list[Json] = [{"audio": {"transcript": "Hi"}}, {"content": "Ho"}, {"audio": {"transcript": "!"}}]
    assert streamed(*deltas)[:3] == [TextDelta("Hi"), TextDelta("Ho"), TextDelta("!")]


def test_the_rest_of_a_transcript_follows_the_content_it_begins_with() -> None:
    found = whole({"content": "Hel", "audio": {"transcript": "Hello"}})
    assert "".join(event.text for event in found if isinstance(event, TextDelta)) == "Hello"
