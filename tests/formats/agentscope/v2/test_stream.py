"""Replies in AgentScope 2.x."""

from app.chat.events import Event, Failed, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.formats.agentscope.v2 import AGENTSCOPE2

from tests.formats.agentscope.replies import stream, whole

USAGE = {"prompt_tokens": 30, "completion_tokens": 25, "total_tokens": 55}


DETAILED = {**USAGE, "prompt_tokens_details": {"cached_tokens": 7}}


CALL = ToolCallDelta(0, '{"a":1}', "c1", "f")


REPLY: list[Event] = [ReasoningDelta("r"), TextDelta("t"), CALL, Finish("tool_calls", USAGE)]


def test_an_empty_reply_of_2x_has_no_blocks() -> None:
    types = ["REPLY_START", "MODEL_CALL_START", "MODEL_CALL_END", "REPLY_END"]
    assert [event["type"] for event in stream(AGENTSCOPE2, [[Finish("stop")]])] == types


def test_a_whole_reply_of_2x_is_a_message_with_its_usage() -> None:
    body = whole(AGENTSCOPE2, [[*REPLY[:-1], Finish("tool_calls", DETAILED)]])
    usage = {"input_tokens": 30, "output_tokens": 25, "cache_input_tokens": 7, "cache_creation_input_tokens": 0}
    assert body["msg"] == {
        "name": "Friday",
        "content": [
            {"type": "thinking", "thinking": "r"},
            {"type": "text", "text": "t"},
            {"type": "tool_call", "id": "c1", "name": "f", "input": '{"a":1}', "state": "pending"},
        ],
        "role": "assistant",
        "id": "chat-1",
        "metadata": {"finish_reason": "tool_calls"},
        "created_at": "1970-01-01T00:00:01+00:00",
        "usage": usage,
        "finished_at": "1970-01-01T00:00:01+00:00",
        "finished_reason": "completed",
        "structured_output": None,
        "error": None,
    }


def test_a_failed_stream_of_2x_closes_what_is_open() -> None:
    failed = Failed(Fault("timeout", "silence", transient=True))
    events = stream(AGENTSCOPE2, [[TextDelta("t"), CALL], [ToolCallDelta(1, "{", "c2", "g"), failed]])
    assert [event["type"] for event in events[-3:]] == ["TOOL_CALL_END", "TOOL_CALL_END", "REPLY_END"]
    assert events[-1]["error"] == {"type": "connection", "message": "silence (timeout)"}
    assert events[-1]["finished_reason"] == "error"
