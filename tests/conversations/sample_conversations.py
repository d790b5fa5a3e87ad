"""Conversations of this folder: what they say, and what a model server is sent for them."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.api.convert import Conversion, convert_conversation
from app.chat import datauri
from app.chat.messages import Media, Message, Part, Text, ToolResult
from app.chat.turns import normalize_piece, split_message
from app.formats import FORMATS
from app.formats.base import Options
from msgspec.structs import replace

from tests.in_process_gateway import ModelServer, Running

FOLDER = Path(__file__).parent
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and not path.name.startswith("_"))
PAIRS = [(name, one, other) for name in NAMES for one in FORMATS for other in FORMATS]
NO_ERROR_FLAG = {"openai", "agentscope", "responses", "gemini"}
"""Formats that have no word for a result that is an error."""
MOVES_MEDIA = {"openai"}
"""Formats whose results are text: media of a result are in a message of the user behind it."""
CANNOT_SAY = {("sound", "anthropic"), ("speakers", "anthropic"), ("speakers", "responses"), ("speakers", "gemini")}
"""What a format has no words and no place for notes for: sound, video and the names of senders."""
NO_NOTES = {"openai", "anthropic", "responses", "gemini"}
"""Formats without a place for notes, so that what they have no field for is lost."""
NAMED = {"speakers"}
"""Conversations whose senders have names in every format."""
Json = dict[str, Any]

PROFILES: dict[str, Json] = {
    "plain": {"audio": "base64"},
    "named": {"audio": "base64", "names": "all"},
    "tools_named": {"audio": "base64", "tool_names": True, "replay_blank_reasoning": True},
    "thoughtless": {"audio": "base64", "replay_reasoning": "none", "text_parts": True},
}
MODELS: Json = {
    "upstreams": {"local": {"base_url": "http://model.test/v1"}},
    "models": {name: {"upstreams": ["local"], "profile": profile} for name, profile in PROFILES.items()},
}


class Gateway:
    """A gateway, and what a model server is sent by it."""

    def __init__(self, running: Running, server: ModelServer) -> None:
        self.running = running
        self.server = server

    def body(self, form: str, messages: Sequence[Any], model: str = "plain", **fields: Any) -> bytes:
        asked = len(self.server.requests)
        request = {"model": model, "format": form, "messages": messages, "stream": False, **fields}
        answer = self.running.post("/v1/chat", request)
        assert answer.status == 200, answer.body
        assert len(self.server.requests) == asked + 1
        return self.server.requests[-1].content

    def sent(self, form: str, messages: Sequence[Any], model: str = "plain") -> list[Json]:
        found: list[Json] = json.loads(self.body(form, messages, model))["messages"]
        return found


def golden(conversation: str, form: str) -> list[Any]:
    messages: list[Any] = json.loads((FOLDER / conversation / f"{form}.json").read_text("utf-8"))
    return messages


def convert(form: str, to: str, messages: Sequence[Any], **fields: Any) -> tuple[list[Any], list[str]]:
    """(messages, warnings) as `POST /v1/convert` answers."""
    asked = Conversion.model_validate({"from": form, "to": to, "messages": list(messages), **fields})
    answer = json.loads(json.dumps(convert_conversation(asked)))
    return answer["messages"], answer["warnings"]


def read(form: str, messages: Sequence[Any]) -> tuple[Message, ...]:
    decoded = FORMATS[form].parse(list(messages), Options())
    assert not decoded.violations, decoded.violations
    return decoded.messages


def normalize_messages(form: str, messages: Sequence[Any], *, named: bool = False) -> list[Message]:
    """What a list says, piece by piece, in no format's words.

    Not compared: places, turns and `extra`; the sender of a result and, unless `named`, of everything, since Qwen-Agent
    and OpenAI need none; false where nothing is said of an error; and how sound is written, of which all formats have
    their own way.
    """
    found = [normalize_piece(piece) for message in read(form, messages) for piece in split_message(message)]
    calls = {part.id: part.name for one in found for part in one.parts if part.kind == "tool_call"}
    return [
        replace(
            one,
            name=one.name if named else None,
            turn=None,
            extra={},
            parts=tuple(_plain(part, calls) for part in one.parts if part != Text("")),
        )
        for one in found
    ]


def _plain(part: Part, calls: dict[str | None, str]) -> Part:
    if isinstance(part, Media):
        return media_of(part)
    if isinstance(part, ToolResult):
        content = tuple(media_of(one) if isinstance(one, Media) else one for one in part.content)
        return replace(part, content=content, name=part.name or calls.get(part.id), is_error=part.is_error or None)
    return part


def media_of(part: Media) -> Media:
    """Sound as bare base64 with its format, whichever way it was written."""
    if part.media != "audio" or not part.urls[0].startswith("data:"):
        return part
    head = datauri.parse(part.urls[0])
    sound = part.urls[0][head.start :]
    base64.b64decode(sound, validate=True)
    return replace(part, urls=(sound,), format=part.format or datauri.AUDIO_FORMATS[head.media_type])


def without_errors(messages: list[Message]) -> list[Message]:
    """As the formats say it that have no word for an error."""
    return [
        replace(
            one,
            parts=tuple(replace(part, is_error=None) if isinstance(part, ToolResult) else part for part in one.parts),
        )
        for one in messages
    ]
