"""Splits messages into pieces with one payload each, and joins pieces into the turns that they came from."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from app.chat.messages import Media, Message, Part, Text, ToolResult

_REDUNDANT_KEYS = frozenset({"function_id", "is_error", "turn"})
"""Keys of `extra` that repeat a field of `Message` or `ToolResult`."""
_PHASE = {"reasoning": 0, "text": 1, "media": 1, "tool_call": 2}
"""A turn goes on while these rise; after a call, whatever comes."""
_LATER = 9
_NO_PARTS = (Text(""),)
"""A message without parts counts as one of text."""


def split_message(message: Message) -> Iterator[Message]:
    """Yield one message for each reasoning part, run of text and media, tool call and tool result, in their order."""
    run: list[Part] = []
    for part in message.parts:
        if isinstance(part, Text | Media):
            run.append(part)
            continue
        if run:
            yield replace(message, parts=tuple(run))
            run = []
        yield replace(message, role="tool" if isinstance(part, ToolResult) else message.role, parts=(part,))
    if run or not message.parts:
        yield replace(message, parts=tuple(run))


def normalize_piece(piece: Message) -> Message:
    """Remove JSON paths, cache marks and redundant keys. The name of a tool message goes too: formats differ in it."""
    extra = {key: value for key, value in piece.extra.items() if key not in _REDUNDANT_KEYS}
    name = None if piece.role == "tool" else piece.name
    return replace(piece, parts=tuple(map(_normalize_part, piece.parts)), name=name, path="", extra=extra)


def to_model_view(piece: Message) -> Message:
    """Keep only what a model sees: no path, turn, extra or file names."""
    parts = normalize_piece(piece).parts
    parts = tuple(replace(part, name=None) if isinstance(part, Media) else part for part in parts)
    return replace(normalize_piece(piece), parts=parts, turn=None, extra={})


def _normalize_part(part: Part) -> Part:
    if isinstance(part, Text | Media):
        return _normalize_content_part(part)
    if isinstance(part, ToolResult):
        return replace(part, content=tuple(map(_normalize_content_part, part.content)))
    return part


def _normalize_content_part(part: Text | Media) -> Text | Media:
    """Remove the path and the cache mark, which is for the server and not part of the text that a model sees."""
    if isinstance(part, Media):
        return replace(part, path="", mark=None)
    return replace(part, mark=None) if part.mark else part


class Turn:
    """Decides which pieces belong to one assistant turn, by the rules for what is sent to a model."""

    def __init__(self, first: Message) -> None:
        self._name = first.name
        self._turn = first.turn
        self._phase = -1

    def add(self, parts: Sequence[Part]) -> None:
        for part in parts or _NO_PARTS:
            self._phase = max(self._phase, _PHASE.get(part.kind, -1))

    def accepts(self, message: Message, parts: Sequence[Part]) -> bool:
        """Whether the assistant's message, which says these parts, is of this turn."""
        if message.name != self._name or (message.turn and self._turn and message.turn != self._turn):
            return False
        if self._phase == _PHASE["tool_call"] or (message.turn is not None and message.turn == self._turn):
            return True
        first = _LATER
        for part in parts or _NO_PARTS:
            first = min(first, _PHASE.get(part.kind, _LATER))
        return first > self._phase
