"""Streams whose frames have the whole reply so far."""

from app.chat.accumulator import MessageAccumulator
from app.chat.events import (
    Failed,
    Finish,
)
from app.formats.agentscope.v1.stream import ReplyWriter
from app.formats.qwen.stream import write_message
from app.formats.snapshots import SnapshotEncoder
from app.formats.sse import encode_json, escape_line_separators, write_frame
from hypothesis import given

from tests.formats.random_replies import Reads, make_encoder, replies


@given(replies())
def test_a_snapshot_of_qwen_agent_has_all_messages_so_far(reads: Reads) -> None:
    encoder, accumulator = make_encoder("qwen", "snapshot", {}), MessageAccumulator()
    encoder.open()
    number = 1
    for read in reads:
        changed = any(not isinstance(step, Finish | Failed) for step in accumulator.feed(read))
        written = encoder.feed(read)
        expected = b""
        if changed:
            number += 1
            messages = [write_message(one) for one in accumulator.messages]
            data = escape_line_separators(encode_json({"type": "messages", "seq": number, "messages": messages}))
            expected = b"id: %d\nevent: messages\ndata: %b\n\n" % (number, data)
        assert written.startswith(expected)
        rest = written.removeprefix(expected)
        assert b"event: messages\n" not in rest
        assert bool(rest) == (bool(read) and isinstance(read[-1], Finish | Failed))


@given(replies())
def test_a_snapshot_of_agentscope_has_the_whole_message_so_far(reads: Reads) -> None:
    encoder, accumulator = make_encoder("agentscope", "delta", {"agent_name": '"content":[]'}), MessageAccumulator()
    assert isinstance(encoder, SnapshotEncoder)
    for read in reads:
        steps = accumulator.feed(read)
        ended = bool(steps) and isinstance(steps[-1], Finish)
        expected = b""
        if not ended and any(not isinstance(step, Failed) for step in steps):
            writer = ReplyWriter(encoder._info)
            expected = write_frame({"msg": writer.write_msg(writer.head, accumulator.messages), "last": False})
        written = encoder.feed(read)
        assert written.startswith(expected)
        assert written == expected or read[-1:] and isinstance(read[-1], Finish | Failed)
