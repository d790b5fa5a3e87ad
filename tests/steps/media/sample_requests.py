"""Requests with media, and profiles of models that accept them."""

from typing import Any

from app.chat.messages import ChatRequest, Message, Part, Role, Text, Tool, ToolResult
from app.formats.qwen import QWEN_AGENT
from app.profiles import Profile

from tests.steps.media.recorded_media import UNITS, item, why_different

TEXT = Profile(media=(), file_text=False)
VISION = Profile(media=("image", "video"), file_text=False)
PNG = "data:image/png;base64,iVBORw0KGgo="


def message(wire: dict[str, Any], at: int = 0) -> Message:
    """A message as Qwen-Agent has it, at this place of a conversation."""
    content = wire["content"]
    parts = (Text(content),) if isinstance(content, str) else tuple(item(one) for one in content)
    if wire["role"] == "function":
        return Message("tool", (ToolResult(parts, wire["name"]),))
    return Message(wire["role"], parts, path=f"messages[{at}]")


def conversation(*wire: dict[str, Any], tools: tuple[Tool, ...] = ()) -> ChatRequest:
    messages = tuple(message(one, at) for at, one in enumerate(wire))
    return ChatRequest("m", messages, tools, text_joiner="", policy=QWEN_AGENT)


def single_message(*parts: Part, role: Role = "user", tools: tuple[Tool, ...] = ()) -> ChatRequest:
    return ChatRequest("m", (Message(role, parts),), tools, policy=QWEN_AGENT)


def recorded_alike(function: str) -> list[Any]:
    """The recorded results of a function of Qwen-Agent that are the same here."""
    return [row for row in UNITS if row["fn"] == function and not why_different(row)]
