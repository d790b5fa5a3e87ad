"""Writes a conversation as Anthropic's messages.

The first system message is the field `system` of a request; here it is a message like the others. A thinking block has
a seal as its signature, with what its provider wants back.
"""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from app.chat import datauri
from app.chat.accumulator import parse_arguments
from app.chat.messages import ERROR_TEXT, Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.anthropic.parse import INVALID_ARGUMENTS
from app.formats.base import Options, WrittenMessages
from app.formats.losses import find_extra_losses, find_moved_results, find_object_losses
from app.formats.seal import Seal, write_seal
from app.formats.served_calls import find_served_ids, find_served_losses, is_served, join_result
from app.openai_messages.grouping import group_messages
from app.openai_messages.groups import MessageGroup

Json = dict[str, Any]
_WRITTEN_KEYS = frozenset({"reasoning_details", "extra_content", "arguments_valid"})
_NO_FIELD = "cannot be written in Anthropic's format"
_MEDIA_TYPES = {"image": "image/png", "file": "application/octet-stream"}
"""The media types of data URIs that name none."""


def write_messages(messages: Sequence[Message], options: Options) -> WrittenMessages:
    groups, losses = group_messages(messages)
    losses = [*losses, *_find_losses(messages), *_find_merged_turns(groups), *find_moved_results(messages)]
    written: list[Json] = []
    goes_on = False
    for group in groups:
        messages_ = list(_write_group(group))
        if goes_on and group.role == "assistant" and messages_:
            written[-1]["content"] += _list_blocks(messages_.pop(0)["content"])
        written += messages_
        goes_on = bool(_find_served(group)) and written[-1]["role"] == "assistant"
    return WrittenMessages(written, list(dict.fromkeys(losses)))


def _list_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _find_served(group: MessageGroup) -> set[str]:
    """Return the ids of the calls that a gateway ran: their results are in the same message."""
    return {grouped.id for grouped in group.calls if is_served(grouped.call)}


def _write_group(group: MessageGroup) -> Iterator[Json]:
    served = _find_served(group)
    blocks = _write_assistant(group) if group.role == "assistant" else _write_texts(group)
    blocks += [_write_served_result(id_, result) for id_, result in group.results if id_ in served]
    results = [_write_result(id_, result) for id_, result in group.results if id_ not in served]
    if blocks:
        plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        yield {"role": group.role, "content": blocks[0]["text"] if plain else blocks}
    if results:
        yield {"role": "user", "content": results}


def _write_texts(group: MessageGroup) -> list[Json]:
    return [block for run in group.texts for part in run for block in _write_part(part)]


def _write_assistant(group: MessageGroup) -> list[Json]:
    blocks: list[Json] = []
    calls = iter(group.calls)
    thoughts = _Thoughts(blocks)
    for message in group.sources:
        details = message.extra.get("reasoning_details")
        thoughts.details = list(details) if isinstance(details, list) else []
        if thoughts.details and not any(isinstance(part, Reasoning) and part.text for part in message.parts):
            thoughts.add("")
        fields = message.extra.get("extra_content")
        for part in message.parts:
            if isinstance(part, Reasoning):
                if part.text:
                    thoughts.add(part.text)
            elif isinstance(part, ToolCall):
                grouped = next(calls)
                if part.extra.get("extra_content") is not None:
                    thoughts.add_call(grouped.id, part.extra["extra_content"])
                blocks.append(_write_call(grouped.id, part))
            elif isinstance(part, Text | Media):
                if fields is not None and isinstance(part, Text) and part.text:
                    thoughts.add_text(fields)
                    fields = None
                blocks += _write_part(part)
    return blocks


def _write_call(id_: str, call: ToolCall) -> Json:
    arguments = parse_arguments(call.arguments)
    if call.server is None or call.awaits_approval:
        found = {"_raw": call.arguments} if arguments is None else arguments
        return {"type": "tool_use", "id": id_, "name": call.name, "input": found}
    found = {INVALID_ARGUMENTS: call.arguments} if arguments is None else arguments
    return {"type": "mcp_tool_use", "id": id_, "name": call.tool, "server_name": call.server, "input": found}


