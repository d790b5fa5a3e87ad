"""The encoders write the usual event without a step for it, with the bytes that the steps of all events give."""

import json
from typing import Any

import pytest
from app.chat.accumulator import MessageAccumulator, ReplyMessage
from app.chat.event_runs import EventRuns, join_texts
from app.chat.events import (
    Event,
    Extra,
    Finish,
    MediaOutput,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from app.formats import FORMATS
from app.formats.base import ReplyInfo, ReplyMode
from app.formats.encoders import DeltaEncoder, encode_each
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case
from tests.formats.random_replies import Reads, make_encoder, replies

STREAMS: list[tuple[str, dict[str, Any]]] = [
    ("qwen", {}),
    ("openai", {}),
    ("agentscope2", {"agent_name": 'a"é'}),
    ("autogen", {}),
    ("autogen", {"autogen_stream": "compat"}),
    ("autogen", {"autogen_stream": "model"}),
]


WHOLES = [*STREAMS, ("agentscope", {})]


class _StepsOnly(MessageAccumulator):
    """Makes steps of all events."""

    def extend(self, event: Event) -> tuple[ReplyMessage, str] | None:
        return None


@given(replies())
def test_a_stream_of_deltas_is_that_of_its_steps(reads: Reads) -> None:
    for name, options in STREAMS:
        encoder, other = make_encoder(name, "delta", options), make_encoder(name, "delta", options)
        assert isinstance(other, DeltaEncoder)
        assert encoder.open() == other.open(), (name, options)
        for read in reads:
            expected = b"".join(map(other._write_step, other._accumulator.feed(read)))
            assert encoder.feed(read) == expected, (name, options, read)


@given(replies())
def test_several_reads_are_written_like_each_of_them(reads: Reads) -> None:
    for name, options in [*STREAMS, ("agentscope", {}), ("anthropic", {}), ("responses", {})]:
        encoder, other = make_encoder(name, "delta", options), make_encoder(name, "delta", options)
        assert encoder.open() == other.open()
        half = len(reads) // 2
        for some in (reads[:half], reads[half:]):
            assert encode_each(encoder, some) == b"".join(map(other.feed, some)), (name, options)


@given(replies(), st.sampled_from(["delta", "snapshot", "whole"]))
def test_reads_of_joined_texts_are_written_like_each_of_them(reads: Reads, mode: ReplyMode) -> None:
    parts = join_texts(reads)
    thought, text = ReasoningDelta("a"), TextDelta("b")
    first: list[list[Event]] = [[], [], [thought], [thought, text], [text] * 4, [text]]
    for name, options in [*STREAMS, ("agentscope", {}), ("anthropic", {}), ("responses", {})]:
        for before in first:  # the same parts again, and at other places of a stream
            encoder, other = make_encoder(name, mode, options), make_encoder(name, mode, options)
            assert encoder.open() == other.open()
            assert encoder.feed(before) == other.feed(before)
            written = b"".join([encode_each(encoder, part) for part in parts])
            assert written == b"".join(map(other.feed, reads)), (name, options, before)


def test_a_run_of_texts_has_the_same_frames_in_each_of_its_streams() -> None:
    reads: list[list[Event]] = [[ReasoningDelta("a")], [ReasoningDelta("b"), ReasoningDelta("c")], [Finish("stop")]]
    (part,) = join_texts(reads)
    assert isinstance(part, EventRuns)
    written = b"".join(map(make_encoder("qwen", "delta", {}).feed, reads))
    assert [encode_each(make_encoder("qwen", "delta", {}), part) for _ in range(2)] == [written] * 2


@pytest.mark.interpreted
@given(replies())
def test_a_whole_reply_is_that_of_its_steps(reads: Reads) -> None:
    error = {"code": "timeout", "message": "late", "status": 504}
    for name, options in WHOLES:
        encoder, other = make_encoder(name, "whole", options), make_encoder(name, "whole", options)
        holder: Any = getattr(other, "_stream", other)
        holder._accumulator.__class__ = _StepsOnly
        for read in reads:
            assert encoder.feed(read) == other.feed(read), (name, options, read)
        assert encoder.fail(error) == other.fail(error), (name, options)


@given(replies())
def test_a_whole_reply_does_not_depend_on_the_reads(reads: Reads) -> None:
    events = [event for read in reads for event in read]
    for name, options in [*WHOLES, ("anthropic", {}), ("responses", {})]:
        written = {
            b"".join(map(make_encoder(name, "whole", options).feed, cut))
            for cut in (reads, [events], [[event] for event in events])
        }
        assert len(written) == 1, (name, options)


@pytest.mark.parametrize("size", [1, 2, 300])
def test_the_frames_of_a_long_reply_are_numbered_without_a_gap(size: int) -> None:
    """Whether they come one by one or many in a read."""
    encoder = make_encoder("qwen", "delta", {})
    words = [f"w{number} " for number in range(3000)]
    data = encoder.open() + b"".join(
        encoder.feed([TextDelta(word) for word in words[start : start + size]]) for start in range(0, len(words), size)
    )
    frames = [json.loads(frame.split(b"\ndata: ")[1]) for frame in data.split(b"\n\n") if frame]
    ids = [int(frame.split(b"\n")[0].removeprefix(b"id: ")) for frame in data.split(b"\n\n") if frame]
    assert [frame["seq"] for frame in frames] == ids == [*range(1, len(frames) + 1)]
    assert [frame["delta"]["content"] for frame in frames if frame["type"] == "message.delta"] == words


PICTURE = MediaOutput("image", "data:image/png;base64,AAAA")


READS: list[list[Event]] = [
    [TextDelta("a")],
    [TextDelta("é")],
    [TextDelta("x" * 8001)],
    [TextDelta("b"), TextDelta("\u2028c"), TextDelta("d")],
    [TextDelta("e"), TextDelta("y" * 8001)],
    [ReasoningDelta("f"), ReasoningDelta("g"), Extra({"reasoning_details": [{"data": "s"}]})],
    [ReasoningDelta("h")],
    [TextDelta("i", refusal=True), TextDelta("j", refusal=True)],
    [ToolCallDelta(0, "{", "c", "f")],
    [ToolCallDelta(0, '"a": '), ToolCallDelta(0, "1}")],
    [],
    [Finish("tool_calls")],
]


@each_case("name", FORMATS)
@each_case("mode", ["delta", "whole"])
def test_reads_of_every_kind_are_written_together_like_each_of_them(name: str, mode: ReplyMode) -> None:
    together, alone = (FORMATS[name].reply_encoder(ReplyInfo("chat-1", "req-1", "m", 1), mode) for _ in range(2))
    assert encode_each(together, READS) == b"".join([alone.feed(events) for events in READS])


@each_case("name", FORMATS)
@each_case("mode", ["delta", "snapshot", "whole"])
def test_joined_texts_of_every_kind_are_written_like_each_read(name: str, mode: ReplyMode) -> None:
    together, alone = (FORMATS[name].reply_encoder(ReplyInfo("chat-1", "req-1", "m", 1), mode) for _ in range(2))
    blanks: list[list[Event]] = [[TextDelta(" ")], [TextDelta("\n")]]
    parts = join_texts([*blanks, [ReasoningDelta("z")], *blanks, *READS[:-1], [PICTURE, *READS[-1]]])
    assert any(isinstance(part, EventRuns) for part in parts)
    written = b"".join([encode_each(together, part) for part in parts])
    assert written == b"".join([alone.feed(events) for part in parts for events in part])
