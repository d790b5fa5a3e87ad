"""Replies of random events, in random reads."""

from collections.abc import Sequence
from typing import Any

from app.chat.events import (
    Event,
    Extra,
    Failed,
    Fault,
    Finish,
    MediaOutput,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from app.formats import FORMATS
from app.formats.base import Encoder, Options, ReplyInfo, ReplyMode
from hypothesis import strategies as st

Reads = Sequence[list[Event]]


texts = st.text(st.sampled_from('ab \n"{}\\,:[]é\u2028\u0085\U0001f600'), min_size=1, max_size=6) | st.sampled_from(
    [" ", "\n", '"content":[]', '"content":""', '{"a": 1}', "x" * 8001]
)


fields = st.sampled_from(["annotations", "extra_content", "arguments_valid", "other"])


lists = st.lists(texts, max_size=2)


extras = st.dictionaries(fields, lists | texts, min_size=1, max_size=2) | st.builds(
    lambda details, others: {"reasoning_details": details, **others},
    lists,
    st.dictionaries(fields, lists | texts, max_size=1),
)
"""`reasoning_details` is a list always."""


media = st.builds(MediaOutput, st.sampled_from(["image", "audio"]), st.just("data:image/png;base64,AAAA"), extras)


@st.composite
def replies(draw: st.DrawFn) -> list[list[Event]]:
    """The reads of a reply, each with its events."""
    events: list[Event] = []
    calls = 0
    for _ in range(draw(st.integers(0, 14))):
        kinds = ["text", "text", "text", "reasoning", "reasoning", "call", "arguments", "arguments", "extra", "media"]
        kind = draw(st.sampled_from(kinds))
        if kind == "text":
            events.append(TextDelta(draw(texts), draw(st.sampled_from([False, False, False, True]))))
        elif kind == "reasoning":
            events.append(ReasoningDelta(draw(texts)))
        elif kind == "call":
            events.append(ToolCallDelta(calls, draw(st.just("") | texts), f"c{calls}", draw(texts)))
            calls += 1
        elif kind == "arguments" and calls:
            events.append(ToolCallDelta(draw(st.integers(0, calls - 1)), draw(texts)))
        elif kind == "extra":
            events.append(Extra(draw(extras), draw(st.integers(-1, calls - 1))))
        elif kind == "media":
            events.append(draw(media))
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    ends: list[Event] = [
        Finish("stop", usage, "eos", ("careful",)),
        Failed(Fault("overloaded", "too many", transient=True, status=200)),
    ]
    events.append(draw(st.sampled_from(ends)))
    reads: list[list[Event]] = [[]]
    for event in events:
        if draw(st.booleans()):
            reads.append([])
        reads[-1].append(event)
    return reads


def make_encoder(name: str, mode: ReplyMode, options: dict[str, Any]) -> Encoder:
    info = ReplyInfo("chat-1", "req-1", "m", 1, warnings=["first"], options=Options(**options))
    return FORMATS[name].reply_encoder(info, mode)
