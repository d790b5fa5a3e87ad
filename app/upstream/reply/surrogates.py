"""Join surrogate pairs whose halves arrive in two chunks. No half may remain: UTF-8 cannot encode it."""

import json
from collections.abc import Callable
from typing import TypeAlias

from app.upstream.reply.chunk import ChunkDelta, FunctionFragment, ToolCallFragment
from app.upstream.reply.odd_json import clean, join_surrogates, load

LONE = "\ufffd"
TextLocation: TypeAlias = tuple[str | int | None, int]
"""The position of a text in a delta: (field, 0 or 1), or (index of a tool call, its place in the list)."""


class SurrogateJoiner:
    """Holds back first halves until their second ones arrive."""

    def __init__(self) -> None:
        self.held: dict[TextLocation, str] = {}

    def join(self, delta: ChunkDelta) -> None:
        _map_texts(delta, self._join_text)

    def join_whole(self, message: ChunkDelta) -> None:
        """Replace half pairs in a whole message: no later chunk can complete them."""
        _map_texts(message, lambda location, text: join_surrogates(text))

    def _join_text(self, location: TextLocation, text: str) -> str:
        text = self.held.pop(location, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self.held[location] = text[-1]
            text = text[:-1]
        return join_surrogates(text)

    def close(self) -> ChunkDelta:
        """Return a delta with U+FFFD for each half whose other half never came."""
        last = ChunkDelta()
        for field_or_index, _ in self.held:
            if isinstance(field_or_index, str):
                setattr(last, field_or_index, LONE)
            else:
                last.tool_calls = [
                    ToolCallFragment(index=field_or_index, function=FunctionFragment(arguments=LONE)),
                    *(last.tool_calls or ()),
                ]
        self.held.clear()
        return last


def _map_texts(delta: ChunkDelta, convert: Callable[[TextLocation, str], str]) -> None:
    for field in ("content", "reasoning_content", "reasoning", "reasoning_text", "refusal"):
        if text := getattr(delta, field):
            setattr(delta, field, convert((field, 0), text))
    for item in delta.reasoning_details or ():
        for key in ("text", "summary"):
            if isinstance(item, dict) and isinstance(text := item.get(key), str) and text:
                item[key] = convert(("reasoning_content", 1), text)
    for place, call in enumerate(delta.tool_calls or ()):
        if call.function is not None and call.function.arguments:
            call.function.arguments = convert((call.index, place), call.function.arguments)
    if delta.function_call is not None and delta.function_call.arguments:
        delta.function_call.arguments = convert((0, 0), delta.function_call.arguments)


def split_half(text: str) -> tuple[str, str]:
    """Return (text, half): the text with each pair of surrogates as one character, without a half at its end. Other
    halves become U+FFFD."""
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    text = text[: len(text) - len(half)]
    if text.isascii():
        return text, half
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), half


def write_line(data: bytes) -> str:
    """Return JSON that was decoded strictly as one line."""
    text = data.decode().strip()
    return text if "\n" not in text and "\r" not in text else json.dumps(json.loads(text), ensure_ascii=False)


def write_odd(data: bytes, *, is_delta: bool) -> str:
    """Return JSON that a strict decoder refused as one line that it takes. In a delta, halves of surrogate pairs stay,
    escaped: a client can join them with those of the next delta."""
    value = load(data)
    return json.dumps(value) if is_delta else json.dumps(clean(value), ensure_ascii=False)
