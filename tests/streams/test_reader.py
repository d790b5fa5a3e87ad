"""The independent reader, on tiny files of our own, on the conformance corpus, and on all recordings."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import Json, body_chunks, load_cases
from tests.each_case import each_case
from tests.streams.reader import Expected, read, read_body
from tests.streams.recordings import RECORDINGS, needs_recordings

DONE = "data: [DONE]\n\n"


def event(delta: Json | None = None, finish: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice], **more})}\n\n"


def fragment(index: Any, name: str | None, arguments: str | None, call_id: str | None = None) -> Json:
    call = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [call]}


def read_text(*events: str) -> Expected:
    return read_body("".join(events).encode())


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    recorded = tmp_path / "a.sse"
    usage = {"prompt_tokens": 1}
    events = event({"reasoning": "r"}), event({"content": "c"}), event(finish="stop", usage=usage), DONE
    recorded.write_text("".join(events))
    assert read(recorded) == Expected("r", "c", [], "stop", usage, error=False, complete=True)


def test_a_json_body_is_read_as_one_message(tmp_path: Path) -> None:
    recorded = tmp_path / "a.json"
    function = {"name": "f", "arguments": {"a": 1}}
    message = {"content": None, "reasoning_content": "r", "tool_calls": [{"id": "x", "function": function}]}
    recorded.write_text(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}, indent=2))
    assert read(recorded) == Expected("r", "", [("f", '{"a": 1}')], "tool_calls", None, error=False, complete=True)


@pytest.mark.parametrize(
    ("delta", "reasoning"),
    [
        ({"reasoning_content": "", "reasoning": "b", "reasoning_text": "c"}, "b"),
        ({"reasoning": "b", "reasoning_details": [{"type": "reasoning.text", "text": "b"}]}, "b"),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "t"}, {"summary": "s"}, {"data": "x"}]}, "ts"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "p"}]}]}, "p"),
        ({"content": "\n<think>p</think>"}, "p"),
        ({"content": "<think>never closed"}, "never closed"),
        ({"content": "Say <think>p</think>"}, ""),
        ({"reasoning": {"effort": "high"}}, ""),
    ],
)
def test_reasoning_comes_from_one_place_only(delta: Json, reasoning: str) -> None:
    assert read_text(event(delta, "stop")).reasoning == reasoning


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        ([fragment(0, "f", "", "a"), fragment(0, None, "{}"), fragment(1, "g", "{}", "b")], [("f", "{}"), ("g", "{}")]),
        ([fragment(None, "f", "", "a"), fragment(None, None, '{"x":1}')], [("f", '{"x":1}')]),
        ([fragment(0, "f", '{"x":1}', "a"), fragment(0, "f", '{"x":1}', "a")], [("f", '{"x":1}')]),
        ([fragment(0, "f", '{"x":1}'), fragment(0, "f", '{"x":2}')], [("f", '{"x":1}'), ("f", '{"x":2}')]),
        ([fragment(1, "g", "{}", "b"), fragment(0, "f", " ", "a")], [("f", "{}"), ("g", "{}")]),
        ([fragment(-1, "f", "{", "a"), fragment(-1, None, "}", "z")], [("f", "{}")]),
        ([{"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": "{}"}}], [("f", "{}")]),
        ([{"function_call": {"name": "", "arguments": ""}, "tool_calls": None}], []),
    ],
)
def test_fragments_find_their_calls(deltas: list[Json], calls: list[tuple[str, str]]) -> None:
    assert read_text(*map(event, deltas), DONE).calls == calls


@each_case(
    ("events", "finish", "complete"),
    [
        ([event({"content": "a"}, "eos"), DONE], "stop", True),
        ([event({"content": "a"}, "length"), event(finish="stop")], "length", True),
        ([event({"content": "a"}), DONE], "stop", True),
        ([event(fragment(0, "f", "{}"), "stop")], "tool_calls", True),
        ([event({"content": "a"}, "tool_calls")], "stop", True),
        ([event({"content": "a"}, "")], None, False),
        ([event({"content": "a"}), "data: {\n\n", event(finish="stop"), DONE], None, False),
        ([event({"content": "a"}), 'data: {"error": {"message": "x"}}\n\n', DONE], None, False),
        ([event({"content": "a"}), "event: error\ndata: x\n\n", DONE], None, False),
        (['{"object": "error", "message": "x"}'], None, False),
        (['{"message": "no choices"}'], None, False),
        ([], None, False),
    ],
)
def test_a_reply_without_an_end_is_an_error(events: list[str], finish: str | None, complete: bool) -> None:
    got = read_text(*events)
    assert (got.finish_reason, got.error, got.complete) == (finish, finish is None, complete)


def test_a_call_that_a_broken_reply_left_open_has_the_arguments_that_came() -> None:
    assert read_text(event(fragment(0, "f", "", "a"))).calls == [("f", "")]
    assert read_text(event(fragment(0, "f", '{"x"', "a"))).calls == [("f", '{"x"')]


def test_the_last_usage_that_says_something_wins() -> None:
    counts = [{"prompt_tokens": 1}, {"prompt_tokens": 2}, {}, None]
    assert read_text(*(event({}, usage=usage) for usage in counts), DONE).usage == {"prompt_tokens": 2}


def test_only_choice_0_is_read() -> None:
    other = event({"content": "x"}).replace('"index": 0', '"index": 1')
    assert read_text(other, event({"content": "a"}, "stop")).content == "a"


NOT_RECORDED = {f"X-{number}" for number in range(257, 296)}
"""Cases of shapes that no recording has. The reader does not know them."""
NOT_CLEANED = {
    f"Q-{number}"
    for number in [
        "425",
        "427",
        "428",
        "429",
        "431",
        "432",
        "433",
        "435",
        "436",
        "438",
        "441",
        "443",
        "444",
        "445",
        "446",
        "447",
        "449",
        "450",
        "451",
        "485",
        "486",
        "488",
        "489",
        "491",
        "492",
        "493",
        "494",
        "496",
        "497",
        "500",
        "503",
        "505",
        "506",
        "509",
        "511",
        "512",
        "514",
        "518",
        "541",
        "542",
        "543",
        "544",
        "545",
        "546",
        "547",
        "548",
        "549",
        "550",
        "551",
        "552",
        "553",
        "554",
        "556",
        "559",
        "560",
        "562",
        "563",
    ]
}
"""Cases of names, arguments and texts that the gateway cleans, of calls that it finds in texts without a setting, of
reasoning that came twice, and of lines that are no JSON. No recording has them, and the reader tells what came."""
PLAIN_CASES = [
    case
    for case in load_cases()
    if case["upstream_kind"] != "error"
    and case["id"] not in NOT_RECORDED | NOT_CLEANED
    and not case["profile"]
    and case["upstream_headers"].get("content-encoding") != "x-packed"
]


@each_case("case", PLAIN_CASES, ids=lambda case: case["id"])
def test_the_reader_agrees_with_the_conformance_corpus(case: Json) -> None:
    _compare(case)


@each_case("case", [case for case in load_cases() if case["id"] in NOT_CLEANED], ids=lambda case: case["id"])
def test_the_reader_cleans_nothing(case: Json) -> None:
    with pytest.raises(AssertionError):
        _compare(case)


def _compare(case: Json) -> None:
    got, expect = read_body(_unpacked(case)), case["expect"]
    messages = expect["messages"]
    assert got.reasoning.strip() == "".join(message.get("reasoning_content", "") for message in messages).strip()
    assert got.content.strip() == "".join(message.get("content", "") for message in messages).strip()
    calls = [message["function_call"] for message in messages if "function_call" in message]
    assert [(name, _value(text)) for name, text in got.calls] == [(c["name"], _value(c["arguments"])) for c in calls]
    assert got.error == (expect["error"] is not None)
    if not got.error:
        assert got.finish_reason == expect["finish_reason"]
        assert bool(got.usage) == bool(expect["usage"])


def _unpacked(case: Json) -> bytes:
    body = b"".join(body_chunks(case))
    match case["upstream_headers"].get("content-encoding"):
        case "gzip":
            return zlib.decompressobj(31).decompress(body)
        case "deflate":
            return zlib.decompressobj(15 if body[:1] == b"\x78" else -15).decompress(body)
    return body


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


@needs_recordings
def test_every_recording_holds_something_or_is_an_error() -> None:
    read_files = [(path.name, read(path)) for path in RECORDINGS]
    silent = [
        name
        for name, got in read_files
        if not (got.error or got.reasoning or got.content.strip() or got.calls or got.finish_reason == "length")
    ]
    assert silent == []


@needs_recordings
def test_every_call_in_a_recording_has_a_name_and_json_arguments_unless_it_was_cut() -> None:
    for path in RECORDINGS:
        got = read(path)
        broken = [name for name, arguments in got.calls if not name or isinstance(_value(arguments), str)]
        assert not broken or got.finish_reason == "length", path.name
