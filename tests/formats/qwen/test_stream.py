"""The frames of a reply in Qwen-Agent's format."""

import json
from typing import Any

from app.chat.events import Event, Extra, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.stream import Origin
from app.formats.base import Encoder, ReplyInfo
from app.formats.qwen import QWEN

from tests.each_case import each_case

Json = dict[str, Any]
INFO = ReplyInfo("chat-1", "req-1", "m", 1, warnings=["careful"])
CALL = ToolCallDelta(0, "{}", "c1", "f")


def frames(encoder: Encoder, *reads: list[Event]) -> list[Json]:
    """The data of each frame, which repeats its id and its event."""
    found = []
    for block in (encoder.open() + b"".join(map(encoder.feed, reads))).decode().split("\n\n")[:-1]:
        id_, event, data = block.split("\n")
        frame = json.loads(data.removeprefix("data: "))
        assert (id_, event) == (f"id: {frame['seq']}", f"event: {frame['type']}")
        found.append(frame)
    assert [frame["seq"] for frame in found] == list(range(1, len(found) + 1))
    return found


def test_each_message_is_started_grows_and_is_completed() -> None:
    reads: list[list[Event]] = [[ReasoningDelta("r")], [TextDelta("a")], [TextDelta("b")], [CALL], [Finish("stop")]]
    found = frames(QWEN.reply_encoder(INFO, "delta"), *reads)
    assert [(frame["type"], frame.get("index")) for frame in found] == [
        ("response.started", None),
        *[("message.started", 0), ("message.delta", 0), ("message.completed", 0)],
        *[("message.started", 1), ("message.delta", 1), ("message.delta", 1), ("message.completed", 1)],
        *[("message.started", 2), ("message.delta", 2), ("message.completed", 2)],
        ("response.completed", None),
    ]
    assert [frame["delta"] for frame in found if frame["type"] == "message.delta"] == [
        {"reasoning_content": "r"},
        {"content": "a"},
        {"content": "b"},
        {"function_call": {"arguments": "{}"}},
    ]
    assert [frame["message"] for frame in found if frame["type"] == "message.completed"] == [
        {"role": "assistant", "content": "", "reasoning_content": "r"},
        {"role": "assistant", "content": "ab"},
        {
            "role": "assistant",
            "content": "",
            "function_call": {"name": "f", "arguments": "{}"},
            "extra": {"function_id": "c1"},
        },
    ]


def test_a_started_call_has_its_name_and_id_and_media_their_kind() -> None:
    found = frames(QWEN.reply_encoder(INFO, "delta"), [CALL, MediaOutput("image", "https://h/a", {"x": 1})])
    started = [(frame["kind"], frame["message"]) for frame in found if frame["type"] == "message.started"]
    assert started[0] == (
        "function_call",
        {"role": "assistant", "function_call": {"name": "f", "arguments": ""}, "extra": {"function_id": "c1"}},
    )
    assert started[1] == ("content", {"role": "assistant"})


@each_case(("completed_bodies", "text"), [(True, "ab"), (False, "")])
def test_a_completed_message_repeats_its_text_only_if_the_client_wants_it(completed_bodies: bool, text: str) -> None:
    info = ReplyInfo("chat-1", "req-1", "m", 1, completed_bodies=completed_bodies)
    found = frames(QWEN.reply_encoder(info, "delta"), [TextDelta("a"), TextDelta("b"), Finish("stop")])
    [completed] = [frame["message"] for frame in found if frame["type"] == "message.completed"]
    assert completed["content"] == text


def test_the_end_has_the_reason_the_usage_the_warnings_and_the_servers_own_fields() -> None:
    finish = Finish("stop", {"total_tokens": 1}, "eos", ("odd",))
    found = frames(QWEN.reply_encoder(INFO, "delta"), [Extra({"citations": [1]}), finish])
    assert found[-1] == {
        "type": "response.completed",
        "seq": 2,
        "finish_reason": "stop",
        "usage": {"total_tokens": 1},
        "cached": False,
        "warnings": ["careful", "odd"],
        "extra": {"citations": [1], "native_finish_reason": "eos"},
    }


def test_a_snapshot_has_all_messages_of_the_reply_so_far() -> None:
    reads: list[list[Event]] = [[ReasoningDelta("r")], [TextDelta("a"), CALL], [Finish("stop")]]
    found = frames(QWEN.reply_encoder(INFO, "snapshot"), *reads)
    assert [frame["type"] for frame in found] == ["response.started", *["messages"] * 3, "response.completed"]
    assert found[1]["messages"] == [{"role": "assistant", "content": "", "reasoning_content": "r"}]
    assert [message["role"] for message in found[2]["messages"]] == ["assistant"] * 3
    assert found[2]["messages"][2]["function_call"] == {"name": "f", "arguments": "{}"}


FAILED = Failed(Fault("timeout", "silence", True))


def test_a_failed_reply_ends_with_its_error() -> None:
    for mode in ("delta", "snapshot"):
        found = frames(QWEN.reply_encoder(INFO, mode), [TextDelta("a"), FAILED])
        assert found[-1]["type"] == "response.failed"
        assert found[-1]["error"]["code"] == "timeout"


def test_a_whole_reply_is_one_body_with_the_age_of_a_hit() -> None:
    info = ReplyInfo("chat-1", "req-1", "m", 1, Origin("hit", 5))
    encoder = QWEN.reply_encoder(info, "whole")
    assert encoder.open() == encoder.feed([TextDelta("a")]) == b""
    assert json.loads(encoder.feed([Finish("stop")])) == {
        "response_id": "chat-1",
        "model": "m",
        "created": 1,
        "cached": True,
        "age": 5,
        "messages": [{"role": "assistant", "content": "a"}],
        "finish_reason": "stop",
        "usage": None,
        "warnings": [],
    }


def test_a_whole_reply_that_fails_has_the_messages_so_far_beside_its_error() -> None:
    encoder = QWEN.reply_encoder(INFO, "whole")
    encoder.feed([TextDelta("a")])
    assert json.loads(encoder.fail({"code": "x"})) == {
        "error": {"code": "x"},
        "messages": [{"role": "assistant", "content": "a"}],
    }
    assert json.loads(QWEN.reply_encoder(INFO, "whole").fail({"code": "x"})) == {"error": {"code": "x"}}
