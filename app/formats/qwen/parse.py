"""Parses Qwen-Agent messages, with the checks that need the whole list."""

from collections.abc import Sequence
from typing import Any

from app.chat.accumulator import is_json
from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.base import ParsedMessages
from app.formats.qwen.schema import OPENAI_CALLS, ContentItem, QwenMessage
from app.formats.qwen.sidecar import EMPTY_SIDECAR, EXTRA_CONTENT, QwenSidecar, apply_notes, read_sidecar
from app.formats.request_memory import keep, resume
from app.formats.served_calls import read_note
from app.validation.violations import json_path

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "function": "tool"}


def parse_messages(wire: Sequence[QwenMessage | None], given: Sequence[Any] = ()) -> ParsedMessages:
    """Parse messages. With violations they must not be used. `given` has each one as it is in the body, with which what
    was read of them is remembered.

    None in `wire` is a message that was refused already; violations that it may have caused are not reported.
    """
    known, before, places = resume(given, parse_messages)
    parser, messages = (_MessageParser(), []) if before is None else (before[0].copy(), list(before[1]))
    for number, item in enumerate(wire[known:], known):
        if item is None:
            parser.skipped = True
        else:
            messages.append(parser.parse(number, item))
        if number + 1 in places and not parser.violations and not parser.skipped:
            keep(given, number + 1, parse_messages, (parser.copy(), tuple(messages)))
    parser.check_order(wire)
    return ParsedMessages(tuple(messages), parser.violations, parser.warnings, has_waiting=parser.has_waiting)


class _MessageParser:
    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.has_waiting = False
        """A call is marked as waiting for approval."""
        self.warnings: list[str] = []
        self._names: dict[str, str] = {}
        self.skipped = False
        """Whether an earlier message was refused."""

    def copy(self) -> "_MessageParser":
        """Return another parser that goes on from here. There are no violations, and no message was refused."""
        copied = _MessageParser()
        copied.has_waiting = self.has_waiting
        copied.warnings, copied._names = self.warnings.copy(), self._names.copy()
        return copied

    def parse(self, number: int, item: QwenMessage) -> Message:
        path = f"messages[{number}]"
        sidecar, extra = read_sidecar(item.extra) if item.extra else (EMPTY_SIDECAR, {})
        id_ = self._function_id(extra, path) if extra else None
        for key, value in item.model_extra.items() if item.model_extra else ():
            if key == "tool_calls" and value:
                self.violations.append(Violation(f"{path}.tool_calls", OPENAI_CALLS))
                continue
            self.warnings.append(f"{json_path([key], path)} is not a field of a Qwen-Agent message and was ignored")
        parts: list[Part] = []
        if item.reasoning_content and (reasoning := self._reasoning(item, path)):
            parts.append(Reasoning(reasoning))
        content = _parse_content(item.content, path)
        if sidecar.media:
            content = apply_notes(content, sidecar)
        if item.role == "function":
            name = self._find_result_name(item, id_, path)
            parts.append(ToolResult(content, name, id_, _flag(extra.get("is_error"))))
        else:
            parts += content
        if item.function_call is not None:
            parts.append(self._call(item, id_, path, sidecar))
        turn = extra.get("turn")
        turn = turn if isinstance(turn, str) and turn else None
        return Message(_ROLES[item.role], tuple(parts), item.name, turn, path, _unread_extra(extra, item, id_, turn))

    def _function_id(self, extra: dict[str, Any], path: str) -> str | None:
        id_ = extra.get("function_id")
        if id_ is None or isinstance(id_, str):
            return id_ or None
        if isinstance(id_, int) and not isinstance(id_, bool):
            return str(id_)
        self.violations.append(Violation(f"{path}.extra.function_id", "must be a string"))
        return None

    def _reasoning(self, item: QwenMessage, path: str) -> str:
        content = item.reasoning_content
        if item.role != "assistant":
            self.warnings.append(f"{path}.reasoning_content was not sent: only an assistant message can have it")
            return ""
        if isinstance(content, str):
            return content
        for place, one in enumerate(content or ()):
            if one.text is None:
                self.violations.append(Violation(f"{path}.reasoning_content[{place}]", "reasoning can only be text"))
        return "".join(one.text or "" for one in content or ())

    def _find_result_name(self, item: QwenMessage, id_: str | None, path: str) -> str | None:
        name = item.name or (self._names.get(id_) if id_ else None)
        if not name and not (id_ and self.skipped):
            text = "is required: set it to the function's name, or extra.function_id to the id of an earlier call"
            self.violations.append(Violation(f"{path}.name", text))
        return name

    def _call(self, item: QwenMessage, id_: str | None, path: str, sidecar: QwenSidecar) -> ToolCall:
        call = item.function_call
        assert call is not None
        if item.role != "assistant":
            self.violations.append(Violation(f"{path}.function_call", "only an assistant message can have it"))
        if id_:
            self._names[id_] = call.name
        if call.arguments.strip() and not is_json(call.arguments):
            self.warnings.append(f"{path}.function_call.arguments is not valid JSON")
        extra = item.extra or {}
        opaque = sidecar.call | ({EXTRA_CONTENT: extra[EXTRA_CONTENT]} if EXTRA_CONTENT in extra else {})
        waits = extra.get("approval") == "required"
        call_ = read_note(ToolCall(call.name, call.arguments, id_, opaque, awaits_approval=waits))
        self.has_waiting = self.has_waiting or call_.awaits_approval
        return call_

    def check_order(self, wire: Sequence[QwenMessage | None]) -> None:
        """Check Qwen-Agent's rules: at most one system message, and a user message directly after it."""
        systems = [number for number, item in enumerate(wire) if item and item.role == "system"]
        for number in systems[1:]:
            self.violations.append(Violation(f"messages[{number}].role", "there can be only one system message"))
        first, item = next(((at, one) for at, one in enumerate(wire) if not one or one.role != "system"), (0, None))
        if item is not None and item.role != "user":
            text = "the first message after the system message must be a user message"
            self.violations.append(Violation(f"messages[{first}].role", text))


def _unread_extra(extra: dict[str, Any], item: QwenMessage, id_: str | None, turn: str | None) -> dict[str, Any]:
    """Return `extra` without the keys that the message or its part has as a field."""
    if not extra:
        return extra
    read = {"turn"} if turn else set()
    if item.role == "function" or item.function_call is not None:
        read |= {"function_id"} if id_ else set()
    if item.role == "function" and _flag(extra.get("is_error")) is not None:
        read.add("is_error")
    if item.function_call is not None:
        read.add(EXTRA_CONTENT)
    return {key: value for key, value in extra.items() if key not in read}


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _parse_content(content: str | list[ContentItem] | None, path: str) -> tuple[Text | Media, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(_parse_content_item(one, f"{path}.content[{place}]") for place, one in enumerate(content or ()))


def _parse_content_item(item: ContentItem, path: str) -> Text | Media:
    if item.text is not None:
        return Text(item.text)
    if item.image is not None:
        return Media("image", (item.image,), path=f"{path}.image")
    if item.file is not None:
        return Media("file", (item.file,), path=f"{path}.file")
    if isinstance(item.audio, dict):
        return Media("audio", (item.audio["data"],), format=item.audio.get("format"), path=f"{path}.audio")
    if item.audio is not None:
        return Media("audio", (item.audio,), path=f"{path}.audio")
    if isinstance(item.video, list):
        return Media("video", tuple(item.video), frames=True, path=f"{path}.video")
    return Media("video", (item.video or "",), path=f"{path}.video")
