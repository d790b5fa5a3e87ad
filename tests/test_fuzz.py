"""Whatever comes in, from a caller or from a model server, something sensible comes out.

`FUZZ=long` tries two hundred times as many, and other ones in every run.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from app.chat.events import Event, Failed, Finish
from app.chat.messages import ChatRequest
from app.errors import CODES, UpstreamFailed
from app.formats import FORMATS
from app.formats.base import ReplyInfo, ReplyMode
from app.profiles import Profile
from app.steps.pipeline import reply_stages
from app.upstream import faults
from app.upstream.chat_completions import chunk_decoder
from app.upstream.chat_completions.assembler import Assembler
from app.upstream.reply.sse import EventReader
from hypothesis import example, given, note
from hypothesis import strategies as st

from tests.effort import effort
from tests.fuzz_values import CHOICES, JSON, SCALARS, TEXTS, TOOL, check_error, damaged, dumped, record, usually
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

# -- any JSON ----------------------------------------------------------


# -- what callers may send ----------------------------------------------------------

ITEM = record({"text": TEXTS, "image": TEXTS, "audio": JSON, "video": st.lists(TEXTS, max_size=2), "type": TEXTS})
CONTENT = st.one_of(st.none(), TEXTS, st.lists(usually(ITEM), max_size=3))
CALL = record({"name": TEXTS, "arguments": st.sampled_from(['{"a":1}', "", "{", "\ud800", "[" * 3000])})
EXTRA = record({"function_id": st.sampled_from(["1", "2", 3, ""]), "turn": TEXTS, "reasoning_details": JSON})
MESSAGE = record(
    {
        "role": st.sampled_from(["user", "assistant", "function", "system", "tool"]),
        "content": CONTENT,
        "reasoning_content": CONTENT,
        "name": TEXTS,
        "function_call": CALL,
        "extra": EXTRA,
    }
).map(lambda message: {"role": "user", "content": "x", **message})
CFG = record(
    {
        **dict.fromkeys(("temperature", "top_p", "min_p", "repetition_penalty", "request_timeout"), st.floats(0.1, 1)),
        **dict.fromkeys(("top_k", "max_tokens", "seed", "n", "thinking_budget", "max_input_tokens"), st.integers(1, 9)),
        **dict.fromkeys(("enable_thinking", "parallel_function_calls", "thought_in_content"), st.booleans()),
        "stop": TEXTS | st.lists(TEXTS),
        **dict.fromkeys(("function_choice", "tool_choice"), st.sampled_from(CHOICES)),
        "logit_bias": st.dictionaries(TEXTS, st.floats()),
        "response_format": JSON,
        "extra_body": st.dictionaries(TEXTS, JSON),
    }
)
ENVELOPE = record(
    {
        "model": st.just("m"),
        "format": st.just("qwen"),
        "reply_format": st.just("qwen"),
        "functions": st.lists(usually(TOOL | st.builds(lambda one: {"type": "function", "function": one}, TOOL))),
        "tools": st.none(),
        "generate_cfg": CFG,
        "stream": st.booleans(),
        "stream_mode": st.sampled_from(["delta", "snapshot"]),
        "cache": record({"mode": st.sampled_from(["on", "off", "only"]), "ttl_seconds": st.integers(1)}),
        "metadata": st.dictionaries(TEXTS, TEXTS),
    }
).flatmap(
    lambda envelope: st.lists(usually(MESSAGE), max_size=4).map(
        lambda messages: {"messages": [{"role": "user", "content": "x"}, *messages], **envelope}
    )
)


BODIES = st.one_of(
    st.binary(max_size=60),
    JSON.map(dumped),
    ENVELOPE.map(dumped),
    ENVELOPE.map(dumped),
    ENVELOPE.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    damaged(ENVELOPE.map(dumped)),
)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running({**SERVER, "server": {"log_level": "error"}}, ModelServer()) as running:
        yield running


def body(content: str, rest: str = "") -> bytes:
    return f'{{"messages":[{{"role":"user","content":{content}}}]{rest}}}'.encode()


def check_answer(answer: Answer, raw: bytes) -> None:
    if answer.status != 200:
        check_error(answer.json["error"], answer.status, raw)
    elif "text/event-stream" in answer.headers["content-type"]:
        assert answer.frames[-1]["type"] == "response.completed"
    else:
        assert answer.json["finish_reason"] == "stop"


@effort(40)
@given(BODIES)
@example(b"")
@example(b"\xff\xfe{\x00}\x00")
@example(b"\xef\xbb\xbf{}")
@example(b"[" * 100_000)
@example(b'{"a":' * 190 + b"1" + b"}" * 190)
@example(body('"x"', ',"functions":[{"name":"f","parameters":' + "[" * 150 + "]" * 150 + "}]"))
@example(body('"x"', ',"functions":[{"name":"f","parameters":{"x":%s}}]' % ("9" * 4000)))
@example(body("9" * 5000))
@example(body("1e999999", ',"bad":-1e999999'))
@example(body('"\\ud800"'))
@example(body('"x"', ',"\\ud800":1'))
@example(body("NaN", ',"generate_cfg":{"temperature":NaN,"extra_body":{"x":[Infinity]}}'))
@example(body('"x"', ',"messages":[1],"messages":2'))
@example(body('"x"', ',"format":"openai","format":"qwen","bad":1'))
@example(body('"x"', ',"<foo>":1,"metadata":{"str":1,"a.b":2},"generate_cfg":{"str":1}'))
@example(dumped({"messages": [{"role": "user", "content": "x"}] * 10_001}))
@example(dumped({"messages": [{"role": "user", "content": "x"}] * 10_000}))
@example(dumped({"messages": [{}] * 2_000}))
def test_no_request_makes_the_gateway_fail(gateway: Running, raw: bytes) -> None:
    check_answer(gateway.post("/v1/chat", raw), raw)


@effort(20)
@given(BODIES)
def test_no_bytes_make_the_other_endpoints_fail(gateway: Running, raw: bytes) -> None:
    answer = gateway.post("/v1/models", raw)
    assert (answer.status, answer.json["error"]["code"]) == (405, "method_not_allowed")


# -- what model servers may send ----------------------------------------------------------

FRAGMENT = record(
    {
        "index": st.integers(0, 3),
        "id": st.sampled_from(["a", "b", ""]),
        "function": record({"name": st.sampled_from(["f", "g", "fg"]), "arguments": TEXTS | st.just('{"a":1}')}),
        "extra_content": JSON,
    }
)
DELTA = record(
    {
        **dict.fromkeys(("content", "reasoning_content", "reasoning", "refusal"), TEXTS | st.just("<think>a</think>b")),
        "reasoning_details": st.lists(record({"text": TEXTS, "signature": TEXTS}), max_size=2),
        "tool_calls": st.lists(usually(FRAGMENT), max_size=3),
        "function_call": record({"name": TEXTS, "arguments": TEXTS}),
    }
)
CHOICE = record(
    {
        "index": st.just(0),
        "delta": DELTA,
        "message": DELTA,
        "finish_reason": st.sampled_from([None, None, "stop", "tool_calls", "length", "error", "odd", "\ud800"]),
        "usage": st.dictionaries(TEXTS, JSON),
    }
)
ERROR = record(
    {
        **dict.fromkeys(("message", "detail", "msg", "type", "status_msg", "failed_generation"), TEXTS),
        **dict.fromkeys(("code", "status", "status_code"), st.sampled_from([400, "429", 500.0, "9" * 5000, 1004])),
        "metadata": record({"raw": TEXTS | st.just('{"error":{"message":"no"}}')}),
        "loc": JSON,
    }
)
CHUNK = record(
    {
        "choices": st.lists(usually(CHOICE), min_size=1, max_size=2),
        "usage": record({"prompt_tokens": SCALARS, "completion_tokens_details": JSON}),
    }
)
BAD_CHUNK = record(
    {
        "choices": st.lists(CHOICE, max_size=1),
        **dict.fromkeys(("error", "base_resp", "detail", "message", "x_groq"), ERROR | st.lists(usually(ERROR))),
        "object": st.sampled_from(["error", "chat.completion.chunk"]),
        "code": SCALARS,
    }
)
VALUE = st.one_of(CHUNK, CHUNK, CHUNK, BAD_CHUNK, JSON).map(dumped)
PART = st.one_of(
    *[VALUE.map(lambda data: b"data: " + data + b"\n\n")] * 4,
    VALUE.map(lambda data: data + b"\n"),
    VALUE.map(lambda data: b"event: error\ndata: " + data + b"\n\n"),
    VALUE.map(lambda data: b"error: " + data + b"\n"),
    st.sampled_from([b"data: [DONE]\n\n", b": alive\n\n", b"event: ping\r\n", b"data:\r\r", b"<html>\n", b"id: 1\n"]),
    st.binary(max_size=20),
)
STREAMS = st.one_of(st.lists(PART, max_size=6).map(b"".join), damaged(st.lists(PART, max_size=6).map(b"".join)))
MODES: tuple[ReplyMode, ...] = ("delta", "snapshot", "whole")
THINKING = ("leading", "forced_open", "auto_close", "interleaved", "off")


def run(pieces: list[bytes], mode: ReplyMode, profile: Profile, clean: bool) -> tuple[bytes, Finish | Failed]:
    """What a caller is sent for these bytes of a model server, and how it ended."""
    reader, assembler = EventReader(chunk_decoder.decode), Assembler("chat-1")
    info = ReplyInfo("chat-1", "req-1", "m", 1)
    encoder = FORMATS["qwen"].reply_encoder(info, mode)
    stages = reply_stages(ChatRequest("m", ()), profile, "chat-1")

    def read(found: list[Event]) -> list[Event]:
        for stage in stages:
            found = stage.feed(found)
        return found

    out, events = encoder.open(), []
    for piece in pieces:
        if not assembler.ended:
            events.append(read(assembler.feed(reader.feed(piece))))
    found = assembler.feed(reader.close(clean))
    found += assembler.close(reader.junk, None if clean else faults.make_fault("upstream_incomplete", "cut"))
    events.append(read(found))
    out += b"".join(encoder.feed(each) for each in events if each)
    ends = [event for each in events for event in each if isinstance(event, Finish | Failed)]
    assert len(ends) == 1, "a reply ends exactly once"
    assert events[-1][-1:] == ends or not events[-1]
    if mode == "whole" and isinstance(ends[0], Failed):
        out = encoder.fail(UpstreamFailed(ends[0].fault).to_dict("req-1"))
    return out, ends[0]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in zip(bounds, bounds[1:], strict=False)]


def deep(form: str, depth: int) -> bytes:
    return b"data: " + (form % ("[" * depth + "]" * depth)).encode() + b"\n\n"


@effort(45)
@given(
    STREAMS,
    st.lists(st.integers(0, 2000), max_size=4),
    st.sampled_from(MODES),
    st.sampled_from(THINKING),
    st.booleans(),
)
@example(deep('{"choices":[{"delta":{"content":%s}}]}', 800), [], "delta", "leading", True)
@example(deep('{"error":{"message":%s}}', 900), [], "delta", "leading", True)
@example(deep('{"error":%s}', 900), [], "whole", "leading", True)
@example(deep('{"usage":{"a":%s},"choices":[{"finish_reason":"stop"}]}', 950), [], "delta", "leading", True)
@example(deep('{"choices":[{"message":{"tool_calls":[{"extra_content":%s}]}}]}', 980), [], "whole", "off", True)
@example(b'data: {"error":{"message":"x","failed_generation":"\\ud800"}}\n\n', [], "whole", "leading", True)
@example(
    b'data: {"choices":[{"finish_reason":"x\\ud800"}],"usage":{"\\udc00":"\\ud800"}}\n\n', [], "delta", "off", True
)
@example(b'data: {"detail":[{"loc":5,"msg":"x"}]}\n\n', [], "delta", "leading", True)
@example(b'data: {"base_resp":{"status_code":[1]}}\n\n', [], "delta", "leading", True)
@example(b'data: {"choices":[{"index":"%b","delta":{"content":"x"}}]}\n\n' % (b"9" * 5000), [], "delta", "off", True)
@example(b'data: {"error":{"code":"%b"}}\n\n' % (b"9" * 5000), [], "delta", "off", True)
def test_no_reply_makes_the_gateway_fail_or_invents_an_end(
    data: bytes, places: list[int], mode: ReplyMode, thinking: Any, clean: bool
) -> None:
    note(repr(data))
    out, end = run(cut(data, places), mode, Profile(inline_think=thinking), clean)
    out.decode()
    if isinstance(end, Finish):
        assert re.search(rb"\[DONE\]|finish_reason|message", data), "no server said that the reply was finished"
    else:
        assert end.fault.code in CODES
        assert end.fault.message
    if mode == "whole":
        assert ("error" in json.loads(out)) == isinstance(end, Failed)


@effort(40)
@given(st.lists(DELTA, max_size=4), st.sampled_from(MODES), st.booleans())
def test_a_reply_without_an_end_is_never_a_success(deltas: list[Any], mode: ReplyMode, clean: bool) -> None:
    data = b"".join(b"data: %b\n\n" % dumped({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas)
    assert isinstance(run([data], mode, Profile(), clean)[1], Failed)


@effort(40)
@given(
    st.one_of(ERROR, st.lists(ERROR, max_size=2), BAD_CHUNK, JSON).map(dumped) | st.binary(max_size=30),
    st.sampled_from([400, 401, 403, 404, 408, 418, 422, 429, 500, 502, 503, 504, 529, 599]),
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text(max_size=6) | st.sampled_from(["nan"])),
)
@example(b'{"error":' * 900 + b"1" + b"}" * 900, 500, {})
@example(b"x", 429, {"retry-after": "inf", "retry-after-ms": "nan"})
@example(b"x", 429, {"retry-after": "Thu, 01 Jan 1970 00:00:00 -9999"})
@example(b'{"code":"%b"}' % (b"9" * 5000), 500, {})
def test_every_fault_has_a_known_kind_and_can_be_encoded(body: bytes, status: int, headers: dict[str, str]) -> None:
    fault = faults.from_response(status, headers, body, datetime(2026, 1, 1, tzinfo=UTC))
    error = UpstreamFailed(fault)
    assert fault.code in CODES
    assert json.dumps(error.to_dict("req-1"), allow_nan=False).encode()
    assert all(value.isdigit() for value in error.headers.values())
