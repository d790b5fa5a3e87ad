"""The message module as AgentScope's documents describe it: each block with its required keys."""

import pytest
from app.formats.agentscope.v1 import AGENTSCOPE

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, decoded, msg, refused

BASE64 = {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}
URL = {"type": "url", "url": "https://example.com/a.png"}
DOCUMENTED: dict[str, Json] = {
    "TextBlock": {"type": "text", "text": "t"},
    "ThinkingBlock": {"type": "thinking", "thinking": "t"},
    "ImageBlock": {"type": "image", "source": BASE64},
    "AudioBlock": {"type": "audio", "source": {**BASE64, "media_type": "audio/mpeg"}},
    "VideoBlock": {"type": "video", "source": {"type": "url", "url": "https://example.com/a.mp4"}},
    "ToolUseBlock": {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
    "ToolResultBlock": {"type": "tool_result", "id": "1", "name": "f", "output": "ok"},
    "ToolResultBlock of blocks": {
        "type": "tool_result",
        "id": "1",
        "name": "f",
        "output": [
            {"type": "text", "text": "t"},
            {"type": "image", "source": URL},
            {"type": "audio", "source": {**BASE64, "media_type": "audio/wav"}},
            {"type": "video", "source": {"type": "url", "url": "https://example.com/a.mp4"}},
        ],
    },
}
LENIENT = {
    ("ToolUseBlock", "id"): "an id that is missing is made from what it names",
    ("ToolResultBlock", "id"): "a result without an id answers the first open call of its name",
    ("ToolResultBlock", "name"): "the name stands on the call",
    ("ToolResultBlock of blocks", "id"): "as above",
    ("ToolResultBlock of blocks", "name"): "as above",
}
"""Keys that the document requires and this gateway does without, since nothing is lost."""
REQUIRED = [(name, key) for name, block in DOCUMENTED.items() for key in block]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_block_of_the_document_is_accepted(name: str) -> None:
    assert decoded(AGENTSCOPE, msg([DOCUMENTED[name]]))


@each_case(("name", "key"), REQUIRED)
def test_a_block_without_a_required_key_is_refused_with_its_place(name: str, key: str) -> None:
    block = {field: value for field, value in DOCUMENTED[name].items() if field != key}
    found = refused(AGENTSCOPE, msg("before"), msg([block]))
    if (name, key) in LENIENT:
        assert not found
    else:
        assert found
        assert all(path.startswith("messages[1].content[0]") for path, _ in found)


@pytest.mark.parametrize("key", ["type", "media_type", "data"])
def test_a_source_without_a_required_key_is_refused(key: str) -> None:
    source = {field: value for field, value in BASE64.items() if field != key}
    ((path, _),) = refused(AGENTSCOPE, msg([{"type": "image", "source": source}]))
    assert path.startswith("messages[0].content[0].source")


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_the_three_roles_are_accepted(role: str) -> None:
    assert decoded(AGENTSCOPE, msg("hi", role))[0].role == role


@pytest.mark.parametrize("key", ["name", "role", "content"])
def test_the_arguments_of_a_message_are_required(key: str) -> None:
    item = {field: value for field, value in msg("hi").items() if field != key}
    assert [path for path, _ in refused(AGENTSCOPE, item)] == [f"messages[0].{key}"]


def test_the_optional_arguments_may_be_null_or_left_out() -> None:
    full = msg("hi", metadata={"answer": {"a": [1]}}, timestamp="2026-01-01 00:00:00.001", invocation_id="i")
    bare = msg("hi", metadata=None, timestamp=None, invocation_id=None)
    assert [one.parts for one in decoded(AGENTSCOPE, full, bare, msg("hi"))] == [decoded(AGENTSCOPE, full)[0].parts] * 3
