"""Shared by both prompts: the system block, the last turn.

Also writes old calls and results as text of user messages, for a model that must not call anything.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Part, Text, ToolCall, ToolResult
from app.steps.prompt_language import Language, detect_language
from app.steps.prompted_tools.history import HistoryBuilder, append_parts, join_content


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def add_system_block(messages: Sequence[Message], block: str, joiner: str) -> tuple[Message, ...]:
    """Append the block to the leading system message, or add it as a new one."""
    if messages and messages[0].role == "system":
        head = messages[0]
        parts = append_parts(join_content(head.parts, joiner), ("\n\n" + block,))
        return (replace(head, parts=parts), *messages[1:])
    return (Message("system", (Text(block),)), *messages)


def fold_last_turn(messages: Sequence[Message], joiner: str) -> tuple[Message, ...]:
    """Append a last assistant turn to the user's turn before it, because most servers do not continue a message."""
    if len(messages) < 2 or messages[-1].role != "assistant" or messages[-2].role != "user":
        return tuple(messages)
    user, last = messages[-2:]
    parts = append_parts(join_content(user.parts, joiner), ("\n\n", *join_content(last.parts, joiner)))
    return (*messages[:-2], replace(user, parts=parts))


_TOOL_PARAMS = ("function_choice", "tool_choice", "parallel_function_calls", "parallel_tool_calls")


def without_tools(request: ChatRequest, messages: Sequence[Message]) -> ChatRequest:
    """Return the request with these messages, without tools and their parameters."""
    params = {name: value for name, value in request.params.items() if name not in _TOOL_PARAMS}
    return replace(request, messages=tuple(messages), tools=(), params=params)


_CALL_TEXT: dict[Language, str] = {
    "en": '\n\nThe tool "{name}" was called with these arguments: \n{arguments}',
    "zh": '\n\n工具"{name}"被调用时使用了以下参数：\n{arguments}',
}
_RESULT_TEXT: dict[Language, str] = {
    "en": "\n\nThe tool has returned the following result: \n",
    "zh": "\n\n该工具返回了以下结果：\n",
}


def has_calls(messages: Sequence[Message]) -> bool:
    return any(isinstance(part, (ToolCall, ToolResult)) for message in messages for part in message.parts)


def convert_calls_to_text(request: ChatRequest) -> tuple[Message, ...]:
    """Return the conversation with calls and results as text of user messages."""
    lang, joiner = detect_language(request), request.text_joiner
    out = HistoryBuilder(joiner)
    for message in request.messages:
        texts = [text for part in message.parts for text in _call_as_text(part, lang, joiner)]
        rest = tuple(part for part in message.parts if not isinstance(part, (ToolCall, ToolResult)))
        if not texts:
            if request.policy.separates_users and message.role == out.last_role == "user":
                out.append(Message("assistant", (Text("..."),)))
            out.append(message)
            continue
        if any(isinstance(part, Text) and part.text.strip() for part in rest):
            out.append(Message(message.role, rest, message.name, message.turn, message.path))
        if out.last_role != "user":
            out.begin(Message("user", (), path=message.path))
        out.open_last().add(*texts)
    return tuple(out.build())


def _call_as_text(part: Part, lang: Language, joiner: str) -> tuple[Part | str, ...]:
    if isinstance(part, ToolCall):
        return (_CALL_TEXT[lang].format(name=part.name, arguments=part.arguments),)
    if isinstance(part, ToolResult):
        return (_RESULT_TEXT[lang], *join_content(part.content, joiner))
    return ()