class _Thoughts:
    """The thinking blocks of one assistant message. The seal of one takes the fields of the calls after it."""

    def __init__(self, blocks: list[Json]) -> None:
        self._blocks = blocks
        self._last: Json | None = None
        self._contents = Seal()
        self.details: list[Any] = []
        """What the next block takes."""

    def add(self, text: str) -> None:
        """Add a block; one without text is only its seal."""
        self._last = {"type": "thinking", "thinking": text} if text else {"type": "redacted_thinking"}
        self._blocks.append(self._last)
        self._seal(Seal(details=self.details))
        self.details = []

    def add_call(self, id_: str, fields: Any) -> None:
        if self._last is None:
            self.add("")
        contents = self._contents
        self._seal(Seal(None, contents.details, {**contents.calls, id_: fields}, contents.texts))

    def add_text(self, fields: Any) -> None:
        """Seal the opaque fields of the next text: in the block before it, or in one of their own."""
        if self._last is None or self._blocks[-1] is not self._last:
            self.add("")
        contents = self._contents
        self._seal(Seal(None, contents.details, contents.calls, [*contents.texts, fields]))

    def _seal(self, contents: Seal) -> None:
        assert self._last is not None
        self._contents = contents
        self._last["signature" if self._last["type"] == "thinking" else "data"] = write_seal(contents)


def _write_part(part: Text | Media) -> list[Json]:
    """Write text or media; there are no blocks for audio and video."""
    if isinstance(part, Text):
        block: Json = {"type": "text", "text": part.text}
        written = [block] if part.text else []
    elif part.media == "file":
        title = {"title": part.name} if part.name else {}
        written = [{"type": "document", **title, "source": _write_source(part, part.urls[0])}]
    elif part.media == "image":
        written = [{"type": "image", "source": _write_source(part, part.urls[0])}]
    elif part.frames:
        written = [{"type": "image", "source": _write_source(part, url)} for url in part.urls]
    else:
        written = [{"type": "text", "text": f"[{part.media}]"}]
    if part.mark and written:
        written[-1]["cache_control"] = dict(part.mark.value)
    return written


def _write_source(part: Media, url: str) -> Json:
    try:
        head = datauri.parse(url)
    except ValueError:
        return {"type": "url", "url": url}
    media_type = head.media_type or _MEDIA_TYPES.get(part.media, "image/png")
    data = url[head.start :] if head.base64 else base64.b64encode(datauri.decode(url)).decode()
    return {"type": "base64", "media_type": media_type, "data": data}


def _write_result(id_: str, result: ToolResult) -> Json:
    blocks = [block for part in result.content for block in _write_part(part)]
    plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
    content: Any = blocks[0]["text"] if plain else blocks
    if not blocks:
        content = ERROR_TEXT if result.is_error else ""
    error = {"is_error": True} if result.is_error else {}
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **error}


def _write_served_result(id_: str, result: ToolResult) -> Json:
    text = join_result(result)
    content = [{"type": "text", "text": text}] if text else []
    return {"type": "mcp_tool_result", "tool_use_id": id_, "is_error": bool(result.is_error), "content": content}


def _find_losses(messages: Sequence[Message]) -> Iterator[Violation]:
    served = find_served_ids(messages)
    for message in messages:
        yield from find_extra_losses(message, _WRITTEN_KEYS, _NO_FIELD)
        if message.name and message.role != "tool":
            yield Violation(message.path, f"the name {message.name!r} {_NO_FIELD}")
        if not any(_says_something(part) for part in message.parts) and not message.extra.get("reasoning_details"):
            yield Violation(message.path, "has no content, and is left out")
        for part in message.parts:
            yield from find_served_losses(part, message.path, served)
            if isinstance(part, ToolCall):
                yield from find_object_losses(part, part.path or message.path, _NO_FIELD, keeps_invalid=is_served(part))
            elif isinstance(part, ToolResult) and part.id not in served:
                if part.is_error and not part.content:
                    yield Violation(message.path, f"the result is written with the text {ERROR_TEXT!r}")
                yield from (loss for item in part.content for loss in _find_media_losses(item, message.path))
            elif isinstance(part, Media):
                yield from _find_media_losses(part, message.path)


def _says_something(part: Any) -> bool:
    return bool(part.text) if isinstance(part, Text | Reasoning) else True


def _find_media_losses(part: Text | Media, path: str) -> Iterator[Violation]:
    if isinstance(part, Text):
        return
    place = part.path or path
    if part.frames:
        yield Violation(place, "the frames of a video are written as images")
    elif part.media in ("audio", "video"):
        yield Violation(place, f"is written as the text '[{part.media}]': this format has no {part.media}")
    if part.detail:
        yield Violation(place, f"detail {_NO_FIELD}")
    if part.name and part.media != "file":
        yield Violation(place, f"the name of the file {_NO_FIELD}")


def _find_merged_turns(groups: Sequence[MessageGroup]) -> Iterator[Violation]:
    """Find neighbouring assistant messages that are not one turn, but are read as one."""
    before: MessageGroup | None = None
    for group in groups:
        if group.role == "assistant" and before is not None and before.role == "assistant" and not before.results:
            yield Violation(group.sources[0].path, "becomes one turn with the assistant message before it")
        before = group
