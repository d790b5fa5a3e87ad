"""Parses OpenAI messages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

from msgspec.structs import replace

from app.chat.accumulator import is_json_object
from app.chat.messages import CacheMark, Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.base import ParsedMessages
from app.formats.openai import schema as wire
from app.formats.openai.plain import PlainAssistant, PlainCall, PlainResult, PlainSpeaker, PlainText
from app.formats.request_memory import keep, resume
from app.formats.served_calls import guess_tool, read_note
from app.validation.violations import find_unknown_keys

_ROLES: dict[str, Role] = {"developer": "system", "function": "tool"}
AnyMessage: TypeAlias = wire.OpenAIMessage | PlainSpeaker | PlainAssistant | PlainResult
_KNOWN_CALL_KEYS = {"index", "approval"}


def parse_messages(messages: Sequence[AnyMessage], given: Sequence[Any] = ()) -> ParsedMessages:
    """Parse messages. `given` has each one as it is in the body, with which what was read of them is remembered."""
    known, before, places = resume(given, parse_messages)
    parser = _OpenAIParser()
    parsed: list[Message] = []
    if before is not None:
        parsed += before.messages
        parser.warnings += before.warnings
        parser.has_waiting = before.has_waiting
    ends = {_find_place(messages, place) for place in places}
    role = messages[known - 1].role if known else ""
    for number, item in enumerate(messages[known:], known):
        # Grouping could take two assistant messages in a row for the same turn.
        after = messages[number + 1].role if number + 1 < len(messages) else ""
        message = parser.parse(number, item, turn="assistant" in (role, after))
        if item.server_messages:
            parsed += parser.add_server_messages(message, item.server_messages)
        elif message.role == "user" and ToolResult in map(type, message.parts):
            parsed += _split_results(message)
        else:
            parsed.append(message)
        role = item.role
        if number + 1 in ends:
            state = ParsedMessages(tuple(parsed), (), tuple(parser.warnings), has_waiting=parser.has_waiting)
            keep(given, number + 1, parse_messages, state)
    return ParsedMessages(tuple(parsed), (), parser.warnings, has_waiting=parser.has_waiting)


def _find_place(messages: Sequence[AnyMessage], place: int) -> int:
    """Return the last place up to this one that is not after a message of the assistant, which the next one changes."""
    while place and messages[place - 1].role == "assistant":
        place -= 1
    return place


def _split_results(message: Message) -> Iterator[Message]:
    """Yield the results in a message of the user, then what else it says."""
    results = tuple([part for part in message.parts if type(part) is ToolResult])
    yield Message("tool", results, path=message.path)
    rest = tuple([part for part in message.parts if type(part) is not ToolResult])
    if rest:
        yield replace(message, parts=rest)


class _OpenAIParser:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.has_waiting = False
        """A call is marked as waiting for approval."""

    def parse(self, number: int, item: AnyMessage, *, turn: bool) -> Message:
        path = f"messages[{number}]"
        if item.model_extra:
            self.warnings += (
                f"{path}.{key} is not a field of an OpenAI message and was ignored"
                for key, value in item.model_extra.items()
                if value not in (None, [], {}, "")
            )
        if isinstance(item.content, list):
            self._warn_unknown_keys(item.content, f"{path}.content", "a content part")
        calls: Sequence[wire.ToolCallWire | PlainCall] = item.tool_calls or ()
        for place, call in enumerate(calls):
            if call.function.model_extra:
                self._warn_unknown_keys(call.function, f"{path}.tool_calls[{place}].function", "a function call")
        if item.function_call is not None:
            self._warn_unknown_keys(item.function_call, f"{path}.function_call", "a function call")
        role: Role = _ROLES.get(item.role) or item.role  # type: ignore[assignment]  # the others keep their names
        self._misplaced(item, path)
        if role == "tool":
            said = _parse_parts(item.content, path)
            said = (*said, Text(item.refusal)) if item.refusal else said
            return Message("tool", (ToolResult(said, item.name, item.tool_call_id),), path=path)
        content = _parse_content(item, path)
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

    def add_server_messages(self, message: Message, entries: Sequence[wire.ServerMessage]) -> Iterator[Message]:
        """Yield the turns and results of a reply whose tools the gateway ran, then what the message says after them.

        The message has the texts of all turns. If it does not begin with those of the entries, the caller has edited
        them: then its own texts count, and the turns are only their calls.
        """
        turns = [entry for entry in entries if entry.role == "assistant"]
        texts = [_join_text(entry.content) for entry in turns]
        content, has_texts = _cut_start(message.parts, Text, "".join(texts))
        rest, has_thoughts = _cut_start(content, Reasoning, "".join([turn.reasoning_content or "" for turn in turns]))
        own = {part.id for part in message.parts if isinstance(part, ToolCall)}
        known = {call.id for entry in turns for call in entry.tool_calls or ()}
        rest = tuple(part for part in rest if not isinstance(part, ToolCall) or part.id not in known)
        extra, has_details = _cut_details(
            message.extra, [one for turn in turns for one in turn.reasoning_details or ()]
        )
        for place, entry in enumerate(entries):
            path = f"{message.path}.server_messages[{place}]"
            if entry.role == "tool":
                result = ToolResult(_parse_parts(entry.content, path), None, entry.tool_call_id, entry.is_error)
                yield Message("tool", (result,), path=path)
                continue
            calls = [
                call if call.id in own else _read_served_call(call) for call in _read_calls(entry.tool_calls, path)
            ]
            self.has_waiting = self.has_waiting or any(call.awaits_approval for call in calls)
            is_last = not rest and entry is turns[-1]
            yield Message(
                "assistant",
                (
                    *((Reasoning(entry.reasoning_content),) if entry.reasoning_content and has_thoughts else ()),
                    *(_parse_parts(entry.content, path) if has_texts else ()),
                    *calls,
                ),
                message.name,
                path,
                path,
                _merge_details(extra if is_last else {}, entry.reasoning_details if has_details else None),
            )
        if rest or (extra and not turns):
            yield replace(message, parts=rest, turn=message.path, extra=extra)

    def _misplaced(self, item: AnyMessage, path: str) -> None:
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

    def _calls(self, item: AnyMessage, path: str) -> list[ToolCall]:
        calls = _read_calls(item.tool_calls, path)
        if item.function_call is not None:
            calls.append(ToolCall(item.function_call.name, item.function_call.arguments))
        return calls


def _read_calls(calls: "Sequence[wire.ToolCallWire | PlainCall] | None", path: str) -> list[ToolCall]:
    return [
        ToolCall(
            call.function.name,
            call.function.arguments,
            call.id,
            _opaque_fields(call),
            path=f"{path}.tool_calls[{place}]",
            awaits_approval=(call.model_extra or {}).get("approval") == "required",
        )
        for place, call in enumerate(calls or ())
    ]


def _read_served_call(call: ToolCall) -> ToolCall:
    noted = read_note(call)
    return guess_tool(noted) if noted.server is None else noted


def _join_text(content: Any) -> str:
    """Return the text of a content; that of parts without media."""
    if not isinstance(content, list):
        return content or ""
    return "".join([part.text for part in content if isinstance(part, wire.TextPart)])


def _cut_start(parts: tuple[Part, ...], kind: type[Text | Reasoning], start: str) -> tuple[tuple[Part, ...], bool]:
    """Return the parts without this text at the beginning of those of a kind, and whether they begin with it."""
    left = start
    out: list[Part] = []
    for part in parts:
        if left and isinstance(part, kind):
            if part.text.startswith(left):
                part, left = replace(part, text=part.text[len(left) :]), ""
            elif left.startswith(part.text):
                part, left = replace(part, text=""), left[len(part.text) :]
            else:
                return parts, False
            if not part.text:
                continue
        out.append(part)
    return (parts, False) if left else (tuple(out), True)


def _cut_details(extra: Mapping[str, Any], start: list[Any]) -> tuple[dict[str, Any], bool]:
    """Return the fields of a message without these `reasoning_details` at the beginning of its own, and whether it has
    them."""
    details = extra.get("reasoning_details") or []
    if details[: len(start)] != start:
        return dict(extra), False
    rest = {key: value for key, value in extra.items() if key != "reasoning_details"}
    return _merge_details(rest, details[len(start) :]), True


def _merge_details(extra: dict[str, Any], details: list[Any] | None) -> dict[str, Any]:
    return extra | {"reasoning_details": [*details, *extra.get("reasoning_details", ())]} if details else extra


def _is_refusal(item: AnyMessage) -> bool:
    parts = item.content if isinstance(item.content, list) else []
    return bool(item.refusal) or (bool(parts) and type(parts[-1]) is wire.RefusalPart)


def _opaque_fields(call: wire.ToolCallWire | PlainCall) -> dict[str, Any]:
    """Return the fields of a call that its provider wants back (Gemini's `extra_content`)."""
    return {key: value for key, value in (call.model_extra or {}).items() if key not in _KNOWN_CALL_KEYS}


def _parse_content(item: AnyMessage, path: str) -> tuple[Part, ...]:
    content = item.content
    if isinstance(content, list) and not _TOOL_PARTS.isdisjoint(map(type, content)):
        parts = tuple([_parse_any_part(part, f"{path}.content[{place}]") for place, part in enumerate(content)])
    else:
        parts = _parse_parts(content, path)
    return (*parts, Text(item.refusal)) if item.refusal else parts


_TOOL_PARTS = {wire.ToolUsePart, wire.ToolResultPart}


def _parse_any_part(part: Any, path: str) -> Part:
    """Parse a part of a message, which may be a call or a result in the form of Anthropic's Messages."""
    if type(part) is wire.ToolUsePart:
        given = part.input
        arguments = given if isinstance(given, str) and is_json_object(given) else json.dumps(given, ensure_ascii=False)
        return ToolCall(part.name, arguments, part.id, path=path)
    if type(part) is wire.ToolResultPart:
        content = _parse_parts(part.content, path)
        if part.is_error and not content:
            content = (Text("Error"),)  # it must not look like a success
        return ToolResult(content, None, part.tool_use_id, part.is_error)
    return _parse_part(part, path)


def _parse_parts(content: Any, path: str) -> tuple[Text | Media, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(_parse_part(part, f"{path}.content[{place}]") for place, part in enumerate(content or ()))


def _parse_part(part: Any, path: str) -> Text | Media:
    found = _parse_part_without_mark(part, path)
    if not part.cache_control:
        return found
    return replace(found, mark=CacheMark(part.cache_control, f"{path}.cache_control"))


def _parse_part_without_mark(part: Any, path: str) -> Text | Media:
    # Pydantic's models answer `isinstance` in Python, if they are of another class.
    if type(part) in (PlainText, wire.TextPart):
        return Text(part.text)
    match part:
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
