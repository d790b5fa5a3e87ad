"""Pieces that both prompts share: texts of messages, the system block, the last turn."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from app.chat.messages import ChatRequest, Media, Message, Part, Text

Said: TypeAlias = tuple[Text | Media, ...]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def said(parts: Iterable[Part], joiner: str) -> Said:
    """What is said in the parts. Text alone becomes one text, joined as the format of the caller joins it."""
    kept = tuple(part for part in parts if isinstance(part, Text | Media))
    if len(kept) > 1 and all(isinstance(part, Text) for part in kept):
        return (Text(joiner.join(part.text for part in kept if isinstance(part, Text))),)
    return kept


def appended(parts: tuple[Part, ...], added: Iterable[Part | str]) -> tuple[Part, ...]:
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


def with_system(messages: Sequence[Message], block: str, joiner: str) -> tuple[Message, ...]:
    """The block at the end of the leading system message, or as a new one."""
    if messages and messages[0].role == "system":
        head = messages[0]
        parts = appended(said(head.parts, joiner), ("\n\n" + block,))
        return (replace(head, parts=parts), *messages[1:])
    return (Message("system", (Text(block),)), *messages)


def folded(messages: Sequence[Message], joiner: str) -> tuple[Message, ...]:
    """An assistant turn that stands last goes on in the user's turn before it: servers do not continue their own."""
    if len(messages) < 2 or messages[-1].role != "assistant" or messages[-2].role != "user":
        return tuple(messages)
    user, last = messages[-2:]
    parts = appended(said(user.parts, joiner), ("\n\n", *said(last.parts, joiner)))
    return (*messages[:-2], replace(user, parts=parts))


_CHOICES = ("function_choice", "tool_choice", "parallel_function_calls", "parallel_tool_calls")


def without_tools(request: ChatRequest, messages: Sequence[Message]) -> ChatRequest:
    """The request with these messages, and nothing left that speaks of tools."""
    params = {name: value for name, value in request.params.items() if name not in _CHOICES}
    return replace(request, messages=tuple(messages), tools=(), params=params)
