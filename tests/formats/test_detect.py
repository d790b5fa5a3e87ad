"""Which format a list is in: by its first decisive item, and never by guessing between two."""

from typing import Any

import pytest
from app.formats import FORMATS
from app.formats.base import Options
from app.formats.detect import detect

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
PLAIN = {"role": "user", "content": "Hi"}
URL = {"type": "url", "url": "https://h/a"}


def block_message(*blocks: Json, role: str = "assistant", **fields: Any) -> Json:
    return {"name": "a", "role": role, "content": list(blocks), **fields}


AUTOGEN: list[Json] = [
    {"type": "TextMessage", "source": "user", "content": "x"},
    {"type": "MultiModalMessage", "source": "user", "content": ["x"]},
    {"type": "StopMessage", "source": "a", "content": "x"},
    {"type": "HandoffMessage", "source": "a", "target": "b", "content": "x"},
    {"type": "ToolCallSummaryMessage", "source": "a", "content": "x"},
    {"type": "StructuredMessage[Answer]", "source": "a", "content": {}},
    {"type": "ToolCallRequestEvent", "source": "a", "content": []},
    {"type": "ToolCallExecutionEvent", "source": "a", "content": []},
    {"type": "ThoughtEvent", "source": "a", "content": "x"},
    {"type": "ModelClientStreamingChunkEvent", "source": "a", "content": "x"},
    {"type": "UserInputRequestedEvent", "source": "a", "request_id": "1", "content": ""},
    {"type": "UserMessage", "source": "user", "content": "x"},
    {"type": "AssistantMessage", "source": "a", "content": "x"},
    {"type": "SystemMessage", "content": "x"},
    {"type": "FunctionExecutionResultMessage", "content": []},
]
AGENTSCOPE2: list[Json] = [
    block_message({"type": "tool_call", "id": "1", "name": "f", "input": "{}"}),
    block_message({"type": "data", "source": URL | {"media_type": "image/png"}}, role="user"),
    block_message({"type": "hint", "hint": "x"}),
    block_message({"type": "text", "text": "x"}, created_at="2026-01-01T00:00:00", finished_at=None),
    block_message({"type": "text", "text": "x"}, structured_output=None),
]
AGENTSCOPE: list[Json] = [
    block_message({"type": "tool_use", "id": "1", "name": "f", "input": {}}),
    block_message({"type": "thinking", "thinking": "x"}),
    block_message({"type": "tool_result", "id": "1", "name": "f", "output": "x"}, role="system"),
    *(block_message({"type": kind, "source": URL}, role="user") for kind in ("image", "audio", "video")),
    {"name": "u", "role": "user", "content": "x", "timestamp": "2026-01-01 00:00:00.000"},
    {"__module__": "agentscope.message", "__name__": "Msg", "name": "u", "role": "user", "content": "x"},
]
OPENAI: list[Json] = [
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "tool", "tool_call_id": "1", "content": "x"},
    {"role": "developer", "content": "x"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://h/a"}}]},
    {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]},
    {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:a/b,x"}}]},
    {"role": "user", "content": [{"type": "video", "video": ["https://h/1", "https://h/2"]}]},
    {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://h/a"}}]},
    {"role": "user", "content": [{"type": "video", "video": ["https://h/1"]}]},
    {"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "https://h/a"}}]},
]
QWEN: list[Json] = [
    {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "x"},
    {"role": "assistant", "content": "", "reasoning_content": "x"},
    *({"role": "user", "content": [{kind: "https://h/a"}]} for kind in ("text", "image", "file", "audio", "video")),
]
ANTHROPIC: list[Json] = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "s"}]},
    {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
    {"role": "assistant", "content": [{"type": "server_tool_use", "id": "1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]},
    *({"role": "user", "content": [{"type": kind, "source": URL}]} for kind in ("image", "document")),
]
RESPONSES: list[Json] = [
    {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "https://h/a"}]},
    {"role": "user", "content": [{"type": "input_file", "file_url": "https://h/a"}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
    {"type": "message", "role": "user", "content": "x"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "x"},
    {"type": "item_reference", "id": "rs_1"},
]
GEMINI: list[Json] = [
    {"role": "user", "parts": [{"text": "x"}]},
    {"parts": [{"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}]},
    {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
    {"role": "model", "parts": []},
]
SIGNS = {
    "responses": RESPONSES,
    "autogen": AUTOGEN,
    "agentscope2": AGENTSCOPE2,
    "agentscope": AGENTSCOPE,
    "openai": OPENAI,
    "qwen": QWEN,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}
EACH = [(form, sign) for form, signs in SIGNS.items() for sign in signs]
MIXED = [(one, other) for one in SIGNS for other in SIGNS if one != other]


@each_case(("form", "sign"), EACH)
def test_one_sign_decides(form: str, sign: Json) -> None:
    assert detect([sign]) == (form, [])


@each_case(("form", "sign"), EACH)
def test_words_alone_around_a_sign_decide_nothing(form: str, sign: Json) -> None:
    assert detect([PLAIN, sign, PLAIN]) == (form, [])


def test_every_format_has_signs() -> None:
    assert SIGNS.keys() == FORMATS.keys()


@each_case(("one", "other"), MIXED)
def test_two_formats_in_one_list_are_refused_at_the_second(one: str, other: str) -> None:
    name, found = detect([PLAIN, SIGNS[one][0], PLAIN, SIGNS[other][0]])
    assert name == one
    assert [violation.path for violation in found] == ["messages[3]"]
    assert one in found[0].message
    assert other in found[0].message


@each_case(
    "messages",
    [
        [PLAIN],
        [{"role": "system", "content": "s"}, PLAIN, {"role": "assistant", "content": "x", "name": "a"}],
        [{"role": "user", "content": []}],
        [{"type": "TextMessage", "content": "x"}],
        [{"type": "note", "source": "user", "content": "x"}],
        [{"role": "user", "content": "x", "metadata": None}],
        [5],
        ["Hi"],
        [None],
        [{}],
        [[]],
    ],
)
def test_what_says_nothing_of_its_format_is_qwens(messages: list[Any]) -> None:
    assert detect(messages) == ("qwen", [])


@pytest.mark.parametrize(
    ("message", "form"),
    [
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "openai"),
        ({"name": "u", "role": "user", "content": "x", "metadata": {}}, "agentscope"),
        (block_message({"type": "text", "text": "x"}, metadata={}, created_at="2026-01-01T00:00:00"), "agentscope2"),
    ],
)
def test_a_faint_sign_counts_where_nothing_is_decisive(message: Json, form: str) -> None:
    assert detect([PLAIN, message]) == (form, [])
    assert not FORMATS[form].parse([message], Options()).violations


@pytest.mark.parametrize("reply", [None, *FORMATS])
def test_a_mixed_list_is_refused_by_the_gateway(reply: str | None) -> None:
    messages = [QWEN[0], OPENAI[1]]
    body = {"model": "m", "format": "auto", "messages": messages}
    with Running(server=ModelServer()) as gateway:
        answer = gateway.post("/v1/chat", body | ({"reply_format": reply} if reply else {}))
    assert answer.status == (400 if reply in ("anthropic", "responses", "openai", "gemini") else 422)
    assert b"messages[1]" in answer.body


def test_auto_is_no_format_to_reply_in() -> None:
    with Running(server=ModelServer()) as gateway:
        answer = gateway.post("/v1/chat", {"model": "m", "messages": [PLAIN], "reply_format": "auto"})
    assert (answer.status, answer.json["error"]["param"]) == (422, "reply_format")
