"""Which messages `format: qwen` takes: what Qwen-Agent's own schema takes, but for the differences listed here.

The golden file is what the classes of qwen-agent 0.0.34 made of each input.
"""

from typing import Any

import pytest
from app.formats import FORMATS
from app.formats.base import Options, ParsedMessages

from tests.each_case import each_case
from tests.formats.qwen.recorded_schema import CASES, STRICTER

REFUSED_AT = {
    "missing_role": "role",
    "role_tool": "role",
    "role_case": "role",
    "int_content": "content",
    "dict_content": "content",
    "openai_part": "content[0]",
    "openai_image_part": "content[0]",
    "item_two": "content[0].image",
    "item_emptytext_image": "content[0].image",
    "item_none": "content[0]",
    "item_text_extra": "content[0].foo",
    "item_image_obj": "content[0].image",
    "item_audio_empty": "content[0].audio",
    "item_audio_list": "content[0].audio",
    "item_video_dict": "content[0].video",
    "name_int": "name",
    "fc_args_obj": "function_call.arguments",
    "fc_args_missing": "function_call.arguments",
    "fc_name_missing": "function_call.name",
    "extra_list": "extra",
    "reasoning_int": "reasoning_content",
}
"""Refused by both, and where."""


def decode(*messages: Any) -> ParsedMessages:
    """What comes of these messages behind a user's."""
    return FORMATS["qwen"].parse([{"role": "user", "content": "x"}, *messages], Options())


def places(*messages: Any) -> list[str]:
    return [violation.path for violation in decode(*messages).violations]


def call(name: str = "f", arguments: str = "{}", id_: str = "1") -> dict[str, Any]:
    called = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "function_call": called, "extra": {"function_id": id_}}


@each_case("case", CASES, ids=[case["name"] for case in CASES])
def test_a_message_is_taken_or_refused_as_qwen_agent_does_but_for_the_differences(case: dict[str, Any]) -> None:
    where = REFUSED_AT.get(case["name"])
    if case["name"] in STRICTER:
        where = STRICTER[case["name"]][0]
    assert places(case["input"])[:1] == ([] if where is None else [f"messages[1].{where}"])


def test_the_tables_say_what_qwen_agent_does() -> None:
    assert {case["name"] for case in CASES if case["ok"]} >= set(STRICTER)
    assert {case["name"] for case in CASES if not case["ok"]} == set(REFUSED_AT)


@each_case(
    ("item", "place"),
    [
        ({"text": "", "image": ""}, "image"),
        ({"image": ""}, "image"),
        ({"image": "/etc/passwd"}, "image"),
        ({"image": "file:///etc/passwd"}, "image"),
        ({"file": "C:\\secret.txt"}, "file"),
        ({"audio": "notes.wav"}, "audio"),
        ({"audio": {"data": "a.wav", "path": "x"}}, "audio"),
        ({"video": ["https://example.com/1.png", "2.png"]}, "video[1]"),
        ({"video": []}, "video"),
        ({"text": "a", "image": "https://example.com/a.png"}, ""),
        ({"text": None}, ""),
    ],
)
def test_an_item_that_cannot_be_sent_is_refused_at_its_key(item: dict[str, Any], place: str) -> None:
    where = "messages[1].content[1]" + (f".{place}" if place else "")
    assert places({"role": "user", "content": [{"text": "see"}, item]}) == [where]


@pytest.mark.parametrize(
    "item",
    [
        {"image": "https://example.com/a.png"},
        {"image": "DATA:image/png;base64,AAAA"},
        {"audio": {"data": "A" * 40, "format": "wav"}},
        {"video": ["https://example.com/1.png"]},
        {"video": "http://example.com/a.mp4", "text": None},
    ],
)
def test_urls_data_and_frames_are_taken(item: dict[str, Any]) -> None:
    assert places({"role": "user", "content": [item]}) == []


def test_every_violation_is_named_at_once_with_its_exact_place() -> None:
    assert places(
        {"role": "user", "content": [{"image": "a.png"}, {"foo": 1}]},
        {"role": "assistant", "content": 3, "function_call": {"name": " ", "arguments": {}}},
        {"role": "function", "content": "x"},
        {"role": "system", "content": "be"},
        {"role": "system", "content": "nice"},
    ) == [
        "messages[1].content[0].image",
        "messages[1].content[1].foo",
        "messages[2].content",
        "messages[2].function_call.name",
        "messages[2].function_call.arguments",
        "messages[3].name",
        "messages[5].role",
    ]


def test_nothing_is_held_against_what_follows_a_refused_message() -> None:
    refused = call() | {"content": 3}
    assert places(refused, {"role": "function", "content": "x", "extra": {"function_id": "1"}}) == [
        "messages[1].content"
    ]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, "role"),
        ({"role": "developer", "content": "x"}, "role"),
        ({"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}, "tool_calls"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "content[0]"),
    ],
)
def test_openais_form_is_refused_and_the_error_names_the_format_to_use(message: dict[str, Any], place: str) -> None:
    (violation,) = decode(message).violations
    assert violation.path == f"messages[1].{place}"
    assert violation.message.endswith('set "format": "openai" in the request')


def test_the_format_of_audio_is_a_text() -> None:
    audio = {"data": "https://a.test/x.wav", "format": 3}
    (found,) = FORMATS["qwen"].parse([{"role": "user", "content": [{"audio": audio}]}], Options()).violations
    assert (found.path, found.message) == ("messages[0].content[0].audio", "must have a string in the key format")
