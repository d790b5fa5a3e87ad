"""The scripted model of `bench/agents`, and what it reads of the gateway's metrics."""

import json
from pathlib import Path
from typing import Any

import pytest
from coding_model import TURNS, RememberedRequest, choose_reply, make_files, read_counters, write_stream

from tests.each_case import each_case

READ: dict[str, Any] = {"name": "Read", "parameters": {}}
RUN: dict[str, Any] = {"name": "exec_command", "parameters": {}}
SHELL: dict[str, Any] = {"name": "shell", "parameters": {"properties": {"command": {"type": "array"}}}}
FILES = [Path("/a"), Path("/b")]


def ask(tool: dict[str, Any] | None, results: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Read."}, *[{"role": "tool", "content": "x"}] * results]
    return {"messages": messages, **({"tools": [{"function": tool}]} if tool else {})}


@each_case(
    ("tool", "arguments"),
    [(READ, {"file_path": "/b"}), (RUN, {"cmd": "cat /b"}), (SHELL, {"command": ["bash", "-lc", "cat /b"]})],
)
def test_the_next_file_is_read_with_the_tool_that_the_agent_has(
    tool: dict[str, Any], arguments: dict[str, Any]
) -> None:
    delta, reason = choose_reply(ask(tool, 1), FILES)
    function = delta["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"]), reason) == (tool["name"], arguments, "tool_calls")


@each_case(("tool", "results"), [(READ, 2), (None, 0)])
def test_the_session_ends_when_all_files_are_read_and_a_request_without_tools_is_answered(
    tool: dict[str, Any] | None, results: int
) -> None:
    delta, reason = choose_reply(ask(tool, results), FILES)
    assert "tool_calls" not in delta
    assert reason == "stop"


def test_there_is_a_file_for_each_turn_but_the_last(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    assert len(files) == TURNS - 1
    assert all(file.stat().st_size > 100 for file in files)


def test_a_reply_is_a_stream_that_ends() -> None:
    events = write_stream({"content": "x"}, "stop").split(b"\n\n")
    assert json.loads(events[1][6:])["choices"][0]["finish_reason"] == "stop"
    assert events[2] == b"data: [DONE]"


def test_what_was_remembered_is_read_from_the_metrics() -> None:
    metrics = """# TYPE parley_request_bytes_total counter
parley_request_bytes_total{remembered="true"} 3e+02
parley_request_bytes_total{remembered="false"} 100
"""
    found = read_counters(metrics)
    assert found == RememberedRequest(300, 100)
    assert found.share == pytest.approx(0.75)
    assert read_counters("") == RememberedRequest(0, 0)
