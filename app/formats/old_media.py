"""Reads a conversation although its history has media that the schema of its format refuses.

A client sends its whole history again with each request. A local path, a `blob:` URL, an empty URL or a file that is
stored at a provider, in a tool result or an earlier turn, would be refused each time, and the conversation could never
go on. So the model gets words in its place, and the caller a warning. In the newest message of the user it is refused.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from app.chat.messages import MediaKind, Message, Text
from app.errors import Violation
from app.formats.base import Format, Options, ParsedMessages
from app.steps.media import basename, find_required, write_placeholder

_MAX_PASSES = 8
"""How often the conversation is read again: a schema may report one mistake of a medium at a time."""
_MARK = "\ue000medium {}\ue000"
"""Replaces a medium until it is known in whose message it is."""
_MARKS = re.compile("\ue000medium ([0-9]+)\ue000")
_STEP = re.compile(r"\.?([A-Za-z_$][\w$-]*)|\[(\d+)\]")
_NO_CONTENT = "must have its content in"
_KINDS: tuple[MediaKind, ...] = ("image", "audio", "video", "file")
_TYPES: dict[str, MediaKind] = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "audio_url", "input_audio"), "audio"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
    **dict.fromkeys(("file", "input_file", "document", "data"), "file"),
}
"""The kinds of media by the type of their content part, in any format."""
_Steps = tuple[str | int, ...]


class _Refused(Struct, frozen=True):
    """A content part that the schema refuses."""

    steps: _Steps
    part: dict[str, Any]
    violation: Violation


WriteText: TypeAlias = Callable[[str], Any]
Conversation: TypeAlias = dict[str, list[Any]]
"""The lists of messages of a request, in their order, by their JSON paths."""


def parse_with_old_media(message_format: Format, messages: list[Any], options: Options) -> ParsedMessages:
    """Parse messages. Media of the history that the format's schema refuses become texts, with warnings; those of the
    newest message are violations."""
    return parse_lists(
        lambda lists: message_format.parse(lists["messages"], options),
        {"messages": messages},
        message_format.write_text,
    )


def parse_lists(
    parse: Callable[[Conversation], ParsedMessages], conversation: Conversation, write_text: WriteText
) -> ParsedMessages:
    """Parse a conversation that may be in several lists. `write_text` returns a content part of its format."""
    parsed = parse(conversation)
    if not parsed.violations:
        return parsed
    refused: dict[_Steps, _Refused] = {}
    marked = parsed
    for _ in range(_MAX_PASSES):
        found = [_find_part(conversation, violation) for violation in marked.violations]
        new = {one.steps: one for one in found if one is not None and one.steps not in refused}
        if not new:
            break
        refused |= new
        marked = parse(_replace_parts(write_text, conversation, refused, _MARK.format))
    if marked.violations or not refused:
        return parsed  # there are other mistakes, which are reported with these
    required = _find_required(marked.messages)
    violations = [one.violation for number, one in enumerate(refused.values()) if number in required]
    if violations:
        return replace(parsed, violations=violations)
    texts = [_describe(one) for one in refused.values()]
    written = parse(_replace_parts(write_text, conversation, refused, texts.__getitem__))
    lost = [f"{one.violation.path} was not sent: {one.violation.message}" for one in refused.values()]
    return replace(written, warnings=[*written.warnings, *lost])


def _find_part(conversation: Conversation, violation: Violation) -> _Refused | None:
    """Return the innermost content part on the path of a violation that is a medium; None if the violation is about the
    part as such, which may not be in this place."""
    steps: list[str | int] = []
    value: Any = conversation
    found = None
    for name, number in _STEP.findall(violation.path):
        step = int(number) if number else name
        steps.append(step)
        try:
            value = value[step]
        except (LookupError, TypeError):
            break
        if number and len(steps) > 2 and isinstance(value, dict) and _find_kind(value) is not None:
            found = _Refused(tuple(steps), value, violation)
    is_about_content = found is not None and (len(steps) > len(found.steps) or _NO_CONTENT in violation.message)
    return found if is_about_content else None


def _find_kind(part: dict[str, Any]) -> MediaKind | None:
    """Return the kind of medium of a content part; None if it is another part."""
    type_ = part.get("type")
    if isinstance(type_, str):
        kind = _TYPES.get(type_)
        source = part.get("source")
        if type_ == "data" and isinstance(source, dict):
            main = str(source.get("media_type")).partition("/")[0]
            return next((one for one in _KINDS if one == main), kind)
        return kind
    if type_ is None and ("data" in part or "url" in part):  # AutoGen's images
        return "image"
    return next((one for one in _KINDS if part.get(one) is not None), None)


def _describe(refused: _Refused) -> str:
    part, kind = refused.part, _find_kind(refused.part) or "file"
    names = [part.get("filename"), part.get("name"), part.get("title"), *_find_texts(part)]
    name = next((found for one in names if isinstance(one, str) and (found := _short_name(one))), kind)
    return write_placeholder(kind, [name], refused.violation.message, "en")


def _find_texts(part: dict[str, Any]) -> list[Any]:
    """Return what may name the medium: its URLs, and the name of its file."""
    inner = [value for value in part.values() if isinstance(value, dict)]
    return [one.get(key) for one in (*inner, part) for key in ("filename", "url", "image_url", "file_url", *_KINDS)]


def _short_name(text: str) -> str:
    return "" if text[:5].lower() == "data:" else basename(text[:2048])


def _find_required(messages: Sequence[Message]) -> set[int]:
    """Return the numbers of the marked parts that are in messages whose media must be readable."""
    texts = [part.text for at in find_required(messages) for part in messages[at].parts if isinstance(part, Text)]
    return {int(number) for text in texts for number in _MARKS.findall(text)}


def _replace_parts(
    write_text: WriteText, conversation: Conversation, refused: dict[_Steps, _Refused], describe: Callable[[int], str]
) -> Conversation:
    """Return the conversation with a text in the place of each part; `describe` returns the text by its number."""
    result = conversation
    for number, one in enumerate(refused.values()):
        result = _replace_at(result, one.steps, _make_part(write_text, one.part, describe(number)))
    return result


def _replace_at(value: Any, steps: _Steps, new: Any) -> Any:
    if not steps:
        return new
    copied = value.copy()
    copied[steps[0]] = _replace_at(value[steps[0]], steps[1:], new)
    return copied


def _make_part(write_text: WriteText, part: dict[str, Any], text: str) -> Any:
    """Return a text as a content part of the format, with the mark for the prompt cache of the medium."""
    written = write_text(text)
    has_mark = part.get("cache_control") is not None and isinstance(written, dict) and "type" in written
    return {**written, "cache_control": part["cache_control"]} if has_mark else written
