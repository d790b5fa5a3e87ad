"""Writes a conversation as Gemini's contents.

Neighbours of one role are one content, as they are read. The system prompt is a content of the role `system`, which is
the field `systemInstruction` of a request. A turn of the model is one content, with its calls; their results are in the
content of the user after it. What a model server wants back is in the signature of the first call, else of the last
text.
"""

import base64
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

from app.chat import datauri
from app.chat.accumulator import parse_arguments
from app.chat.datauri import is_data
from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.base import Options, WrittenMessages
from app.formats.gemini.media import guess_kind
from app.formats.gemini.signatures import find_own_signature, holds_something, write_signature
from app.formats.losses import find_extra_losses, find_moved_results, find_object_losses
from app.formats.media_urls import is_remote
from app.formats.seal import Seal
from app.openai_messages.grouping import group_messages
from app.openai_messages.groups import MessageGroup

Json = dict[str, Any]
_WRITTEN_KEYS = frozenset({"reasoning_details", "extra_content", "arguments_valid"})
_NO_FIELD = "cannot be written in Gemini's format"
_MEDIA_TYPES = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/pdf"}
"""The media types of data URIs that name none."""


def write_messages(messages: Sequence[Message], options: Options) -> WrittenMessages:
    groups, losses = group_messages(messages)
    losses = [*losses, *_find_losses(messages), *_find_merged(groups), *find_moved_results(messages)]
    contents = (content for group in groups for content in _write_group(group))
    joined = groupby(contents, lambda content: content["role"])
    written = [{"role": role, "parts": [part for one in run for part in one["parts"]]} for role, run in joined]
    return WrittenMessages(written, list(dict.fromkeys(losses)))


def _write_group(group: MessageGroup) -> Iterator[Json]:
    role = "model" if group.role == "assistant" else group.role
    parts = _write_model(group) if role == "model" else [_write_part(part) for run in group.texts for part in run]
    parts = [part for part in parts if part != {"text": ""}]
    if parts:
        yield {"role": role, "parts": parts}
    results = [_write_result(id_, result) for id_, result in group.results]
    if results:
        yield {"role": "user", "parts": results}


def _write_model(group: MessageGroup) -> list[Json]:
    parts: list[Json] = []
    calls = iter(group.calls)
    own: list[tuple[int, Any]] = []
    """The places of texts and calls, and their fields for the model server."""
    details: list[Any] = []
    for message in group.sources:
        found = message.extra.get("reasoning_details")
        details += found if isinstance(found, list) else []
        fields = message.extra.get("extra_content")
        for part in message.parts:
            if isinstance(part, Reasoning):
                parts += [{"text": part.text, "thought": True}] if part.text else []
            elif isinstance(part, ToolCall):
                own.append((len(parts), part.extra.get("extra_content")))
                parts.append(_write_call(next(calls).id, part))
            elif isinstance(part, Text) and part.text:
                own.append((len(parts), fields))
                fields = None
                parts.append({"text": part.text})
            elif isinstance(part, Media):
                parts.append(_write_part(part))
    return _sign(parts, own, details)


def _sign(parts: list[Json], own: Sequence[tuple[int, Any]], details: Sequence[Any]) -> list[Json]:
    """Return the parts with their signatures."""
    signatures = {place: find_own_signature(fields) for place, fields in own}
    calls = [place for place, _ in own if "functionCall" in parts[place]]
    anchor = next(iter(calls), own[-1][0] if own else None)
    lost = {place: fields for place, fields in own if fields is not None and signatures[place] is None}
    seal = Seal(None, list(details))
    if lost or (details and anchor is not None):
        if anchor is not None and signatures[anchor] is not None:
            lost[anchor] = next(fields for place, fields in own if place == anchor)
        texts = [lost.get(place) for place, _ in own if place not in calls]
        by_id = {parts[place]["functionCall"]["id"]: lost[place] for place in calls if place in lost}
        seal = Seal(None, list(details), by_id, texts if any(texts) else [])
    if anchor is None:
        return [*parts, {"text": "", "thoughtSignature": write_signature(seal)}] if holds_something(seal) else parts
    if holds_something(seal):
        signatures[anchor] = write_signature(seal)
    return [
        {**part, "thoughtSignature": signatures[place]} if signatures.get(place) else part
        for place, part in enumerate(parts)
    ]


