"""Parses the items of OpenAI's Responses API.

Everything that the assistant said between two items of others is one turn: its reasoning, texts and calls.
"""

import json
from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from app.chat import datauri
from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.chat.turns import Turn
from app.formats.responses import schema as wire
from app.formats.responses.schema import is_url
from app.formats.responses.tools import join_name
from app.formats.seal import read_seal
from app.validation import find_unknown_keys

_ROLES: dict[str, Role] = {"developer": "system"}


def parse_items(items: Sequence[Any]) -> tuple[tuple[Message, ...], list[str]]:
    """Return (messages, warnings)."""
    parser = _ItemParser()
    for number, item in enumerate(items):
        parser.add(f"messages[{number}]", item)
    return parser.finish(), parser.warnings


class _ItemParser:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._messages: list[Message] = []
        self._turn: list[Message] = []
        """What the assistant said since the last item of others; each text item begins a message."""
        self._signatures: dict[str, Any] = {}
        """`extra_content` of calls, by their ids, that clients return in sealed reasoning."""

    def finish(self) -> tuple[Message, ...]:
        self._close()
        return tuple(self._messages)

    def add(self, path: str, item: Any) -> None:
        if not isinstance(item, wire.HostedItem):
            self._warn_unknown_keys(item, path)
        match item:
            case wire.MessageItem(role="assistant"):
                self._add_text(path, item)
            case wire.MessageItem():
                self._add_message(path, item)
            case wire.ReasoningItem():
                self._add_reasoning(path, item)
            case wire.FunctionCallItem():
                self._add_call(path, item, item.arguments)
            case wire.CustomCallItem():
                self._add_call(path, item, json.dumps({"input": item.input}, ensure_ascii=False))
            case wire.CallOutputItem():
                self._close()
                content = tuple(_parse_content(item.output, f"{path}.output"))
                self._messages.append(Message("tool", (ToolResult(content, item.name, item.call_id),), path=path))
            case wire.HostedItem():
                text = f"an item of type {item.type} is for a provider's own servers, and was left out"
                self.warnings.append(f"{path}: {text}")
            case _:
                assert_never(item)

    def _warn_unknown_keys(self, item: Any, path: str) -> None:
        self.warnings += (
            f"{place} is not a field of this item and was ignored" for place in find_unknown_keys(item, path)
        )

    def _close(self) -> None:
        """End the assistant's turn."""
        if not self._turn:
            return
        turn = [replace(one, parts=tuple(map(self._sign, one.parts))) for one in self._turn]
        if not _are_one_turn(turn):
            turn = [replace(one, turn=turn[0].path) for one in turn]
        self._messages += turn
        self._turn, self._signatures = [], {}

    def _sign(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.extra or part.id not in self._signatures:
            return part
        return replace(part, extra={"extra_content": self._signatures[part.id]})

    def _say(self, path: str, *parts: Part, **extra: Any) -> None:
        """Add to the last message of the turn."""
        if not self._turn:
            self._turn.append(Message("assistant", (), path=path))
        last = self._turn[-1]
        self._turn[-1] = replace(last, parts=(*last.parts, *parts), extra={**last.extra, **extra})

    def _add_message(self, path: str, item: wire.MessageItem) -> None:
        self._close()
        role: Role = _ROLES.get(item.role) or item.role  # type: ignore[assignment]  # the others keep their names
        extra = {"developer": True} if item.role == "developer" else {}
        self._messages.append(
            Message(role, tuple(_parse_content(item.content, f"{path}.content")), path=path, extra=extra)
        )

    def _add_text(self, path: str, item: wire.MessageItem) -> None:
        if self._turn and any(isinstance(part, Text | Media) for part in self._turn[-1].parts):
            self._turn.append(Message("assistant", (), path=path))
        extra: dict[str, Any] = {"extra_content": item.extra_content} if item.extra_content else {}
        if isinstance(item.content, list) and item.content and isinstance(item.content[-1], wire.Refusal):
            extra["refusal"] = True
        self._say(path, *_parse_content(item.content, f"{path}.content"), **extra)

    def _add_call(self, path: str, item: wire.FunctionCallItem | wire.CustomCallItem, arguments: str) -> None:
        self._say(path, ToolCall(join_name(item.namespace, item.name), arguments, item.call_id, path=path))

    def _add_reasoning(self, path: str, item: wire.ReasoningItem) -> None:
        seal = read_seal(item.encrypted_content) if item.encrypted_content else None
        text = _join_texts(item.content) or (seal and seal.text) or _join_texts(item.summary, "\n\n")
        details = seal.details if seal else []
        if seal and seal.calls:
            self._signatures |= seal.calls
            self._say(path)
        if not text and not details:
            if item.encrypted_content and seal is None:
                self.warnings.append(f"{path}: reasoning that another provider has encrypted was left out")
            return
        known = self._turn[-1].extra.get("reasoning_details", ()) if self._turn else ()
        extra = {"reasoning_details": [*known, *details]} if details else {}
        self._say(path, *([Reasoning(text)] if text else ()), **extra)


def _are_one_turn(messages: Sequence[Message]) -> bool:
    """Whether the parts are taken for one turn without a name of it, also when each is a message of its own."""
    turn = Turn(messages[0])
    for message in messages:
        for part in message.parts:
            if not turn.accepts(message, (part,)):
                return False
            turn.add((part,))
    return True


def _join_texts(parts: Sequence[Any] | None, joiner: str = "\n") -> str:
    return joiner.join(part.text for part in parts or () if isinstance(part, wire.InputText))


def _parse_content(content: "str | Sequence[wire.Part]", path: str) -> "list[Text | Media]":
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_parse_part(part, f"{path}[{place}]") for place, part in enumerate(content)]


def _parse_part(part: Any, path: str) -> Text | Media:
    match part:
        case wire.InputText():
            return Text(part.text)
        case wire.Refusal():
            return Text(part.refusal)
        case wire.InputImage():
            detail = None if part.detail == "auto" else part.detail  # "auto" is the default
            return Media("image", (part.image_url or "",), detail=detail, path=f"{path}.image_url")
        case wire.InputFile():
            field = "file_url" if part.file_data is None else "file_data"
            url = part.file_url or ""
            if part.file_data is not None:
                url = part.file_data if is_url(part.file_data) else _make_data_uri(part.file_data, part.filename)
            return Media("file", (url,), name=part.filename, path=f"{path}.{field}")
        case wire.InputAudio():
            audio = part.input_audio
            return Media("audio", (audio.data,), format=audio.format, path=f"{path}.input_audio")
        case wire.InputVideo():
            return Media("video", (part.video_url,), path=f"{path}.video_url")
    assert_never(part)


def _make_data_uri(base64: str, filename: str | None) -> str:
    """Name the media type of bare base64 after the file's extension."""
    extension = (filename or "").rpartition(".")[2].lower()
    types = (media_type for media_type, known in datauri.EXTENSIONS.items() if known == extension)
    return f"data:{next(types, 'application/octet-stream')};base64,{base64}"
