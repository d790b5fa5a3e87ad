"""Conversations for the tests of steps: from Qwen-Agent's messages, and drawn."""

from typing import Any

from app.chat.messages import (
    ChatRequest,
    Media,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from app.formats.qwen import QWEN_AGENT
from hypothesis import strategies as st

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "function": "tool"}


def message(place: int, wire: dict[str, Any]) -> Message:
    id_ = (wire.get("extra") or {}).get("function_id")
    content = wire.get("content") or []
    items = [{"text": content}] if isinstance(content, str) else content
    contents = tuple(Text(item["text"]) if "text" in item else Media("image", ("x.png",)) for item in items)
    parts: list[Part] = [Reasoning(wire["reasoning_content"])] if wire.get("reasoning_content") else []
    if wire["role"] == "function":
        parts.append(ToolResult(contents, wire.get("name"), id_))
    else:
        parts += contents
    if wire.get("function_call"):
        parts.append(ToolCall(wire["function_call"]["name"], wire["function_call"]["arguments"], id_))
    return Message(_ROLES[wire["role"]], tuple(parts), wire.get("name"), path=f"messages[{place}]")


def conversation(*wire: dict[str, Any], **fields: Any) -> ChatRequest:
    fields = {"policy": QWEN_AGENT} | fields
    return ChatRequest("m", tuple(message(place, one) for place, one in enumerate(wire)), **fields)


def texts(request: ChatRequest) -> list[tuple[str, str]]:
    """Role and text of each message, results' text included."""
    return [(one.role, _text(one.parts)) for one in request.messages]


def _text(parts: tuple[Part, ...]) -> str:
    found = []
    for part in parts:
        if isinstance(part, Text):
            found.append(part.text)
        elif isinstance(part, ToolResult):
            found.append(_text(part.content))
    return "|".join(found)


_SAID = st.lists(st.sampled_from(["a", "word", "café", "汉字", "1,2", "\n"]), max_size=12).map(" ".join)


@st.composite
def _step(draw: st.DrawFn, number: int) -> list[Message]:
    """A thought, a text and calls, in one message or several, and the results in any order."""
    parts: list[Part] = []
    if draw(st.booleans()):
        parts.append(Reasoning(draw(_SAID)))
    if draw(st.booleans()):
        parts.append(Text(draw(_SAID)))
    count = draw(st.integers(0, 3))
    parts += (ToolCall(f"f{one}", draw(_SAID), f"id{number}-{one}") for one in range(count))
    together = draw(st.booleans())
    groups: list[tuple[Part, ...]] = [tuple(parts)] if together else [(part,) for part in parts]
    order = draw(st.permutations(range(count)))
    results = [ToolResult((Text(draw(_SAID)),), f"f{one}", f"id{number}-{one}") for one in order]
    contents = [Message("assistant", group) for group in groups]
    answers = [Message("tool", (result,), result.name) for result in results]
    if draw(st.integers(0, 9)) == 0 and answers:
        answers.insert(draw(st.integers(0, len(answers) - 1)), Message("user", (Text(draw(_SAID)),)))
    return contents + answers


@st.composite
def conversations(draw: st.DrawFn) -> ChatRequest:
    """Sound ones: every call is answered once, behind it."""
    messages: list[Message] = []
    number = 0
    for _ in range(draw(st.integers(0, 4))):
        parts: tuple[Part, ...] = (Text(draw(_SAID)),)
        if draw(st.integers(0, 5)) == 0:
            parts = (*parts, Media("image", ("http://x/y.png",)))
        messages.append(Message("user", parts, draw(st.sampled_from([None, "bob"]))))
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            messages += draw(_step(number))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.sampled_from([0, 0, 0, len(messages)]))
        messages.insert(place, Message("system", (Text(draw(_SAID)),)))
    tools = tuple(Tool(name, {"name": name, "parameters": {}}) for name in draw(st.lists(st.just("f1"), max_size=1)))
    placed = (Message(one.role, one.parts, one.name, path=f"messages[{at}]") for at, one in enumerate(messages))
    return ChatRequest("m", tuple(placed), tools)
