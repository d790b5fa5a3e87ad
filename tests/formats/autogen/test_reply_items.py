"""The items of a reply: their ids and times, and those of a whole reply."""

import json

from app.chat.events import Failed, Finish, ReasoningDelta, TextDelta
from app.formats.autogen import AUTOGEN
from app.formats.base import Options

from tests.each_case import each_case
from tests.formats.autogen.recorded_cases import read, text
from tests.formats.autogen.reply_frames import STREAMS, encode_frames, info, upstream, whole


@each_case("form", ["interleaved", "compat", "model"])
@each_case("name", STREAMS)
def test_a_whole_reply_is_the_last_frame_of_its_stream(name: str, form: str) -> None:
    batches = upstream(name)
    events = [event for batch in batches for event in batch]
    last = events[-1]
    if isinstance(last, Failed):
        assert AUTOGEN.reply_encoder(info(form), "whole").feed(events[:-1]) == b""
        return
    streamed = encode_frames(batches, form)[-1]
    streamed.pop("type", None)
    assert whole(events, form) == streamed


@each_case("name", [name for name in STREAMS if not name.startswith("s20")])
def test_the_messages_of_a_reply_can_be_posted_back_as_history(name: str) -> None:
    messages = encode_frames(upstream(name))[-1]["messages"]
    assert AUTOGEN.write(read([text("user", "q"), *messages]), Options()).messages == [text("user", "q"), *messages]


def test_ids_and_times_follow_from_the_reply() -> None:
    first, *_, last = encode_frames([[TextDelta("x"), Finish("stop")]])
    assert (first["full_message_id"], first["id"], last["messages"][0]["id"]) == ("chat-1-1", "chat-1-2", "chat-1-1")
    assert first["created_at"] == last["messages"][0]["created_at"] == "2026-01-01T00:00:00Z"
    assert last["stop_reason"] == "stop"


def test_a_whole_reply_that_fails_says_what_was_complete() -> None:
    encoder = AUTOGEN.reply_encoder(info(), "whole")
    assert "messages" not in json.loads(encoder.fail({"message": "no"}))
    assert encoder.open() == encoder.feed([]) == encoder.feed([ReasoningDelta("r"), TextDelta("t")]) == b""
    body = json.loads(encoder.fail({"message": "no", "code": "x"}))
    assert [one["content"] for one in body.pop("messages")] == ["r"]
    assert body == {"type": "error", "content": "no", "source": "system", "code": "x"}


def test_a_whole_reply_has_no_heartbeat() -> None:
    assert AUTOGEN.reply_encoder(info(), "whole").heartbeat() == b""
    assert AUTOGEN.reply_encoder(info(), "delta").heartbeat() != b""
