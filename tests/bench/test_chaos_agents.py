"""What the chaos run reads of replies in the formats of AutoGen and AgentScope."""

import json
from typing import Any

import pytest
from chaos_agent_readers import AgentScope2Reader, AgentScopeReader, AutogenReader
from chaos_readers import ReplyReader
from chaos_replies import Received, WrongReplyError

Json = dict[str, Any]
USAGE: dict[str, object] = {"prompt_tokens": 3, "completion_tokens": 2}


def frame(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode()


def chunk(number: int, text: str, kind: str = "content") -> bytes:
    name, whole = "ModelClientStreamingChunkEvent", f"m-{kind}"
    return frame(type=name, id=f"c-{number}", full_message_id=whole, content=text, metadata={"kind": kind})


THOUGHT: Json = {
    "type": "ThoughtEvent",
    "id": "m-reasoning",
    "content": "t",
    "metadata": {"kind": "reasoning"},
    "models_usage": None,
}
TEXT: Json = {"type": "TextMessage", "id": "m-content", "content": "ab", "metadata": {}, "models_usage": USAGE}
RESULT: Json = {"type": "TaskResult", "messages": [THOUGHT, TEXT], "stop_reason": "stop"}
AUTOGEN = [
    chunk(1, "t", "reasoning"),
    frame(**THOUGHT),
    chunk(2, "a"),
    b": comment",
    chunk(3, "b"),
    frame(**TEXT),
    frame(**RESULT),
]


def msg(*texts: tuple[str, str], last: bool = False, **metadata: Any) -> bytes:
    content = [{"type": kind, kind: text} for kind, text in texts]
    return frame(msg={"content": content, "metadata": metadata}, last=last)


ENDING: Json = {"finish_reason": "stop", "usage": {"input_tokens": 3, "output_tokens": 2}}
AGENTSCOPE = [
    msg(("thinking", "t")),
    msg(("thinking", "t"), ("text", "a")),
    msg(("thinking", "t"), ("text", "ab"), last=True, **ENDING),
]


def events(*rows: tuple[str, Json]) -> list[bytes]:
    head: Json = {"metadata": {}, "reply_id": "r", "error": None}
    return [frame(**{**head, "id": f"r-e{at}", "type": name, **fields}) for at, (name, fields) in enumerate(rows, 1)]


def block(kind: str, step: str, **fields: Any) -> tuple[str, Json]:
    return f"{kind}_BLOCK_{step}", {"block_id": kind, **fields}


START: tuple[str, Json] = ("REPLY_START", {})
END: tuple[str, Json] = ("REPLY_END", {})
THINKING = [block("THINKING", "START"), block("THINKING", "DELTA", delta="t"), block("THINKING", "END")]
WORDS = [block("TEXT", "DELTA", delta=word) for word in "ab"]
SAID = [block("TEXT", "START"), *WORDS, block("TEXT", "END")]
AGENTSCOPE2 = events(START, ("MODEL_CALL_START", {}), *THINKING, *SAID, ("MODEL_CALL_END", {}), END)


@pytest.mark.parametrize(
    ("reader", "frames", "usage"),
    [
        (AutogenReader(), AUTOGEN, USAGE),
        (AgentScopeReader(), AGENTSCOPE, USAGE),
        (AgentScope2Reader(), AGENTSCOPE2, None),
    ],
)
def test_a_reply_is_read(reader: ReplyReader, frames: list[bytes], usage: dict[str, object] | None) -> None:
    for one in frames:
        reader.feed(one)
    assert reader.received == Received("t", "ab", "", "completed", finish_reason="stop", usage=usage)


@pytest.mark.parametrize(
    ("reader", "frames"),
    [
        (AutogenReader(), [*AUTOGEN[:3], frame(type="error", code="x", content="m")]),
        (AgentScopeReader(), [*AGENTSCOPE[:1], frame(error={"code": "x"}, last=True)]),
        (AgentScope2Reader(), events(START, ("REPLY_END", {"error": {"type": "x"}}))),
    ],
)
def test_a_failure_ends_a_stream(reader: ReplyReader, frames: list[bytes]) -> None:
    for one in frames:
        reader.feed(one)
    assert (reader.received.ended, reader.received.error) == ("failed", "x")


@pytest.mark.parametrize(
    ("reader", "frames"),
    [
        (AutogenReader(), [b"event: x\ndata: {}"]),
        (AutogenReader(), [*AUTOGEN, AUTOGEN[0]]),
        (AutogenReader(), [AUTOGEN[0], AUTOGEN[0]]),
        (AutogenReader(), [AUTOGEN[0], chunk(2, "t", "reasoning"), AUTOGEN[1]]),
        (AutogenReader(), [*AUTOGEN[:2], frame(**RESULT)]),
        (AutogenReader(), [*AUTOGEN[:4], frame(**{**RESULT, "messages": [THOUGHT]})]),
        (AgentScopeReader(), [AGENTSCOPE[1], AGENTSCOPE[0]]),
        (AgentScopeReader(), [msg(("text", "a"), last=True)]),
        (AgentScopeReader(), [msg(("text", "a"), **ENDING)]),
        (AgentScopeReader(), [msg(("audio", "a"))]),
        (AgentScope2Reader(), events(END)),
        (AgentScope2Reader(), [AGENTSCOPE2[0], AGENTSCOPE2[2]]),
        (AgentScope2Reader(), events(START, THINKING[1])),
        (AgentScope2Reader(), events(START, THINKING[0], THINKING[0])),
        (AgentScope2Reader(), events(START, THINKING[0], END)),
        (AgentScope2Reader(), events(START, ("CUSTOM", {}))),
    ],
)
def test_a_stream_against_the_rules_is_found(reader: ReplyReader, frames: list[bytes]) -> None:
    with pytest.raises(WrongReplyError):
        for one in frames:
            reader.feed(one)
