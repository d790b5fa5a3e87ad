"""Parses OpenAI messages."""

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from app.chat.messages import CacheMark, Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.openai import schema as wire
from app.validation.violations import find_unknown_keys

_ROLES: dict[str, Role] = {"developer": "system", "function": "tool"}
_KNOWN_CALL_KEYS = {"index"}


def parse_messages(messages: Sequence[wire.OpenAIMessage]) -> tuple[tuple[Message, ...], list[Violation], list[str]]:
    """Return (messages, violations, warnings)."""
    parser = _OpenAIParser()
    roles = ["", *[message.role for message in messages], ""]
    parsed = tuple(
        # Grouping could take two assistant messages in a row for the same turn.
        parser.parse(number, item, turn="assistant" in (roles[number], roles[number + 2]))
        for number, item in enumerate(messages)
    )
    return parsed, parser.violations, parser.warnings


class _OpenAIParser:
    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.warnings: list[str] = []

    def parse(self, number: int, item: wire.OpenAIMessage, *, turn: bool) -> Message:
        path = f"messages[{number}]"
        if item.model_extra:
            self.warnings += (
                f"{path}.{key} is not a field of an OpenAI message and was ignored"
                for key, value in item.model_extra.items()
                if value not in (None, [], {}, "")
            )
        if isinstance(item.content, list):
            self._warn_unknown_keys(item.content, f"{path}.content", "a content part")
        for place, call in enumerate(item.tool_calls or ()):
            if call.function.model_extra:
                self._warn_unknown_keys(call.function, f"{path}.tool_calls[{place}].function", "a function call")
        if item.function_call is not None:
            self._warn_unknown_keys(item.function_call, f"{path}.function_call", "a function call")
        role: Role = _ROLES.get(item.role) or item.role  # type: ignore[assignment]  # the others keep their names
        content = _parse_content(item, path)
        self._misplaced(item, path)
        if role == "tool":
            return Message("tool", (ToolResult(content, item.name, item.tool_call_id),), path=path)
        parts: list[Part] = []
        reasoning = item.reasoning_content or item.reasoning
        if reasoning and role == "assistant":
            parts.append(Reasoning(reasoning))
        parts += content
        parts += self._calls(item, path)
        extra: dict[str, Any] = {"reasoning_details": item.reasoning_details} if item.reasoning_details else {}
        if item.extra_content and role == "assistant":
            extra["extra_content"] = item.extra_content
        if item.role == "developer":
            extra["developer"] = True
        if _is_refusal(item):
            extra["refusal"] = True
        turn_id = path if turn and role == "assistant" else None
        return Message(role, tuple(parts), item.name, turn_id, path, extra)

    def _misplaced(self, item: wire.OpenAIMessage, path: str) -> None:
        """Warn of fields that only a message of another role can have."""
        for key in ("reasoning_content", "reasoning", "reasoning_details", "extra_content"):
            if item.role != "assistant" and getattr(item, key):
                self.warnings.append(f"{path}.{key} was not sent: only an assistant message can have it")
        if item.role not in ("tool", "function") and item.tool_call_id:
            self.warnings.append(f"{path}.tool_call_id was not sent: only a message of role tool can have it")

    def _warn_unknown_keys(self, value: Any, path: str, owner: str) -> None:
        self.warnings += (
            f"{place} is not a field of {owner} and was ignored" for place in find_unknown_keys(value, path)
        )

    def _calls(self, item: wire.OpenAIMessage, path: str) -> list[ToolCall]:
        calls = [
            ToolCall(
                call.function.name,
                call.function.arguments,
                call.id,
                _opaque_fields(call),
                path=f"{path}.tool_calls[{place}]",
            )
            for place, call in enumerate(item.tool_calls or ())
        ]
        if item.function_call is not None:
            calls.append(ToolCall(item.function_call.name, item.function_call.arguments))
        return calls


def _is_refusal(item: wire.OpenAIMessage) -> bool:
    parts = item.content if isinstance(item.content, list) else []
    return bool(item.refusal) or (bool(parts) and isinstance(parts[-1], wire.RefusalPart))


def _opaque_fields(call: wire.ToolCallWire) -> dict[str, Any]:
    """Return the fields of a call that its provider wants back (Gemini's `extra_content`)."""
    return {key: value for key, value in (call.model_extra or {}).items() if key not in _KNOWN_CALL_KEYS}


def _parse_content(item: wire.OpenAIMessage, path: str) -> tuple[Text | Media, ...]:
    content = item.content
    if isinstance(content, str):
        parts: tuple[Text | Media, ...] = (Text(content),) if content else ()
    else:
        parts = tuple(_parse_part(part, f"{path}.content[{place}]") for place, part in enumerate(content or ()))
    return (*parts, Text(item.refusal)) if item.refusal else parts


def _parse_part(part: Any, path: str) -> Text | Media:
    found = _parse_part_without_mark(part, path)
    if not part.cache_control:
        return found
    return replace(found, mark=CacheMark(part.cache_control, f"{path}.cache_control"))


def _parse_part_without_mark(part: Any, path: str) -> Text | Media:
    match part:
        case wire.TextPart():
            return Text(part.text)
        case wire.RefusalPart():
            return Text(part.refusal)
        case wire.ImagePart():
            return Media("image", (part.image_url.url,), detail=part.image_url.detail, path=f"{path}.image_url")
        case wire.VideoPart():
            return Media("video", (part.video_url.url,), path=f"{path}.video_url")
        case wire.FramesPart():
            return Media("video", tuple(part.video), frames=True, path=f"{path}.video")
        case wire.AudioPart():
            audio = part.input_audio
            return Media("audio", (audio.data,), format=audio.format, path=f"{path}.input_audio")
        case wire.AudioUrlPart():
            return Media("audio", (part.audio_url.url,), path=f"{path}.audio_url")
        case wire.FilePart():
            return Media("file", (part.file.file_data or "",), name=part.file.filename, path=f"{path}.file")
    assert_never(part)
