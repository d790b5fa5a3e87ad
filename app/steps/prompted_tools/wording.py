"""Pieces that both prompts share: texts of messages, the system block, the last turn.

Old calls and results told as the user's words, for a model that is not to call anything.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from app.chat.messages import ChatRequest, Media, Message, Part, Text, ToolCall, ToolResult
from app.steps.prompt_language import Language, detect_language

ContentParts: TypeAlias = tuple[Text | Media, ...]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def join_content(parts: Iterable[Part], joiner: str) -> ContentParts:
    """What is said in the parts. Text alone becomes one text, joined as the format of the caller joins it."""
    kept = tuple(part for part in parts if isinstance(part, Text | Media))
    if len(kept) > 1 and all(isinstance(part, Text) for part in kept):
        return (Text(joiner.join(part.text for part in kept if isinstance(part, Text))),)
    return kept


def append_parts(parts: tuple[Part, ...], added: Iterable[Part | str]) -> tuple[Part, ...]:
    """The parts with more behind them; text goes on in the text that stands last. Beside media every text stays a part
    of its own, as Qwen-Agent sends it."""
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
    """The block at the end of the leading system message, or as a new one."""
    if messages and messages[0].role == "system":
        head = messages[0]
        parts = append_parts(join_content(head.parts, joiner), ("\n\n" + block,))
        return (replace(head, parts=parts), *messages[1:])
    return (Message("system", (Text(block),)), *messages)


def fold_last_turn(messages: Sequence[Message], joiner: str) -> tuple[Message, ...]:
    """An assistant turn that stands last goes on in the user's turn before it: servers do not continue their own."""
    if len(messages) < 2 or messages[-1].role != "assistant" or messages[-2].role != "user":
        return tuple(messages)
    user, last = messages[-2:]
    parts = append_parts(join_content(user.parts, joiner), ("\n\n", *join_content(last.parts, joiner)))
    return (*messages[:-2], replace(user, parts=parts))


_CHOICES = ("function_choice", "tool_choice", "parallel_function_calls", "parallel_tool_calls")


def without_tools(request: ChatRequest, messages: Sequence[Message]) -> ChatRequest:
    """The request with these messages, and nothing left that speaks of tools."""
    params = {name: value for name, value in request.params.items() if name not in _CHOICES}
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
    return any(isinstance(part, ToolCall | ToolResult) for message in messages for part in message.parts)


def convert_calls_to_text(request: ChatRequest) -> tuple[Message, ...]:
    """The conversation without calls and results."""
    lang, joiner = detect_language(request), request.text_joiner
    out: list[Message] = []
    for message in request.messages:
        told = [piece for part in message.parts for piece in _call_as_text(part, lang, joiner)]
        rest = tuple(part for part in message.parts if not isinstance(part, ToolCall | ToolResult))
        if not told:
            if request.policy.separates_users and message.role == "user" and out and out[-1].role == "user":
                out.append(Message("assistant", (Text("..."),)))
            out.append(message)
            continue
        if any(isinstance(part, Text) and part.text.strip() for part in rest):
            out.append(Message(message.role, rest, message.name, message.turn, message.path))
        last = out.pop() if out and out[-1].role == "user" else Message("user", (), path=message.path)
        parts = append_parts(join_content(last.parts, joiner), told)
        out.append(Message("user", parts, last.name, None, last.path, last.extra))
    return tuple(out)


def _call_as_text(part: Part, lang: Language, joiner: str) -> tuple[Part | str, ...]:
    if isinstance(part, ToolCall):
        return (_CALL_TEXT[lang].format(name=part.name, arguments=part.arguments),)
    if isinstance(part, ToolResult):
        return (_RESULT_TEXT[lang], *join_content(part.content, joiner))
    return ()
