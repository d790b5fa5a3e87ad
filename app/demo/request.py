"""Reads the body of an OpenAI chat completion request, and says what is wrong with one that cannot be read."""

import hashlib
import json
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.demo.fields import Fields, parse

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NOT_HASHED = ("stream", "stream_options")  # a streamed and a whole reply say the same


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, as far as the demonstration model understands it."""

    role: str
    text: str
    media: tuple[str, ...] = ()
    """Media types of the parts that are not text, such as `image/png`."""
    calls: tuple[tuple[str, str], ...] = ()
    """Id and name of each call that an assistant made."""
    call_id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    model: str
    turns: tuple[Turn, ...]
    fingerprint: str
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    """`auto`, `none` or `required`."""
    named_tool: str | None = None
    parallel: bool = True
    thinking: bool = True
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    wants_json: bool = False
    schema: Mapping[str, Any] | None = None
    stream: bool = False
    include_usage: bool = False


def read(body: bytes) -> Request:
    """Raises: Refused."""
    fields = Fields(parse(body))
    tools = tuple(_tool(each) for each in fields.each("tools"))
    choice, named = _tool_choice(fields, tools)
    form = fields.inner("response_format")
    if fields.get("n", int, 1) != 1:
        raise fields.refuse("n", "must be 1: the demonstration model gives one choice.")
    return Request(
        model=fields.need("model", str),
        turns=_turns(fields),
        fingerprint=_fingerprint(fields.values),
        tools=tools,
        tool_choice=choice,
        named_tool=named,
        parallel=fields.get("parallel_tool_calls", bool, True),
        thinking=_thinking(fields),
        max_tokens=_max_tokens(fields),
        stop=_stop(fields),
        wants_json=_wants_json(form),
        schema=form.inner("json_schema").get("schema", dict, None),
        stream=fields.get("stream", bool, False),
        include_usage=fields.inner("stream_options").get("include_usage", bool, False),
    )


def _fingerprint(body: Mapping[str, Any]) -> str:
    hashed = {key: value for key, value in body.items() if key not in _NOT_HASHED}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()


def _turns(fields: Fields) -> tuple[Turn, ...]:
    turns = tuple(_turn(each) for each in fields.each("messages"))
    if not turns:
        raise fields.refuse("messages", "must hold at least one message.")
    return turns


def _turn(message: Fields) -> Turn:
    role = message.need("role", str)
    if role not in ROLES:
        raise message.refuse("role", f"must be one of {', '.join(ROLES)}.")
    calls = tuple(
        (call.get("id", str, ""), call.inner("function").need("name", str)) for call in message.each("tool_calls")
    )
    text, media = _content(message)
    call_id = message.need("tool_call_id", str) if role == "tool" else ""
    return Turn(role, text, media, calls, call_id, message.get("name", str, ""))


def _content(message: Fields) -> tuple[str, tuple[str, ...]]:
    content = message.get("content", (str, list), "")
    if isinstance(content, str):
        return content, ()
    texts: list[str] = []
    media: list[str] = []
    for part in message.each("content"):
        kind = part.need("type", str)
        if kind == "text":
            texts.append(part.get("text", str, ""))
        else:
            media.append(_media_type(kind, part.values.get(kind)))
    return "\n".join(texts), tuple(media)


def _media_type(kind: str, value: Any) -> str:
    family = kind.removeprefix("input_").removesuffix("_url")
    url = value.get("url") if isinstance(value, dict) else value
    if not isinstance(url, str):
        return f"{family}/*"
    if url.startswith("data:"):
        return url[5:100].partition(",")[0].partition(";")[0] or f"{family}/*"
    return mimetypes.guess_type(url.partition("?")[0])[0] or f"{family}/*"


def _tool(entry: Fields) -> Tool:
    if entry.get("type", str, "function") != "function":
        raise entry.refuse("type", "must be 'function'.")
    function = entry.inner("function")
    return Tool(function.need("name", str), function.get("description", str, ""), function.get("parameters", dict, {}))


def _tool_choice(fields: Fields, tools: Sequence[Tool]) -> tuple[str, str | None]:
    choice = fields.get("tool_choice", (str, dict), "auto")
    if isinstance(choice, dict):
        name = fields.inner("tool_choice").inner("function").need("name", str)
        if name not in {tool.name for tool in tools}:
            raise fields.refuse("tool_choice", "names a function that is not among the tools.")
        return "required", name
    if choice not in ("auto", "none", "required"):
        raise fields.refuse("tool_choice", "must be 'auto', 'none', 'required' or name a function.")
    if choice == "required" and not tools:
        raise fields.refuse("tool_choice", "is 'required', but no tools are offered.")
    return choice, None


def _thinking(fields: Fields) -> bool:
    default = fields.get("enable_thinking", bool, True)
    return bool(fields.inner("chat_template_kwargs").get("enable_thinking", bool, default))


def _max_tokens(fields: Fields) -> int | None:
    for key in ("max_completion_tokens", "max_tokens"):
        limit: int | None = fields.get(key, int, None)
        if limit is None:
            continue
        if limit < 1:
            raise fields.refuse(key, "must be at least 1.")
        return limit
    return None


def _stop(fields: Fields) -> tuple[str, ...]:
    stop = fields.get("stop", (str, list), [])
    found = [stop] if isinstance(stop, str) else stop
    if not all(isinstance(each, str) for each in found):
        raise fields.refuse("stop", "must be a string or a list of strings.")
    return tuple(each for each in found if each)


def _wants_json(form: Fields) -> bool:
    kind = form.get("type", str, "text")
    if kind not in ("text", "json_object", "json_schema"):
        raise form.refuse("type", "must be 'text', 'json_object' or 'json_schema'.")
    return bool(kind != "text")
