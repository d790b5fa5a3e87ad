"""Surrogate pairs whose halves came in two chunks; none may remain in a text, since it could not be sent."""

from collections.abc import Callable
from typing import TypeAlias

from app.upstream.reply.chunk import ChunkDelta, FunctionFragment, ToolCallFragment
from app.upstream.reply.lenient_chunk import join_surrogates

LONE = "\ufffd"
TextLocation: TypeAlias = tuple[str | int | None, int]
"""Where in a delta a text stands: a field and which of its like, or a call's index and its place in the list."""


class SurrogateJoiner:
    """The first halves that wait for their second ones."""

    def __init__(self) -> None:
        self.held: dict[TextLocation, str] = {}

    def join(self, delta: ChunkDelta) -> None:
        _map_texts(delta, self._join_text)

    def join_whole(self, message: ChunkDelta) -> None:
        """What is whole has no other half to wait for."""
        _map_texts(message, lambda place, text: join_surrogates(text))

    def _join_text(self, place: TextLocation, text: str) -> str:
        text = self.held.pop(place, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self.held[place] = text[-1]
            text = text[:-1]
        return join_surrogates(text)

    def close(self) -> ChunkDelta:
        """What stands for the halves that stayed alone."""
        last = ChunkDelta()
        for where, _ in self.held:
            if isinstance(where, str):
                setattr(last, where, LONE)
            else:
                last.tool_calls = [
                    ToolCallFragment(index=where, function=FunctionFragment(arguments=LONE)),
                    *(last.tool_calls or ()),
                ]
        self.held.clear()
        return last


def _map_texts(delta: ChunkDelta, joined: Callable[[TextLocation, str], str]) -> None:
    for field in ("content", "reasoning_content", "reasoning", "reasoning_text", "refusal"):
        if text := getattr(delta, field):
            setattr(delta, field, joined((field, 0), text))
    for item in delta.reasoning_details or ():
        for key in ("text", "summary"):
            if isinstance(item, dict) and isinstance(text := item.get(key), str) and text:
                item[key] = joined(("reasoning_content", 1), text)
    for place, call in enumerate(delta.tool_calls or ()):
        if call.function is not None and call.function.arguments:
            call.function.arguments = joined((call.index, place), call.function.arguments)
    if delta.function_call is not None and delta.function_call.arguments:
        delta.function_call.arguments = joined((0, 0), delta.function_call.arguments)
