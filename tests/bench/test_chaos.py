"""What the chaos run finds wrong with a reply, and what it excuses."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from chaos_checks import find_crashes, read_gauges
from chaos_readers import ChatReader, CompletionReader, ReplyReader, read_whole
from chaos_replies import SAME, Question, Received, WrongReplyError, answer, find_mistake
from chaos_results import Results

from tests.bench.chaos_frames import OPENING, frame

STEADY = Question("q1", "steady", 30, 5).prompt
VARYING = Question("q2", "varying", 30, 5).prompt
CALL = Question("q3", "call", 30, 5).prompt


def whole(prompt: str, mark: str = SAME) -> Received:
    right = answer(prompt, mark)
    usage: dict[str, object] = {
        "prompt_tokens": right.prompt_tokens,
        "completion_tokens": right.completion_tokens,
        "total_tokens": right.prompt_tokens + right.completion_tokens,
    }
    return Received(right.reasoning, right.content, right.arguments, "completed", "", right.finish_reason, usage)


@pytest.mark.parametrize(("prompt", "mark"), [(STEADY, SAME), (VARYING, "0123abcd"), (CALL, SAME)])
def test_a_right_reply_is_right_and_so_is_every_beginning_of_it(prompt: str, mark: str) -> None:
    right = whole(prompt, mark)
    assert find_mistake(prompt, right) == ""
    for size in range(len(right.reasoning)):
        assert find_mistake(prompt, Received(right.reasoning[:size])) == ""
    for size in range(len(right.content)):
        assert find_mistake(prompt, Received(right.reasoning, right.content[:size], ended="failed")) == ""


@pytest.mark.parametrize(
    ("spoil", "mistake"),
    [
        (lambda r: replace(r, content=r.content[:-1]), "its content is cut off"),
        (lambda r: replace(r, content=""), "its content is cut off"),
        (lambda r: replace(r, reasoning=r.reasoning[:-1]), "came before"),
        (lambda r: replace(r, content=r.content + "x"), "content is wrong"),
        (lambda r: replace(r, content=r.content[:40] + r.content[41:]), "content is wrong at"),
        (lambda r: replace(r, content=r.content[:80] + r.content[40:]), "content is wrong at"),
        (lambda r: replace(r, content=whole(VARYING).content), "content is wrong at"),
        (lambda r: replace(r, reasoning="", content="", ended="completed"), "there is only ''"),
        (lambda r: replace(r, reasoning="1", content="", ended=""), "begins with '1'"),
        (lambda r: replace(r, arguments="{"), "arguments is wrong"),
        (lambda r: replace(r, finish_reason="length"), "the finish reason is 'length'"),
        (lambda r: replace(r, usage={**(r.usage or {}), "completion_tokens": 7}), "the usage is"),
    ],
)
def test_a_wrong_reply_is_found(spoil: Callable[[Received], Received], mistake: str) -> None:
    assert mistake in find_mistake(STEADY, spoil(whole(STEADY)))


def test_parts_of_two_calls_are_not_one_reply() -> None:
    one, other = whole(VARYING, "00000001"), whole(VARYING, "00000002")
    assert "content is wrong" in find_mistake(VARYING, replace(one, content=other.content))
    assert "content is wrong" in find_mistake(VARYING, replace(one, content=one.content[:30] + other.content[30:]))


STARTED = frame(2, "message.started", index=0, kind="content", message={"role": "assistant"})
DELTA = frame(3, "message.delta", index=0, delta={"content": "hello"})
FULL = frame(4, "message.completed", index=0, message={"role": "assistant", "content": "hello"})
END = frame(5, "response.completed", finish_reason="stop", usage=None)
CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}'
LAST = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


@pytest.mark.parametrize(
    ("reader", "frames"),
    [
        (ChatReader(), [OPENING, b": quiet", STARTED, DELTA, FULL, END]),
        (CompletionReader(), [CHUNK, LAST, b"data: [DONE]"]),
    ],
)
def test_a_stream_is_read(reader: ReplyReader, frames: list[bytes]) -> None:
    for one in frames:
        reader.feed(one)
    assert reader.received == Received(content="hello", ended="completed", finish_reason="stop")
    assert reader.response_id in ("chat-1", "c")
    with pytest.raises(WrongReplyError, match="after the end"):
        reader.feed(frames[-1])


@pytest.mark.parametrize(
    ("delta", "cut"),
    [
        ({"content": "a"}, False),
        ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, True),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"a'}}]}, True),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]}, False),
    ],
)
def test_a_stream_that_fails_within_a_call_may_have_no_end(delta: dict[str, Any], cut: bool) -> None:
    reader = CompletionReader()
    reader.feed(b"data: " + json.dumps({"id": "c", "choices": [{"delta": delta}]}).encode())
    assert not reader.failed_within_call
    reader.feed(b'data: {"error": {"code": "upstream_disconnected"}}')
    assert reader.failed_within_call == cut


@pytest.mark.parametrize(
    "frames",
    [
        [STARTED],
        [OPENING, DELTA],
        [OPENING, OPENING],
        [OPENING, STARTED, DELTA, frame(4, "response.completed", finish_reason="stop", usage=None)],
        [OPENING, STARTED, frame(3, "message.completed", index=0, message={"role": "assistant", "content": "x"})],
        [OPENING, frame(2, "messages", messages=[{"role": "assistant", "content": "ab"}]),
         frame(3, "messages", messages=[{"role": "assistant", "content": "b"}])],
        [b"data: {}"],
    ],
)  # fmt: skip
def test_a_stream_against_the_rules_is_found(frames: list[bytes]) -> None:
    reader = ChatReader()
    with pytest.raises(WrongReplyError):
        for one in frames:
            reader.feed(one)


def test_a_reply_in_one_body_is_read_from_both_endpoints() -> None:
    messages = [{"role": "assistant", "reasoning_content": "r", "content": ""}, {"role": "assistant", "content": "c"}]
    chat = {"messages": messages, "finish_reason": "stop", "usage": None}
    message = {"role": "assistant", "reasoning_content": "r", "content": "c"}
    completion = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": None}
    assert read_whole(chat) == read_whole(completion) == Received("r", "c", "", "completed", "", "stop", None)


def test_a_broken_connection_is_excused_only_by_a_kill_meanwhile() -> None:
    results = Results()
    results.broken("before", time.monotonic(), "reset")
    stop = results.begin("stop")
    results.broken("stopped", time.monotonic(), "reset")
    stop.ended = time.monotonic()
    started = time.monotonic()
    kill = results.begin("kill")
    kill.ended = time.monotonic()
    results.broken("killed", started, "reset")
    results.broken("later", time.monotonic() + 1, "reset")
    assert [text.split(":")[0] for text in results.violations] == ["before", "stopped", "later"]


def test_gauges_are_added_up_and_crashes_are_found_in_logs() -> None:
    text = '# HELP a_b x\na_b{c="1 2"} 1.0\na_b{c="3"} 2.0\nd 0.0\ne 5\n'
    assert read_gauges(text, ("a_b", "d", "f")) == {"a_b": 3.0, "d": 0.0}
    lines = [
        '{"level":"info","message":"ok"}',
        '{"level":"error","message":"no"}',
        "Traceback (most recent call last):",
    ]
    assert find_crashes("\n".join(lines)) == lines[1:]
    assert find_crashes("\n".join(lines), expected='"no"') == lines[2:]
