"""Which choice of a stream is the reply, and the calls of the others (rule 11 of `docs/reference/assembly.md`).

A request wants one choice, and choice 0 is the reply. Some servers have no choice 0, and count from another number, or
have nothing in it. Some put the text of one answer into one choice and its calls into another (GitHub Copilot). Whether
choice 0 comes, and has calls, is known late: so what others bring is kept until then.
"""

from collections.abc import Iterator

from app.upstream.reply.chunk import Chunk, ChunkChoice, ChunkDelta, ToolCallFragment
from app.upstream.reply.finish import is_reason

MAX_HELD = 8
"""After so many parts of other choices, choice 0 is not expected any more, and the first of the others is the reply."""


class OtherChoices:
    own_index = 0
    """The index of the choice that is the reply."""
    own_came = False
    """Whether a part of that choice has come."""
    own_has_content = False
    """Whether it has brought any content."""
    settled = False
    """The reply has ended, and nothing is kept any more."""
    continues_own = False
    """A second choice of the same index has brought the calls of the reply."""
    received = 0
    """How many parts of other choices have come that may be needed."""
    finish: ChunkChoice | None = None
    """The last of another choice with calls that had a finish reason."""

    def __init__(self) -> None:
        self.held: list[tuple[Chunk, ChunkChoice]] = []
        """What came before the first content of the reply's own choice."""
        self._calls: dict[int, list[tuple[ChunkDelta, bool, bool]]] = {}

    @property
    def held_finish(self) -> bool:
        """Whether a choice that may be the reply has its finish reason."""
        return not self.own_came and any(is_reason(choice.finish_reason) for _, choice in self.held)

    @property
    def must_adopt(self) -> bool:
        return not self.own_came and len(self.held) >= MAX_HELD

    def add(self, chunk: Chunk, choice: ChunkChoice) -> None:
        """Keep a part of another choice: its calls, and until the kept choice has content, also the rest."""
        if not self.own_has_content:
            self.received += 1
            self.held.append((chunk, choice))
            return
        self._release()
        self._add_calls(chunk, choice)

    def adopt(self) -> list[tuple[Chunk, ChunkChoice]]:
        """Make the first choice that came the reply, and return its parts."""
        self.own_index, self.own_came, self.own_has_content = self.held[0][1].index or 0, True, True
        own = [item for item in self.held if (item[1].index or 0) == self.own_index]
        self.held = [item for item in self.held if (item[1].index or 0) != self.own_index]
        self._release()
        return own

    def take_calls(self) -> Iterator[tuple[ChunkDelta, bool, bool]]:
        """Yield the calls of the other choices, in the order of these: each time a delta, whether its calls are whole,
        and whether it may have half a surrogate pair. Calls of different choices have different indices."""
        self._release()
        calls, self._calls = self._calls, {}
        first = 0
        for index in sorted(calls):
            after = first
            for delta, whole, ragged in calls[index]:
                for fragment in delta.tool_calls or ():
                    if fragment.index is not None and fragment.index >= 0:
                        fragment.index += first
                        after = max(after, fragment.index + 1)
                yield delta, whole, ragged
            first = after

    def _release(self) -> None:
        if self.held:
            held, self.held = self.held, []
            for chunk, choice in held:
                self._add_calls(chunk, choice)

    def _add_calls(self, chunk: Chunk, choice: ChunkChoice) -> None:
        index = choice.index or 0
        delta = get_calls(choice)
        if delta is not None:
            self.received += 1
            self._calls.setdefault(index, []).append((delta, choice.delta is None, chunk.ragged))
        if is_reason(choice.finish_reason) and index in self._calls:
            self.finish = choice


def get_calls(choice: ChunkChoice) -> ChunkDelta | None:
    """Return a delta with only the calls of a choice; None if it has none."""
    source = choice.message if choice.delta is None else choice.delta
    if source is None:
        return None
    calls = source.tool_calls
    if not calls and source.function_call is not None:
        calls = [ToolCallFragment(index=0, function=source.function_call)]
    return ChunkDelta(tool_calls=calls) if calls else None
