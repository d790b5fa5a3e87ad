"""Replies as hypothesis makes them, and the same reply cut in another way."""

from typing import Any

from app.chat.events import Event, Extra, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.sampled_from(["a", "ab", "aab", " ", "\n"])


@st.composite
def replies(draw: st.DrawFn) -> list[Event]:
    """Without an end. Calls are begun in order, and late fragments of them may come anywhere."""
    events: list[Event] = []
    calls = 0
    for kind in draw(
        st.lists(st.sampled_from(["think", "say", "refuse", "begin", "late", "late", "extra"]), max_size=9)
    ):
        if kind == "think":
            events.append(ReasoningDelta(draw(TEXTS)))
        elif kind in ("say", "refuse"):
            events.append(TextDelta(draw(TEXTS), kind == "refuse"))
        elif kind == "begin":
            events.append(ToolCallDelta(calls, draw(TEXTS | st.just("")), f"call_{calls}", draw(st.sampled_from("fg"))))
            calls += 1
        elif kind == "late" and calls:
            events.append(ToolCallDelta(draw(st.integers(0, calls - 1)), draw(TEXTS)))
        elif kind == "extra":
            events.append(Extra({"mark": draw(st.integers(0, 2))}, draw(st.integers(-1, calls - 1))))
    return events


def letters(events: list[Event]) -> list[Event]:
    """Cut as finely as can be: every cut of one reply gives the same."""
    out: list[Event] = []
    for event in events:
        match event:
            case ReasoningDelta(text):
                out += [ReasoningDelta(letter) for letter in text]
            case TextDelta(text, refusal):
                out += [TextDelta(letter, refusal) for letter in text]
            case ToolCallDelta(index, arguments, id, name):
                out += [ToolCallDelta(index, "", id, name)] if id else []
                out += [ToolCallDelta(index, letter) for letter in arguments]
            case _:
                out.append(event)
    return out


@st.composite
def cuts(draw: st.DrawFn, events: list[Event]) -> list[list[Event]]:
    """The same reply, with its neighbours joined and gathered into batches at random."""
    joined: list[Event] = []
    for event in letters(events):
        last = joined[-1] if joined else None
        both = _join(last, event) if last is not None and draw(st.booleans()) else None
        if both is None:
            joined.append(event)
        else:
            joined[-1] = both
    batches: list[list[Event]] = [[]]
    for event in joined:
        batches[-1].append(event)
        if draw(st.booleans()):
            batches += [[]] * draw(st.integers(0, 1)) + [[]]
    return batches


def _join(one: Event, other: Event) -> Event | None:
    match one, other:
        case ReasoningDelta(a), ReasoningDelta(b):
            return ReasoningDelta(a + b)
        case TextDelta(a, left), TextDelta(b, right) if left is right:
            return TextDelta(a + b, left)
        case ToolCallDelta(i, a, id, name), ToolCallDelta(j, b, "", _) if i == j:
            return ToolCallDelta(i, a + b, id, name)
    return None


def flat(batches: Any) -> list[Event]:
    return letters([event for events in batches for event in events])


DONE = Finish("stop", {"total_tokens": 3})
