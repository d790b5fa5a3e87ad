"""Every class of every version is accepted, and comes back as it was."""

import json
from typing import Any

import pytest

from tests.each_case import each_case
from tests.formats.autogen.recorded_cases import GOLDENS, read, refused, text, written

DUMPS = json.loads((GOLDENS / "autogen" / "classes.json").read_text("utf-8"))
HELLO = text("user", "hello")


@each_case(("version", "place"), [(version, place) for version, dumps in DUMPS.items() for place in range(len(dumps))])
@each_case("agent", [None, "assistant", "nobody"])
def test_every_dump_is_accepted_and_comes_back_equal(version: str, place: int, agent: str | None) -> None:
    dump = DUMPS[version][place]
    for items in ([HELLO, dump], [dump, HELLO], [HELLO, dump, dump, HELLO]):
        assert written(read(items, agent), agent) == items


@pytest.mark.parametrize("version", DUMPS)
def test_all_dumps_of_a_version_in_one_list_come_back_equal(version: str) -> None:
    assert written(read(DUMPS[version])) == DUMPS[version]


OLD = [
    ({"type": "ToolCallSummaryMessage", "source": "a", "content": "x"}, "no tool_calls and results before 0.6.1"),
    ({"type": "HandoffMessage", "source": "a", "content": "x", "target": "b"}, "no context before 0.4.3"),
    ({"type": "CodeGenerationEvent", "source": "a", "content": "x"}, "no code_blocks, no retry_attempt"),
    ({"type": "CodeExecutionEvent", "source": "a", "result": {"exit_code": 0, "output": ""}}, "no retry_attempt"),
    (text("u", "x", id=None), "an id that is null"),
    (text("u", "x", metadata=None), "metadata that are null"),
    (text("u", "x", created_at=1760000000), "seconds as a time"),
    (text("u", "x", created_at="2026-01-02T03:04:05.123456"), "a time without zone"),
    (text("u", "x", models_usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}), "more usage"),
]


@pytest.mark.parametrize(("item", "why"), OLD, ids=[why for _, why in OLD])
def test_what_other_versions_write_is_accepted(item: dict[str, Any], why: str) -> None:
    assert written(read([HELLO, item])) == [HELLO, item]


WRONG: list[tuple[Any, str]] = [
    ({"type": "Nonsense", "source": "a", "content": "x"}, ".type"),
    ({"source": "a", "content": "x"}, ".type"),
    ({"type": ["TextMessage"], "source": "a", "content": "x"}, ".type"),
    ({"type": "StructuredMessage", "source": "a", "content": {}}, ".type"),
    ({"type": "StructuredMessage[X]", "source": "a", "content": "x"}, ".content"),
    ("hello", ""),
    ({"type": "TextMessage", "content": "x"}, ".source"),
    (text("a", "x", metadata={"n": 1}), ".metadata.n"),
    (text("a", "x", created_at=None), ".created_at"),
    (text("a", "x", created_at="yesterday"), ".created_at"),
    (text("a", "x", models_usage={"prompt_tokens": 1}), ".models_usage.completion_tokens"),
    ({"type": "TextMessage", "source": "a", "content": None}, ".content"),
    ({"type": "MultiModalMessage", "source": "a", "content": "x"}, ".content"),
    ({"type": "MultiModalMessage", "source": "a", "content": [{"url": "http://x/y.png"}]}, ".content[0].data"),
    (
        {"type": "MultiModalMessage", "source": "a", "content": [{"data": "data:image/png;base64,AAAA"}]},
        ".content[0].data",
    ),
    ({"type": "MultiModalMessage", "source": "a", "content": [{"data": "no base64!"}]}, ".content[0].data"),
    ({"type": "MultiModalMessage", "source": "a", "content": ["x", 3]}, ".content[1]"),
    (
        {"type": "ToolCallRequestEvent", "source": "a", "content": [{"id": None, "arguments": "", "name": "f"}]},
        ".content[0].id",
    ),
    (
        {"type": "ToolCallRequestEvent", "source": "a", "content": [{"id": "1", "arguments": [], "name": "f"}]},
        ".content[0].arguments",
    ),
    (
        {"type": "ToolCallExecutionEvent", "source": "a", "content": [{"call_id": "1", "content": ["x"]}]},
        ".content[0].content",
    ),
    ({"type": "UserInputRequestedEvent", "source": "a", "request_id": "1", "content": "x"}, ".content"),
    ({"type": "MemoryQueryEvent", "source": "a", "content": [{"content": 3, "mime_type": "x"}]}, ".content[0].content"),
    ({"type": "UserMessage", "source": "a", "content": 3}, ".content"),
    (
        {"type": "HandoffMessage", "source": "a", "content": "x", "target": "b", "context": [{"content": "u"}]},
        ".context[0].type",
    ),
    (
        {"type": "HandoffMessage", "source": "a", "content": "x", "target": "b", "context": [text("a", "x")]},
        ".context[0].type",
    ),
]


@each_case(("item", "place"), WRONG)
def test_what_autogen_refuses_is_refused_with_its_place(item: Any, place: str) -> None:
    assert refused([HELLO, item]) == [f"messages[1]{place}"]


def test_all_violations_are_reported_at_once() -> None:
    assert refused([{"type": "X"}, HELLO, {"type": "TextMessage"}]) == [
        "messages[0].type",
        "messages[2].source",
        "messages[2].content",
    ]


def test_an_empty_list_and_one_of_asides_alone_are_refused() -> None:
    assert refused([]) == ["messages"]
    assert refused([{"type": "SelectSpeakerEvent", "source": "m", "content": ["a"]}]) == ["messages"]
