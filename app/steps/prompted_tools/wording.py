"""Shared by both prompts: joining content, the system block, the last turn.

Also writes old calls and results as text of user messages, for a model that must not call anything.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Media, Message, Part, Text, ToolCall, ToolResult
from app.steps.prompt_language import Language, detect_language

ContentParts: TypeAlias = tuple[Text | Media, ...]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def join_content(parts: Iterable[Part], joiner: str) -> ContentParts:
    """Return the text and media parts. If there are only texts, they become one text with `joiner` between them."""
    content = tuple(part for part in parts if isinstance(part, (Text, Media)))
    if len(content) > 1 and all(isinstance(part, Text) for part in content):
        return (Text(joiner.join(part.text for part in content if isinstance(part, Text))),)
    return content


def append_parts(parts: tuple[Part, ...], added: Iterable[Part | str]) -> tuple[Part, ...]:
    """Append parts. Text is appended to a last text part; if there are media, every text stays a separate part, as
    Qwen-Agent sends it."""
    out = list(parts)
    more = [Text(item) if isinstance(item, str) else item for item in added]
    if any(isinstance(part, Media) for part in (*out, *more)):
        return (*out, *(part for part in more if not isinstance(part, Text) or part.text))
    for part in more:
        last = out[-1] if out else None
        if isinstance(part, Text) and isinstance(last, Text):
            out[-1] = Text(last.text + part.text)
        elif not isinstance(part, Text) or part.text:
            out.append(part)
    return tuple(out)


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
    out: list[Message] = []
    for message in request.messages:
        texts = [text for part in message.parts for text in _call_as_text(part, lang, joiner)]
        rest = tuple(part for part in message.parts if not isinstance(part, (ToolCall, ToolResult)))
        if not texts:
            if request.policy.separates_users and message.role == "user" and out and out[-1].role == "user":
                out.append(Message("assistant", (Text("..."),)))
            out.append(message)
            continue
        if any(isinstance(part, Text) and part.text.strip() for part in rest):
            out.append(Message(message.role, rest, message.name, message.turn, message.path))
        last = out.pop() if out and out[-1].role == "user" else Message("user", (), path=message.path)
        parts = append_parts(join_content(last.parts, joiner), texts)
        out.append(Message("user", parts, last.name, None, last.path, last.extra))
    return tuple(out)


def _call_as_text(part: Part, lang: Language, joiner: str) -> tuple[Part | str, ...]:
    if isinstance(part, ToolCall):
        return (_CALL_TEXT[lang].format(name=part.name, arguments=part.arguments),)
    if isinstance(part, ToolResult):
        return (_RESULT_TEXT[lang], *join_content(part.content, joiner))
    return ()
