"""Media of a conversation in the words of another model, at their places."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from app.chat.messages import Media, MediaKind, Message, Part, Text, ToolResult


def find_media(messages: Sequence[Message], kinds: Collection[MediaKind]) -> dict[int, Media]:
    """Return the media of these kinds by their numbers, which count all media of the conversation from 1."""
    numbered = enumerate((part for message in messages for part in _list_media(message)), 1)
    return {number: media for number, media in numbered if media.media in kinds}


def _list_media(message: Message) -> Iterator[Media]:
    for part in message.parts:
        for one in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(one, Media):
                yield one


def write_description(media: Media, number: int, words: str) -> str:
    """Return the text in the place of a medium."""
    return f"<{media.media} {number}: {' '.join(words.splitlines())}>"


def write_failure(media: Media, number: int, reason: str) -> str:
    """Return the text in the place of a medium that was not described."""
    return f"[{media.media} {number} could not be described: {' '.join(reason.split())}]"


def replace_media(messages: Sequence[Message], texts: Mapping[int, str]) -> tuple[Message, ...]:
    """Return the messages with texts in the places of the media with these numbers."""
    number = 0
    out: list[Message] = []
    for message in messages:
        count = sum(1 for _ in _list_media(message))
        if not count:
            out.append(message)
            continue
        parts: list[Part] = []
        for part in message.parts:
            content, number = _replace(part.content if isinstance(part, ToolResult) else (part,), number, texts)
            parts += [replace(part, content=tuple(content))] if isinstance(part, ToolResult) else content
        out.append(replace(message, parts=tuple(parts)))
    return tuple(out)


def _replace(parts: Sequence[Part], number: int, texts: Mapping[int, str]) -> tuple[list[Part], int]:
    """Return the parts with texts in the places of media, and the number of the last medium."""
    out: list[Part] = []
    for part in parts:
        if isinstance(part, Media):
            number += 1
            if number in texts:
                part = Text(texts[number], part.mark)
        out.append(part)
    return out, number
