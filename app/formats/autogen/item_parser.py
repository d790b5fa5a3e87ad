"""Parses one AutoGen item, given its role for the agent.

Finding the role needs the whole list (`parse`); parsing needs only the item. So the writer can check whether an
original item still has the content of its messages (`replay`).
"""

import base64
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from app.chat.media_types import detect_type
from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.autogen.schema import (
    AssistantMessage,
    AutogenItem,
    CodeExecutionEvent,
    CodeGenerationEvent,
    FunctionExecutionResultMessage,
    HandoffMessage,
    MultiModalMessage,
    StopMessage,
    StructuredMessage,
    SystemMessage,
    TextMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
    UserMessage,
)
from app.formats.autogen.value_types import AutogenFunctionCall, FunctionExecutionResult, Image, dump_json

ItemRoleKind: TypeAlias = Literal[
    "aside", "core", "user", "own", "reasoning", "content", "calls", "results", "rebuilt", "handoff", "kept"
]
ITEM_ROLE_KINDS = frozenset(get_args(ItemRoleKind))


class ItemRole(Struct, frozen=True):
    """What an item is for the agent that the model answers for. `kept`: its metadata have the messages themselves."""

    kind: ItemRoleKind
    calls: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    """For `rebuilt`: the positions of the calls and results of a summary that no event has."""


ASIDE = ItemRole("aside")


def parse_item(item: AutogenItem, item_role: ItemRole, path: str = "") -> list[Message]:
    """Return messages with one payload each, or none if the role does not fit the item."""
    match item, item_role.kind:
        case (_, "core"):
            return _core(item, path)
        case (ToolCallExecutionEvent(), "results"):
            return [_result(one, path) for one in item.content]
        case (ToolCallRequestEvent(), "calls"):
            return [_call(one, item.source, path) for one in item.content]
        case (ThoughtEvent(), "reasoning"):
            return [Message("assistant", (Reasoning(item.content),), item.source or None, path=path)]
        case (ThoughtEvent(), "content"):
            return [Message("assistant", (Text(item.content),), item.source or None, path=path)]
        case (ToolCallSummaryMessage(), "rebuilt"):
            return _rebuild_summary(item, item_role, path)
        case (HandoffMessage(), "handoff"):
            context = [
                message
                for place, core in enumerate(item.context)
                for message in _core(core, f"{path}.context[{place}]")
            ]
            return [*context, Message("user", _text(item.content), item.source or None, path=path)]
        case (CodeExecutionEvent(), "user"):
            return [Message("user", _text(item.result.output), item.source or None, path=path)]
        case (_, "user" | "own"):
            return _parse_content_item(item, "user" if item_role.kind == "user" else "assistant", path)
    return []


def _core(item: Any, path: str) -> list[Message]:
    if isinstance(item, SystemMessage):
        return [Message("system", _text(item.content), path=path)]
    if isinstance(item, UserMessage):
        return [Message("user", _parts(item.content, path), item.source or None, path=path)]
    if isinstance(item, AssistantMessage):
        return _parse_assistant(item, path)
    if isinstance(item, FunctionExecutionResultMessage):
        return [_result(one, path) for one in item.content]
    return []


def _parse_assistant(item: AssistantMessage, path: str) -> list[Message]:
    """Parse an assistant message. Its `thought` is the text before its calls, or the reasoning before its text."""
    if isinstance(item.content, str):
        thought = [_assistant(item, Reasoning(item.thought), path)] if item.thought else []
        return [*thought, Message("assistant", _text(item.content), item.source or None, path=path)]
    before = [_assistant(item, Text(item.thought), path)] if item.thought is not None else []
    return before + [_call(one, item.source, path) for one in item.content]


def _assistant(item: AssistantMessage, part: Part, path: str) -> Message:
    return Message("assistant", (part,), item.source or None, path=path)


def _parse_content_item(item: AutogenItem, role: Role, path: str) -> list[Message]:
    if isinstance(item, MultiModalMessage):
        return [Message(role, _parts(item.content, path), item.source or None, path=path)]
    if isinstance(item, StructuredMessage):
        return [Message(role, (Text(dump_json(item.content)),), item.source or None, path=path)]
    if isinstance(item, TextMessage | StopMessage | CodeGenerationEvent | ToolCallSummaryMessage | HandoffMessage):
        return [Message(role, _text(item.content), item.source or None, path=path)]
    return []


def _rebuild_summary(item: ToolCallSummaryMessage, item_role: ItemRole, path: str) -> list[Message]:
    calls = [_call(one, item.source, path) for place, one in enumerate(item.tool_calls) if place in item_role.calls]
    return calls + [_result(one, path) for place, one in enumerate(item.results) if place in item_role.results]


def _call(call: AutogenFunctionCall, source: str, path: str) -> Message:
    part = ToolCall(call.name, call.arguments, call.id or None, path=path)
    return Message("assistant", (part,), source or None, path=path)


def _result(result: FunctionExecutionResult, path: str) -> Message:
    part = ToolResult(_text(result.content), result.name, result.call_id or None, result.is_error)
    return Message("tool", (part,), result.name or None, path=path)


def _text(text: str) -> tuple[Text, ...]:
    return (Text(text),) if text else ()


def _parts(content: str | Sequence[str | Image], path: str) -> tuple[Text | Media, ...]:
    if isinstance(content, str):
        return _text(content)
    return tuple(
        Text(one) if isinstance(one, str) else Media("image", (data_uri(one.data),), path=f"{path}.content[{place}]")
        for place, one in enumerate(content)
    )


_IMAGES = ("image/jpeg", "image/gif", "image/webp")


def data_uri(data: str) -> str:
    """Return a data URI with the media type that the image's first bytes show, because AutoGen's images have none."""
    try:
        head = base64.b64decode("".join(data[:64].split())[:32])
    except ValueError:
        head = b""
    found = detect_type(head)
    if found not in _IMAGES:
        found = "image/bmp" if head.startswith(b"BM") else "image/png"
    return f"data:{found};base64,{data}"
