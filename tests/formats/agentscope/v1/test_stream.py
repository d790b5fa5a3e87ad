"""Replies in AgentScope 1.x."""

from typing import Any

from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format
from msgspec.structs import replace

from tests.formats.agentscope.cases import Json, decoded
from tests.formats.agentscope.replies import FRIDAY, stream, whole


def last(form: Format, *events: Event, **info: Any) -> Json:
    return stream(form, [list(events)], info=replace(FRIDAY, **info))[-1]


def test_an_empty_reply_of_1x_is_one_empty_message() -> None:
    (frame,) = stream(AGENTSCOPE, [[Finish("stop")]])
    assert frame == {
        "msg": {
            "id": "chat-1",
            "name": "Friday",
            "role": "assistant",
            "content": [],
            "metadata": {"finish_reason": "stop", "usage": None},
            "timestamp": "1970-01-01 00:00:01.000",
        },
        "last": True,
    }


def test_thoughts_that_go_on_after_text_grow_the_one_thought_of_1x() -> None:
    reply_events: list[Event] = [
        ReasoningDelta("a"),
        TextDelta("b"),
        ReasoningDelta("c"),
        TextDelta("d"),
        Finish("stop"),
    ]
    content = last(AGENTSCOPE, *reply_events)["msg"]["content"]
    assert content == [{"type": "thinking", "thinking": "ac"}, {"type": "text", "text": "bd"}]
    blocks = whole(AGENTSCOPE2, [reply_events])["msg"]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "thinking", "text"]


def test_details_of_several_thoughts_stand_one_behind_the_other_in_1x() -> None:
    reply_events: list[Event] = []
    for number, text in enumerate("ab"):
        reply_events += [ReasoningDelta(text), Extra({"reasoning_details": [number]}), TextDelta(text)]
    thought, _ = decoded(AGENTSCOPE, whole(AGENTSCOPE, [[*reply_events, Finish("stop")]])["msg"])
    assert thought.extra["reasoning_details"] == [0, 1]


def test_a_failed_stream_of_1x_ends_with_an_error_frame() -> None:
    reply_events, end = stream(
        AGENTSCOPE, [[TextDelta("t"), Failed(Fault("rate_limit", "slow", transient=True, status=429))]]
    )
    assert (reply_events["msg"]["content"], reply_events["last"]) == ([{"type": "text", "text": "t"}], False)
    assert end["last"] is True
    assert {"type": "rate_limit", "message": "slow (rate limit)", "retryable": True}.items() <= end["error"].items()


USAGE = {"prompt_tokens": 30, "completion_tokens": 25, "total_tokens": 55}


DETAILED = {**USAGE, "prompt_tokens_details": {"cached_tokens": 7}}


def test_details_of_the_usage_stand_beside_the_two_numbers() -> None:
    usage = last(AGENTSCOPE, Finish("stop", DETAILED))["msg"]["metadata"]["usage"]
    assert usage == {"input_tokens": 30, "output_tokens": 25, "metadata": DETAILED}
