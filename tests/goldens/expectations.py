"""What can be expected of a golden case, and short names for the messages that the expectations are made of."""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    request: str = ""
    """Why what is sent differs from the golden."""
    output: str = ""
    """Why what is said differs from the golden."""
    body: Json = field(default_factory=dict)
    """What the body has instead of the golden's."""
    requests: int | None = None
    messages: list[Json] | None = None
    finish_reason: str | None = None
    error: Json | None = None
    """Fields that the error must have."""
    refused: tuple[str, ...] = ()


def text_message(text: str, **extra: Any) -> Json:
    return {"role": "assistant", "content": text, **({"extra": extra} if extra else {})}


def reasoning_message(text: str) -> Json:
    return {"role": "assistant", "content": "", "reasoning_content": text}


def call_message(name: str, arguments: str, id: str, **extra: Any) -> Json:
    call = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "function_call": call, "extra": {"function_id": id, **extra}}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def calls_of(*calls: tuple[str, str, str], content: str | None = None, reasoning: str | None = None) -> Json:
    tool_calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls
    ]
    thinking = {"reasoning_content": reasoning} if reasoning else {}
    return {"role": "assistant", **thinking, "content": content, "tool_calls": tool_calls}


def answered(id: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": text}
