"""Requests with a function for models whose server has no tools, and what such a model is sent."""

from typing import Any

from app.chat.messages import ChatRequest, Media, Message, Part, Text, Tool, ToolCall, ToolResult
from app.formats.qwen import QWEN_AGENT
from app.profiles import Profile
from app.steps.prompted_tools import add_tool_prompt

NOUS = Profile(native_tools=False)
QWEN = Profile(native_tools=False, fncall_prompt_type="qwen")
F = Tool("f", {"name": "f"})
CODE = Tool("code_interpreter", {"name": "code_interpreter"})
QUESTION = Message("user", (Text("q"),))
PICTURE = Media("image", ("https://example.com/cat.png",))


def messages_for(
    *messages: Message, profile: Profile = NOUS, tools: tuple[Tool, ...] = (F,), **params: Any
) -> list[Message]:
    request = ChatRequest("m", (QUESTION, *messages), tools, params, policy=QWEN_AGENT)
    made, _ = add_tool_prompt(request, profile)
    assert request.tools == tools
    return list(made.messages)


def assistant(*parts: Part) -> Message:
    return Message("assistant", parts)


def result(*parts: Text | Media, name: str = "f") -> Message:
    return Message("tool", (ToolResult(parts, name),))


def call(arguments: str = "{}", name: str = "f") -> ToolCall:
    return ToolCall(name, arguments)


def text(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))
