"""Writes a conversation as OpenAI messages, for a client.

The other writer, `openai_messages.messages`, writes for one model server: its profile decides what is left out or
changed. This one keeps everything that the format can hold: reasoning, names, `developer`, refusals, ids and arguments
as they are, empty texts, and files without a name.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from app.chat import datauri
from app.chat.messages import Media, Message, Text, ToolResult
from app.errors import Violation
from app.formats.losses import find_extra_losses, find_moved_results
from app.formats.served_calls import find_served_ids, find_served_losses, is_served, join_result, write_note
from app.openai_messages.content_parts import add_mark, write_text, write_video
from app.openai_messages.grouping import group_messages
from app.openai_messages.groups import GroupedCall, MessageGroup
from app.openai_messages.messages import split_results, write_call

_WRITTEN_KEYS = frozenset({"reasoning_details", "extra_content", "arguments_valid", "developer", "refusal"})
_NO_FIELD = "cannot be written in OpenAI's format"


def find_losses(messages: Sequence[Message]) -> list[Violation]:
    """Return one violation for each loss, with the path of its message."""
    served = find_served_ids(messages)
    found = (loss for message in messages for loss in _find_message_losses(message, served))
    return [*found, *find_moved_results(messages)]


def _find_message_losses(message: Message, served: Collection[str | None]) -> Iterator[Violation]:
    for part in message.parts:
        yield from find_served_losses(part, message.path, served)
        if isinstance(part, ToolResult) and part.id not in served:
            if part.is_error:
                yield Violation(message.path, f"is_error {_NO_FIELD}")
            if any(isinstance(item, Media) for item in part.content):
                yield Violation(message.path, "media in a tool result moved into a user message after it")
    yield from find_extra_losses(message, _WRITTEN_KEYS, _NO_FIELD)


def write_messages(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Violation]]:
    """Return (messages, losses)."""
    groups, losses = group_messages(messages)
    losses = [*losses, *find_losses(messages)]
    served = _ServedTurns()
    written = [item for group in groups for item in served.write(group)]
    return [*written, *served.finish()], list(dict.fromkeys(losses))


class _ServedTurns:
    """Writes turns with calls that a gateway ran into `server_messages` of the message that ends their reply. Its
    content is the texts of all of them."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []

    def write(self, group: MessageGroup) -> Iterator[dict[str, Any]]:
        if not any(grouped.call.server is not None for grouped in group.calls):
            if self._entries and group.role == "assistant":
                message, *results = _write_group(group)
                yield self._end(message)
                yield from results
            else:
                yield from self.finish()
                yield from _write_group(group)
            return
        own = [grouped for grouped in group.calls if grouped.call.server is None]
        ids = {grouped.id for grouped in group.calls if is_served(grouped.call)}
        entry = {"content": _join_text(group), "tool_calls": [_write_served_call(grouped) for grouped in group.calls]}
        if group.reasonings:
            entry["reasoning_content"] = "\n".join(group.reasonings)
        if group.details:
            entry["reasoning_details"] = group.details
        self._add("assistant", entry)
        for id_, result in group.results:
            if id_ in ids:
                failed = {"is_error": True} if result.is_error else {}
                self._add("tool", {"tool_call_id": id_, "content": join_result(result), **failed})
        if own:
            calls = [write_call(one.id, one.call.name, one.call.arguments, one.call.extra) for one in own]
            yield self._end({"role": "assistant", "content": "", "tool_calls": calls})
            yield from _results(replace(group, results=[row for row in group.results if row[0] not in ids]))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield the message that ends a reply whose last turn was not followed by another."""
        if self._entries:
            yield self._end({"role": "assistant", "content": ""})

    def _add(self, role: str, entry: dict[str, Any]) -> None:
        self._entries.append({"index": len(self._entries), "role": role, **entry})

    def _end(self, message: dict[str, Any]) -> dict[str, Any]:
        turns = [entry for entry in self._entries if entry["role"] == "assistant"]
        content = "".join(turn["content"] for turn in turns)
        if isinstance(message.get("content"), list):
            message["content"] = [*([write_text(content)] if content else []), *message["content"]]
        else:
            message["content"] = content + (message.get("content") or "")
        reasoning = "".join(turn.get("reasoning_content", "") for turn in turns) + message.get("reasoning_content", "")
        if reasoning:
            message["reasoning_content"] = reasoning
        details = [one for turn in turns for one in turn.get("reasoning_details", ())]
        if details:
            message["reasoning_details"] = [*details, *message.get("reasoning_details", ())]
        message["server_messages"], self._entries = self._entries, []
        return message


def _join_text(group: MessageGroup) -> str:
    return "".join(part.text for run in group.texts for part in run if isinstance(part, Text))


def _write_served_call(grouped: GroupedCall) -> dict[str, Any]:
    call = grouped.call
    written = write_call(grouped.id, call.name, call.arguments, call.extra if call.server is None else write_note(call))
    return written | {"approval": "required"} if call.awaits_approval else written


def _write_group(group: MessageGroup) -> list[dict[str, Any]]:
    is_developer = group.role == "system" and "developer" in group.marks
    message: dict[str, Any] = {"role": "developer" if is_developer else group.role}
    if group.name:
        message["name"] = group.name
    parts = [part for run in group.texts for part in run]
    refusal = parts.pop() if "refusal" in group.marks and parts and isinstance(parts[-1], Text) else None
    content = _content(parts)
    if group.role == "assistant" and (group.calls or refusal) and not content:
        content = None
    message["content"] = content
    if isinstance(refusal, Text):
        message["refusal"] = refusal.text
    if group.reasonings:
        message["reasoning_content"] = "\n".join(group.reasonings)
    if group.details:
        message["reasoning_details"] = group.details
    if group.extra_content is not None:
        message["extra_content"] = group.extra_content
    if group.calls:
        message["tool_calls"] = [
            write_call(grouped.id, grouped.call.name, grouped.call.arguments, grouped.call.extra)
            for grouped in group.calls
        ]
    return [message, *_results(group)]


def _results(group: MessageGroup) -> list[dict[str, Any]]:
    """Write the tool messages, which have only text, and a user message with their media after them."""
    out: list[dict[str, Any]] = []
    lines_of_results, labelled = split_results(group.results)
    for (id_, _), lines in zip(group.results, lines_of_results, strict=True):
        marked = any(line.mark for line in lines)
        content = [_part(line) for line in lines] if marked else "\n".join(line.text for line in lines)
        out.append({"role": "tool", "tool_call_id": id_, "content": content})
    if labelled:
        out.append({"role": "user", "content": _content(labelled)})
    return out


def _content(parts: list[Text | Media]) -> Any:
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].mark:
        return parts[0].text
    return [_part(part) for part in parts]


def _part(part: Text | Media) -> dict[str, Any]:
    return add_mark(_write_part_without_mark(part), part.mark)


def _write_part_without_mark(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return write_text(part.text)
    url = part.urls[0]
    match part.media:
        case "image":
            return {"type": "image_url", "image_url": _add_given({"url": url}, detail=part.detail)}
        case "audio":
            return {"type": "input_audio", "input_audio": _write_audio(part)}
        case "file":
            return {"type": "file", "file": _add_given({"file_data": url}, filename=part.name)}
        case "video":
            return write_video(part)
        case _:
            assert_never(part.media)


def _write_audio(part: Media) -> dict[str, Any]:
    """Write base64 and its format, as OpenAI requires; a URL stays a URL."""
    url = part.urls[0]
    try:
        head = datauri.parse(url)
    except ValueError:
        return _add_given({"data": url}, format=part.format)
    format = part.format or datauri.AUDIO_FORMATS.get(head.media_type)
    if not head.base64 or format is None:
        return _add_given({"data": url}, format=part.format)
    return {"data": url[head.start :], "format": format}


def _add_given(body: dict[str, Any], **fields: str | None) -> dict[str, Any]:
    return body | {key: value for key, value in fields.items() if value is not None}