def _write_call(id_: str, call: ToolCall) -> Json:
    arguments = parse_arguments(call.arguments)
    return {
        "functionCall": {
            "id": id_,
            "name": call.name,
            "args": {"_raw": call.arguments} if arguments is None else arguments,
        }
    }


def _write_result(id_: str, result: ToolResult) -> Json:
    text = "\n".join(part.text for part in result.content if isinstance(part, Text))
    media = [_write_part(part) for part in result.content if isinstance(part, Media)]
    response = {"id": id_, "name": result.name or "tool", "response": {"result": text}}
    return {"functionResponse": {**response, **({"parts": media} if media else {})}}


def _write_part(part: Text | Media) -> Json:
    if isinstance(part, Text):
        return {"text": part.text}
    url = part.urls[0]
    name = {"displayName": part.name} if part.name else {}
    if is_data(url):
        head = datauri.parse(url)
        data = url[head.start :] if head.base64 else base64.b64encode(datauri.decode(url)).decode()
        return {"inlineData": {"mimeType": head.media_type or _MEDIA_TYPES[part.media], "data": data, **name}}
    if not is_remote(url):  # audio as OpenAI has it
        media_type = f"{part.media}/{part.format}" if part.format else _MEDIA_TYPES[part.media]
        return {"inlineData": {"mimeType": media_type, "data": url, **name}}
    known = {} if guess_kind(url) == part.media else {"mimeType": f"{part.media}/*"}
    return {"fileData": {"fileUri": url, **known, **name}}


def _find_losses(messages: Sequence[Message]) -> Iterator[Violation]:
    for message in messages:
        yield from find_extra_losses(message, _WRITTEN_KEYS, _NO_FIELD)
        if message.name and message.role != "tool":
            yield Violation(message.path, f"the name {message.name!r} {_NO_FIELD}")
        if message.role == "system" and any(isinstance(part, Media) for part in message.parts):
            yield Violation(message.path, f"media in a system message {_NO_FIELD}")
        yield from _find_text_losses(message)
        for part in message.parts:
            yield from _find_part_losses(part, message.path)


def _find_text_losses(message: Message) -> Iterator[Violation]:
    """Find texts that are not read as they are: empty ones, and neighbours in a turn of the model."""
    said = [part for part in message.parts if not (isinstance(part, Text | Reasoning) and not part.text)]
    if not said and not message.extra.get("reasoning_details"):
        yield Violation(message.path, "has no content, and is left out")
    elif len(said) < len(message.parts) and message.role != "assistant":
        yield Violation(message.path, "an empty text is left out")
    if message.role == "assistant":
        for part, after in pairwise(said):
            if isinstance(part, Text | Reasoning) and type(part) is type(after):
                yield Violation(message.path, "texts next to one another become one")


def _find_part_losses(part: Any, path: str) -> Iterator[Violation]:
    if isinstance(part, ToolCall):
        yield from find_object_losses(part, part.path or path, _NO_FIELD)
    elif isinstance(part, ToolResult):
        if part.is_error:
            yield Violation(path, f"is_error {_NO_FIELD}")
        yield from (loss for item in part.content for loss in _find_part_losses(item, path))
    elif isinstance(part, Media):
        place = part.path or path
        if part.frames:
            yield Violation(place, "only the first frame of a video is written")
        if part.detail:
            yield Violation(place, f"detail {_NO_FIELD}")
    elif isinstance(part, Text) and part.mark is not None:
        yield Violation(path, f"cache_control {_NO_FIELD}")


def _find_merged(groups: Sequence[MessageGroup]) -> Iterator[Violation]:
    """Find messages that are read as one turn with the message before them."""
    for before, group in pairwise(groups):
        if group.role == before.role and not before.results:
            yield Violation(group.sources[0].path, "becomes one turn with the message before it")
