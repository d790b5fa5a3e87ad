"""One conversation as a client of each format posts it, with what each format adds of its own: names, ids, times."""

from typing import Any

_TIME = "2026-01-02T03:04:05.678901Z"
_ARGUMENTS = '{"city": "Berlin"}'

QWEN: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Berlin?"},
    {
        "role": "assistant",
        "content": "",
        "function_call": {"name": "weather", "arguments": _ARGUMENTS},
        "extra": {"function_id": "call_1"},
    },
    {"role": "function", "name": "weather", "content": "rain", "extra": {"function_id": "call_1"}},
    {"role": "assistant", "content": "", "reasoning_content": "It is wet."},
    {"role": "assistant", "content": "Rain."},
    {"role": "user", "content": "And tomorrow?"},
]
_OPENAI_CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": _ARGUMENTS}}
OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather in Berlin?"}]},
    {"role": "assistant", "content": None, "tool_calls": [_OPENAI_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    {"role": "assistant", "content": "Rain.", "reasoning_content": "It is wet."},
    {"role": "user", "content": "And tomorrow?"},
]
AUTOGEN: list[dict[str, Any]] = [
    {"type": "SystemMessage", "content": "Be brief."},
    {"type": "UserMessage", "source": "user", "content": "Weather in Berlin?"},
    {
        "type": "AssistantMessage",
        "source": "assistant",
        "content": [{"id": "call_1", "name": "weather", "arguments": _ARGUMENTS}],
    },
    {
        "type": "FunctionExecutionResultMessage",
        "content": [{"content": "rain", "name": "weather", "call_id": "call_1", "is_error": False}],
    },
    {"type": "AssistantMessage", "source": "assistant", "thought": "It is wet.", "content": "Rain."},
    {"type": "UserMessage", "source": "user", "content": "And tomorrow?"},
]


def _message(number: int, name: str, role: str, content: Any) -> dict[str, Any]:
    return {
        "id": f"msg-{number}",
        "name": name,
        "role": role,
        "content": content,
        "metadata": {},
        "timestamp": "2026-01-02 03:04:05.678",
    }


AGENTSCOPE: list[dict[str, Any]] = [
    _message(1, "system", "system", "Be brief."),
    _message(2, "Ada", "user", "Weather in Berlin?"),
    _message(
        3,
        "Friday",
        "assistant",
        [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Berlin"}}],
    ),
    _message(
        4,
        "system",
        "system",
        [{"type": "tool_result", "id": "call_1", "name": "weather", "output": [{"type": "text", "text": "rain"}]}],
    ),
    _message(
        5,
        "Friday",
        "assistant",
        [{"type": "thinking", "thinking": "It is wet."}, {"type": "text", "text": "Rain."}],
    ),
    _message(6, "Ada", "user", "And tomorrow?"),
]


def _stated(number: int, name: str, role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    content = [{"id": f"block-{number}-{place}", **block} for place, block in enumerate(blocks)]
    return {"id": f"msg-{number}", "name": name, "role": role, "content": content, "created_at": _TIME}


AGENTSCOPE2: list[dict[str, Any]] = [
    _stated(1, "system", "system", {"type": "text", "text": "Be brief."}),
    _stated(2, "Ada", "user", {"type": "text", "text": "Weather in Berlin?"}),
    _stated(
        3,
        "Friday",
        "assistant",
        {"type": "tool_call", "id": "call_1", "name": "weather", "input": _ARGUMENTS, "state": "finished"},
        {"type": "tool_result", "id": "call_1", "name": "weather", "output": "rain", "state": "success"},
        {"type": "thinking", "thinking": "It is wet."},
        {"type": "text", "text": "Rain."},
    ),
    _stated(4, "Ada", "user", {"type": "text", "text": "And tomorrow?"}),
]

CONVERSATION: dict[str, list[dict[str, Any]]] = {
    "qwen": QWEN,
    "openai": OPENAI,
    "autogen": AUTOGEN,
    "agentscope": AGENTSCOPE,
    "agentscope2": AGENTSCOPE2,
}
