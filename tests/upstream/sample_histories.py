"""Short names for histories in Qwen-Agent's messages, and what a server is sent for them."""

from typing import Any

from app.chat.messages import ChatRequest, Message, Tool
from app.formats.base import Options
from app.formats.qwen import QWEN
from app.openai_messages.messages import write_openai_messages
from app.profiles import KINDS, Profile
from app.upstream.chat_completions.request import build

Json = dict[str, Any]


def user(content: Any, **fields: Any) -> Json:
    return {"role": "user", "content": content, **fields}


def answers(content: Any, turn: str | None = None, **fields: Any) -> Json:
    return _assistant(turn, content=content, **fields)


def thinks(text: str, turn: str | None = None, **fields: Any) -> Json:
    return _assistant(turn, content="", reasoning_content=text, **fields)


def calls(name: str, arguments: str = "{}", /, id: Any = None, turn: str | None = None, **fields: Any) -> Json:
    return _assistant(turn, content="", function_call={"name": name, "arguments": arguments}, id=id, **fields)


def returns(name: str | None, content: Any = "ok", id: Any = None) -> Json:
    extra = {} if id is None else {"extra": {"function_id": id}}
    return {"role": "function", "name": name, "content": content, **extra}


def _assistant(turn: str | None, id: Any = None, **fields: Any) -> Json:
    extra = {key: value for key, value in (("turn", turn), ("function_id", id)) if value is not None}
    return {"role": "assistant", **fields, **({"extra": {**fields.get("extra", {}), **extra}} if extra else {})}


def decoded(*messages: Json) -> tuple[Message, ...]:
    found = QWEN.parse(list(messages), Options())
    assert not found.violations, found.violations
    return found.messages


def sent(*messages: Json, **profile: Any) -> list[Json]:
    """The messages that a server of this profile gets."""
    out, violations = write_openai_messages(decoded(*messages), Profile(**profile), QWEN.text_joiner)
    assert not violations, violations
    return out


def refused(*messages: Json, **profile: Any) -> list[tuple[str, str]]:
    """Places and messages of what cannot be sent."""
    out, violations = write_openai_messages(decoded(*messages), Profile(**profile), QWEN.text_joiner)
    assert not out
    return [(found.path, found.message) for found in violations]


def request(*messages: Json, tools: tuple[str, ...] = (), **params: Any) -> ChatRequest:
    schemas = tuple(Tool(name, {"name": name, "parameters": {}}) for name in tools)
    wire = decoded(*(messages or (user("q"),)))
    return ChatRequest("m", wire, schemas, {name: value for name, value in params.items() if value is not None}, "")


def body(kind: str = "openai_compatible", /, *messages: Json, tools: tuple[str, ...] = (), **params: Any) -> Json:
    return build(request(*messages, tools=tools, **params), "m", KINDS[kind])[0]


def options(kind: str = "openai_compatible", /, tools: tuple[str, ...] = (), **params: Any) -> Json:
    """The body without what every body has, and without its tools."""
    common = {"model", "messages", "stream", "stream_options", "tools"}
    return {key: value for key, value in body(kind, tools=tools, **params).items() if key not in common}


def warnings(
    kind: str = "openai_compatible", /, *messages: Json, tools: tuple[str, ...] = (), **params: Any
) -> list[str]:
    return build(request(*messages, tools=tools, **params), "m", KINDS[kind])[1]
