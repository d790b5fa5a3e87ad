"""Detects the format of a message list by the first message that only one format can have; mixed lists are refused."""

import re
from collections.abc import Iterator
from typing import Any

from app.errors import Violation

_AUTOGEN_TYPE = re.compile(r"[A-Z]\w*(Message|Event|Result)(\[\w*\])?$")
_AUTOGEN_WITHOUT_SOURCE = frozenset({"SystemMessage", "FunctionExecutionResultMessage"})
_SCOPE_2 = frozenset({"tool_call", "data", "hint"})
_SCOPE_1 = frozenset({"tool_use", "thinking", "tool_result"})
_OPENAI_PARTS = frozenset({"image_url", "input_audio", "file", "audio_url", "video_url", "refusal"})
_ANTHROPIC = frozenset(
    {"document", "search_result", "redacted_thinking", "server_tool_use", "compaction", "fallback", "tool_addition"}
)
_RESPONSES_ITEMS = frozenset(
    {
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
        *("custom_tool_call_output", "item_reference", "web_search_call", "tool_search_call", "tool_search_output"),
        *("shell_call", "shell_call_output", "local_shell_call", "local_shell_call_output", "apply_patch_call"),
        *("apply_patch_call_output", "additional_tools", "configuration_update", "compaction_trigger"),
    }
)
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "input_video"})
_QWEN_KEYS = frozenset({"text", "image", "file", "audio", "video"})
_HINT_ORDER = ("agentscope2", "agentscope", "openai")
"""The order in which hints count if no message is decisive."""


def detect(messages: list[Any]) -> tuple[str, list[Violation]]:
    """Return (the format's name, a violation for each message of another format).

    A list with only roles and text is the same in all formats, and counts as `qwen`.
    """
    name, first = "", 0
    found: list[Violation] = []
    for place, item in enumerate(messages):
        sign = _detect_item(item) if isinstance(item, dict) else ""
        if not name:
            name, first = sign, place
        elif sign and sign != name:
            text = f"has the format {sign}, but messages[{first}] has the format {name}: send one format"
            found.append(Violation(f"messages[{place}]", text))
    return name or _detect_by_hints(messages), found


def _detect_item(item: dict[str, Any]) -> str:
    kind = item.get("type")
    if isinstance(kind, str) and _AUTOGEN_TYPE.match(kind) and ("source" in item or kind in _AUTOGEN_WITHOUT_SOURCE):
        return "autogen"
    if isinstance(kind, str) and kind in _RESPONSES_ITEMS:
        return "responses"
    blocks = _blocks(item)
    kinds = {block.get("type") for block in blocks if isinstance(block.get("type"), str)}
    if kinds & _RESPONSES_PARTS:
        return "responses"
    if kinds & _SCOPE_2 or {"created_at", "finished_at"} <= item.keys() or "structured_output" in item:
        return "agentscope2"
    if kinds & _ANTHROPIC or any("tool_use_id" in block or "signature" in block for block in blocks):
        return "anthropic"
    if "name" not in item and (kinds & _SCOPE_1 or any("source" in block for block in blocks)):
        return "anthropic"  # AgentScope's messages have a name
    if kinds & _SCOPE_1 or any("source" in block for block in blocks) or "timestamp" in item or "__module__" in item:
        return "agentscope"
    if (
        item.get("role") in ("tool", "developer")
        or item.keys() & {"tool_calls", "tool_call_id"}
        or kinds & _OPENAI_PARTS
        or any(block.get("type") == "video" and "video" in block for block in blocks)
    ):
        return "openai"
    if item.get("role") == "function" or item.keys() & {"function_call", "reasoning_content"}:
        return "qwen"
    return "qwen" if any("type" not in block and block.keys() & _QWEN_KEYS for block in blocks) else ""


def _blocks(item: dict[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _detect_by_hints(messages: list[Any]) -> str:
    """Return the format that the keys of messages with only text hint at."""
    hints = {hint for item in messages if isinstance(item, dict) for hint in _hints(item)}
    return next((name for name in _HINT_ORDER if name in hints), "qwen")


def _hints(item: dict[str, Any]) -> Iterator[str]:
    if "name" in item and isinstance(item.get("metadata"), dict):
        yield "agentscope2" if isinstance(item.get("created_at"), str) else "agentscope"
    if any(block.get("type") == "text" for block in _blocks(item)):
        yield "openai"
