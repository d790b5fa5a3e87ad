"""What can be said in a conversation, one sample each, and what becomes of it in each format.

A sample is written in a format and read again, once as it was written and once without the gateway's own notes. What
both keep has a field of its own there; what only the first keeps rides in the notes; the rest is lost.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_dataclass
from typing import Any

from app.chat.accumulator import is_json
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.chat.turns import normalize_piece, split_message
from app.formats import FORMATS
from app.formats.base import Options
from app.openai_messages.grouping import group_messages
from msgspec.structs import replace

from tests.conversations.sample_conversations import media_of

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
JPEG = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA=="
PDF = "JVBERi0xLjQKJSVFT0YK"
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
Seen = Callable[[list[Message]], Any]
"""What of the pieces is compared."""


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    messages: tuple[Message, ...]
    seen: Seen


def _parts(found: list[Message]) -> Any:
    return [(one.role, tuple(_plain(part) for part in one.parts)) for one in found]


def _plain(part: Part) -> Part:
    """Of results only what they say: names and errors have rows of their own. Sound is written in two ways."""
    if isinstance(part, Media):
        return media_of(part)
    return replace(part, name=None, is_error=None) if isinstance(part, ToolResult) else part


def _errors(found: list[Message]) -> Any:
    return [part.is_error for one in found for part in one.parts if isinstance(part, ToolResult)]


def _tools(found: list[Message]) -> Any:
    return [part.name for one in found for part in one.parts if isinstance(part, ToolResult)]


def _ids(found: list[Message]) -> Any:
    return [part.id for one in found for part in one.parts if isinstance(part, ToolCall | ToolResult)]


def _senders(found: list[Message]) -> Any:
    return [(one.role, one.name) for one in found]


def _turns(found: list[Message]) -> Any:
    """What a model is sent as one message."""
    return [
        [part.text for group in one.texts for part in group if isinstance(part, Text)]
        for one in group_messages(found)[0]
    ]


def _extra(key: str) -> Seen:
    return lambda found: [one.extra.get(key) for one in found]


def user(*parts: Part, **fields: Any) -> Message:
    return Message("user", parts, **fields)


def assistant(*parts: Part, **fields: Any) -> Message:
    return Message("assistant", parts, **fields)


def tool(result: ToolResult) -> Message:
    return Message("tool", (result,))


def _media(name: str, *media: Media) -> Feature:
    return Feature(name, (user(Text("See"), *media),), _parts)


def _called(*calls: ToolCall, **fields: Any) -> tuple[Message, ...]:
    results = [tool(ToolResult((Text("done"),), one.name, one.id)) for one in calls]
    return (ASK, *(assistant(one, **fields) for one in calls), *results)


def _answered(*content: Text | Media, is_error: bool | None = None) -> tuple[Message, ...]:
    return (ASK, assistant(CALL), tool(ToolResult(content, "f", "call_1", is_error)))


ASK = user(Text("Go"))
CALL = ToolCall("f", '{"a":  1}', "call_1")
SIGNED = replace(CALL, extra={"extra_content": {"google": {"thought_signature": "c2ln"}}})
DONE = tool(ToolResult((Text("done"),), "f", "call_1"))
ASIDE = {"type": "UserInputRequestedEvent", "source": "user", "request_id": "r1", "content": ""}
LATE = Message("system", (Text("Be brief"),))
DETAILS = [{"type": "reasoning.encrypted", "data": "c2ln"}]
USAGE = {"prompt_tokens": 30, "completion_tokens": 5}

LETTERS = "call, its arguments letter by letter"
FEATURES = [
    Feature(
        "text of system, user, assistant", (Message("system", (Text("Be kind"),)), ASK, assistant(Text("I go"))), _parts
    ),
    Feature("a second system message", (Message("system", (Text("Be kind"),)), ASK, LATE), _parts),
    Feature("several texts in one message", (user(Text("a"), Text("b")),), _parts),
    Feature("reasoning", (ASK, assistant(Reasoning("Where?")), assistant(Text("Here"))), _parts),
    Feature("reasoning between calls", (*_called(CALL), assistant(Reasoning("And?")), assistant(Text("So"))), _parts),
    Feature(
        "signatures of reasoning (`reasoning_details`)",
        (ASK, assistant(Reasoning("x"), extra={"reasoning_details": DETAILS})),
        _extra("reasoning_details"),
    ),
    Feature("signatures of calls (`extra_content`)", _called(SIGNED), _parts),
    _media("image, PNG in base64", Media("image", (f"data:image/png;base64,{PNG}",))),
    _media("image, JPEG in base64", Media("image", (f"data:image/jpeg;base64,{JPEG}",))),
    _media("image by URL", Media("image", ("https://example.org/a.png",))),
    _media("how closely to look (`detail`)", Media("image", ("https://example.org/a.png",), detail="low")),
    _media("audio in base64", Media("audio", (f"data:audio/wav;base64,{SOUND}",))),
    _media("audio by URL", Media("audio", ("https://example.org/a.wav",))),
    _media("video by URL", Media("video", ("https://example.org/a.mp4",))),
    _media("video as frames", Media("video", ("https://example.org/1.png", "https://example.org/2.png"), frames=True)),
    _media("file in base64", Media("file", (f"data:application/pdf;base64,{PDF}",))),
    _media("name of a file", Media("file", (f"data:application/pdf;base64,{PDF}",), name="a.pdf")),
    Feature(LETTERS, _called(CALL), _parts),
    Feature("arguments that are no JSON", _called(replace(CALL, arguments='{"a')), _parts),
    Feature("ids of calls and results", _called(CALL), _ids),
    Feature("parallel calls", _called(CALL, ToolCall("g", "{}", "call_2")), _parts),
    Feature("text before calls", (ASK, assistant(Text("I do")), *_called(CALL)[1:]), _parts),
    Feature(
        "place of what a user says between call and result", (ASK, assistant(CALL), user(Text("Wait")), DONE), _parts
    ),
    Feature("result", _answered(Text("done")), _parts),
    Feature("name of a result's function", _answered(Text("done")), _tools),
    Feature("result with an image", _answered(Text("see"), Media("image", (f"data:image/png;base64,{PNG}",))), _parts),
    Feature("that a result is an error", _answered(Text("no"), is_error=True), _errors),
    Feature("senders", (user(Text("Hi"), name="Alice"), assistant(Text("Ho"), name="Friday")), _senders),
    Feature(
        "which messages are one turn",
        (ASK, assistant(Text("a"), turn="t1"), assistant(Text("b"), turn="t1"), assistant(Text("c"), turn="t2")),
        _turns,
    ),
    Feature("refusal", (ASK, assistant(Text("No"), extra={"refusal": True})), _extra("refusal")),
    Feature(
        "developer's message", (Message("system", (Text("s"),), extra={"developer": True}), ASK), _extra("developer")
    ),
    Feature("id of a message", (user(Text("Hi"), extra={"message_id": "m1"}),), _extra("message_id")),
    Feature(
        "time of a message",
        (user(Text("Hi"), extra={"created_at": "2026-01-05T09:30:00+00:00"}),),
        _extra("created_at"),
    ),
    Feature("usage", (ASK, assistant(Text("Ho"), extra={"usage": USAGE})), _extra("usage")),
    Feature("metadata, strings", (user(Text("Hi"), extra={"metadata": {"k": "v"}}),), _extra("metadata")),
    Feature("metadata, any JSON", (user(Text("Hi"), extra={"k": [1, {"a": None}]}),), _extra("k")),
    Feature(
        "AutoGen's events that say nothing",
        (user(Text("Hi"), extra={"autogen_before": [ASIDE]}),),
        _extra("autogen_before"),
    ),
]


def verdict(feature: Feature, form: str) -> str:
    """`field`, `notes`, `refused` or `lost`, each perhaps `, warned`: a translation into this format warns of it."""
    if form in ("anthropic", "gemini") and feature.name != LETTERS:
        feature = replace_dataclass(feature, messages=tuple(map(_respelt, feature.messages)))
    given = [replace(one, path=f"messages[{at}]") for at, one in enumerate(feature.messages)]
    found = FORMATS[form].write(given, Options())
    items = json.loads(json.dumps(found.messages))
    warned = ", warned" if found.losses else ""
    if FORMATS[form].parse(items, Options()).violations:
        return "refused" + warned
    wanted = _seen(feature, feature.messages)
    if _again(feature, form, without_notes(items)) == wanted:
        return "field" + warned
    return ("notes" if _again(feature, form, items) == wanted else "lost") + warned


def _respelt(message: Message) -> Message:
    """With arguments as an object is written: that others change is a feature of its own."""
    parts = (
        replace(part, arguments=json.dumps(json.loads(part.arguments)))
        if isinstance(part, ToolCall) and is_json(part.arguments)
        else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def _again(feature: Feature, form: str, items: list[Any]) -> Any:
    return _seen(feature, FORMATS[form].parse(items, Options()).messages)


def _seen(feature: Feature, messages: Sequence[Message]) -> Any:
    found = [normalize_piece(piece) for message in messages for piece in split_message(message)]
    names = {part.id: part.name for one in found for part in one.parts if isinstance(part, ToolCall)}
    return feature.seen([_named(one, names) for one in found])


def _named(piece: Message, names: dict[str | None, str]) -> Message:
    """A result without a name is of the function that its call names."""
    parts = tuple(
        replace(part, name=part.name or names.get(part.id)) if isinstance(part, ToolResult) else part
        for part in piece.parts
    )
    return replace(piece, parts=parts)


def without_notes(value: Any) -> Any:
    """A list as it would be if the gateway had no notes in it."""
    if isinstance(value, list):
        return [without_notes(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _stripped(key, one) for key, one in value.items()}


def _stripped(key: str, value: Any) -> Any:
    if key == "metadata" and isinstance(value, dict):
        return {name: one for name, one in value.items() if name != "parley"}
    if key == "extra" and isinstance(value, dict):  # Qwen-Agent's own place for what it has no field for
        return {name: one for name, one in value.items() if name == "function_id"}
    return without_notes(value)
