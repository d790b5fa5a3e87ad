"""What each format makes of sound, pictures, citations, signatures and warnings of a reply."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from app.chat.events import Event, Extra, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.formats import FORMATS
from app.formats.base import Options, ReplyInfo, ReplyMode

from tests.each_case import each_case

Json = dict[str, Any]
URL = "data:audio/wav;base64,UklGRg=="
PNG = "data:image/png;base64,iVBORw0KGgo="
CITED = [{"type": "url_citation", "url_citation": {"url": "https://example.com"}}]
SIGNED = {"google": {"thought_signature": "AbC="}}
EVENTS: list[Event] = [
    TextDelta("Hi"),
    Extra({"annotations": CITED, "extra_content": SIGNED}),
    MediaOutput("audio", URL, {"id": "a1", "transcript": "Hi"}),
    MediaOutput("image", PNG),
    Finish("stop", warnings=("beware",)),
]
WAYS: list[tuple[str, ReplyMode, Json]] = [
    ("qwen", "delta", {}),
    ("qwen", "snapshot", {}),
    ("openai", "delta", {}),
    ("agentscope", "delta", {}),
    ("agentscope2", "delta", {}),
    ("autogen", "delta", {}),
    ("autogen", "delta", {"autogen_stream": "compat"}),
    ("autogen", "delta", {"autogen_stream": "model"}),
    *((name, "whole", {}) for name in FORMATS),
    ("autogen", "whole", {"autogen_stream": "compat"}),
    ("autogen", "whole", {"autogen_stream": "model"}),
]  # fmt: skip


CALLED: list[Event] = [
    ReasoningDelta("Hm"),
    Extra({"reasoning_details": [{"data": "sealed"}]}),
    TextDelta("Look"),
    Extra({"annotations": CITED}),
    ToolCallDelta(0, "{}", "c1", "f"),
    Extra({"extra_content": SIGNED}, 0),
    ToolCallDelta(1, "{}", "c2", "g"),
    MediaOutput("audio", URL, {"id": "a1"}),
    Finish("tool_calls"),
]


def encode_reply(name: str, mode: ReplyMode, events: Sequence[Event] = EVENTS, **options: Any) -> str:
    info = ReplyInfo("chat-1", "req-1", "m", 1, warnings=["first"], options=Options(**options))
    encoder = FORMATS[name].reply_encoder(info, mode)
    return (encoder.open() + b"".join(encoder.feed([event]) for event in events)).decode()


def frames(text: str) -> list[Json]:
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {"))
    return [json.loads(line) for line in lines]


@each_case(("name", "mode", "options"), WAYS)
def test_every_format_carries_them(name: str, mode: ReplyMode, options: Json) -> None:
    text = encode_reply(name, mode, **options)
    for carried in ("UklGRg==", "iVBORw0KGgo=", "a1", "first", "beware", "https://example.com", "AbC="):
        assert carried in text, carried


def test_qwen_has_sound_and_pictures_as_content_items() -> None:
    body = json.loads(encode_reply("qwen", "whole"))
    assert body["messages"] == [
        {"role": "assistant", "content": "Hi", "extra": {"annotations": CITED, "extra_content": SIGNED}},
        {"role": "assistant", "content": [{"audio": URL}], "extra": {"id": "a1", "transcript": "Hi"}},
        {"role": "assistant", "content": [{"image": PNG}]},
    ]
    completed = [
        frame["message"] for frame in frames(encode_reply("qwen", "delta")) if frame["type"] == "message.completed"
    ]
    assert completed == body["messages"]
    assert body["warnings"] == ["first", "beware"]


def test_openai_has_sound_as_its_own_and_pictures_as_relays_have_them() -> None:
    [choice] = json.loads(encode_reply("openai", "whole"))["choices"]
    beside = {
        "annotations": CITED,
        "extra_content": SIGNED,
        "audio": {"id": "a1", "transcript": "Hi", "data": "UklGRg=="},
        "images": [{"type": "image_url", "image_url": {"url": PNG}}],
    }
    assert choice["message"] == {"role": "assistant", "content": "Hi", "refusal": None, **beside}
    deltas = [frame["choices"][0]["delta"] for frame in frames(encode_reply("openai", "delta")) if frame["choices"]]
    streamed: Json = {}
    for delta in deltas:
        streamed |= {key: value for key, value in delta.items() if key in beside}
    assert streamed == beside


def test_agentscope_has_them_as_blocks() -> None:
    blocks = json.loads(encode_reply("agentscope", "whole"))["msg"]["content"]
    assert [block["type"] for block in blocks] == ["text", "audio", "image"]
    blocks = json.loads(encode_reply("agentscope2", "whole"))["msg"]["content"]
    assert [block["type"] for block in blocks] == ["text", "data", "data"]
    starts = [frame["type"] for frame in frames(encode_reply("agentscope2", "delta")) if "DATA" in frame["type"]]
    assert starts == ["DATA_BLOCK_START", "DATA_BLOCK_DELTA", "DATA_BLOCK_END"] * 2


@pytest.mark.parametrize("mode", ["delta", "whole"])
@pytest.mark.parametrize("stream", ["interleaved", "compat", "model"])
def test_autogen_carries_the_fields_of_thinking_texts_and_calls(stream: str, mode: ReplyMode) -> None:
    text = encode_reply("autogen", mode, CALLED, autogen_stream=stream)
    for carried in ("sealed", "https://example.com", "AbC=", "UklGRg=="):
        assert carried in text, carried


def test_autogens_result_of_a_model_client_has_them_in_fields_that_its_client_ignores() -> None:
    body = json.loads(encode_reply("autogen", "whole", CALLED, autogen_stream="model"))
    assert body["extra"] == {
        "reasoning_details": [{"data": "sealed"}],
        "annotations": CITED,
        "media": [{"type": "audio", "url": URL, "id": "a1"}],
        "calls": {"c1": {"extra_content": SIGNED}},
    }
    assert body["warnings"] == ["first"]


@each_case("mode", ["delta", "whole"])
def test_openai_and_responses_have_a_citation_of_the_other_api_in_their_own_form(mode: ReplyMode) -> None:
    flat = {"type": "url_citation", "url": "https://example.com"}
    both = [flat | CITED[0]]
    for name, given, told in (("openai", [flat], both), ("responses", CITED, [flat])):
        text = encode_reply(name, mode, [TextDelta("Hi"), Extra({"annotations": given}), Finish("stop")])
        assert '"annotations":' + json.dumps(told, separators=(",", ":")) in text
