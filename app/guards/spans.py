"""What detectors find in texts, and what masking makes of these."""

from bisect import bisect_right

from msgspec import Struct

from app.chat.messages import Message


class Span(Struct, frozen=True):
    """Where a value is in a text."""

    start: int
    end: int
    kind: str


class SpanRule(Struct, frozen=True):
    """What one guard does with the values that it finds."""

    guard: str
    action: str
    """`mask`, `redact`, `reject` or `observe`."""


class Refused(Struct, frozen=True):
    """A text that a guard with detectors refuses."""

    guard: str
    kind: str

    @property
    def reason(self) -> str:
        return f"it has a value of the kind {self.kind}"


class MaskedText(Struct, frozen=True):
    text: str
    refused: Refused | None = None


class HiddenText(Struct, frozen=True):
    """A text as a service gets it that looks for further values: words stand for those that are found."""

    text: str
    places: tuple[tuple[int, int, int, int], ...] = ()
    """Of each word: its start and end, and those of its value in the original."""

    def find_original(self, start: int, end: int) -> tuple[int, int] | None:
        """Return where a part of the text is in the original. A word counts as its whole value. None within a word."""
        first, place_of_start = self._map(start)
        last, place_of_end = self._map(end - 1)
        if place_of_start is not None and place_of_start == place_of_end:
            return None
        return (
            first if place_of_start is None else place_of_start[2],
            last + 1 if place_of_end is None else place_of_end[3],
        )

    def is_outside(self, start: int, end: int) -> bool:
        """Whether no word stands at one of these places of the original, of which a part would be left."""
        for at in (start, end):
            number = bisect_right(self.places, at, key=lambda place: place[2]) - 1
            if number >= 0 and self.places[number][2] < at < self.places[number][3]:
                return False
        return True

    def _map(self, at: int) -> tuple[int, tuple[int, int, int, int] | None]:
        """Return where a character is in the original, and the place of the word in which it is."""
        number = bisect_right(self.places, at, key=lambda place: place[0]) - 1
        if number < 0:
            return at, None
        place = self.places[number]
        return at - place[1] + place[3], place if at < place[1] else None


class MaskedConversation(Struct, frozen=True):
    """What the masker made of the beginning of a conversation."""

    messages: tuple[Message, ...]
    words: tuple[tuple[tuple[str, str], str], ...] = ()
    refused: tuple[tuple[int, int, Refused], ...] = ()
    """(number of the message, number of the part, why) of texts that are refused."""
    counts: tuple[int, ...] = ()
    """How many of the words are of each message and those before it."""

    def cut(self, count: int) -> "MaskedConversation":
        """Return what was made of the first messages."""
        if count == len(self.messages):
            return self
        return MaskedConversation(
            self.messages[:count],
            self.words[: self.counts[count - 1]] if count else (),
            tuple([one for one in self.refused if one[0] < count]),
            self.counts[:count],
        )
