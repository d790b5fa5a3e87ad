"""Builds bodies for a server of the Gemini API from conversations."""

import json
from typing import Any

import msgspec
from app.chat.messages import ChatRequest, Message, Text, ToolResult
from app.profiles import Profile, find_profile
from app.upstream.gemini.request import build

Json = dict[str, Any]
PROFILE = find_profile("gemini", "gemini")
Q = Message("user", (Text("Q"),))


def send(*messages: Message, profile: Profile | None = None, **fields: Any) -> tuple[Json, list[str]]:
    change = fields.pop("change", {})
    used = (profile or PROFILE).model_copy(update=change)
    body, warnings = build(ChatRequest("m", messages or (Q,), **fields), "up", used)
    return json.loads(msgspec.json.encode(body)), warnings


def list_contents(*messages: Message, **fields: Any) -> list[Json]:
    contents: list[Json] = send(*messages, **fields)[0]["contents"]
    return contents


def list_options(**params: Any) -> Json:
    change = params.pop("change", {})
    options: Json = send(params=params, change=change)[0].get("generationConfig", {})
    return options


def assistant(*parts: Any, **extra: Any) -> Message:
    return Message("assistant", parts, extra=extra, path="messages[1]")


def result(id_: str, *content: Any, **fields: Any) -> Message:
    return Message("tool", (ToolResult(content or (Text("r"),), id=id_, **fields),))
