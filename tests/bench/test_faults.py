"""What `bench/faults` reads and judges, and the pages that show its results."""

import json
import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import peer_servers
import pytest

ROOT = Path(__file__).parents[2]


def load_faults() -> ModuleType:
    spec = spec_from_loader("faults", SourceFileLoader("faults", str(ROOT / "bench/faults")))
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults: Any = load_faults()
PAGE = faults.PAGE.read_text("utf-8").partition(faults.BEGIN)[2].partition(faults.END)[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.strip().splitlines()]


def test_the_page_has_a_row_for_each_fault_and_a_verdict_of_each_gateway() -> None:
    names = [row[0] for row in ROWS]
    assert [one.name for one in faults.SCENARIOS] == names[2 : 2 + len(faults.SCENARIOS)]
    assert names[-2:] == ["right", "memory afterwards, MB"]
    assert all(len(row) == len(ROWS[0]) and all(row) for row in ROWS)
    assert [
        title for title in ROWS[0][2:] if title not in {f"{peer.title} {peer.version}" for peer in peer_servers.PEERS}
    ] == []
    for column in range(1, len(ROWS[0])):
        right = sum(not row[column].startswith("**") for row in ROWS[2:-2])
        assert ROWS[-2][column] == f"{right} of {len(ROWS) - 4}"


def test_the_first_page_shows_the_same_gateways_and_figures() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = {
        cells[0]: cells[1:]
        for line in readme.splitlines()
        if line.startswith("|") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == len(ROWS[0])
    }
    titles = [re.sub(r"\.\d+$", "", title) for title in ROWS[0][1:]]
    assert shown[""] == titles
    right = next(cells for name, cells in shown.items() if "14 faults" in name)
    assert right == [count.replace("of 14", "right") for count in ROWS[-2][1:]]
    memory = next(cells for name, cells in shown.items() if name.startswith("Memory"))
    assert memory == [f"{figure} MB" for figure in ROWS[-1][1:]]


CHUNKS = [
    {"choices": [{"delta": {"reasoning_content": "Let me "}}]},
    {"choices": [{"delta": {"reasoning_content": "think.", "content": "Done."}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "find", "arguments": '{"q"'}}]}}]},
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}, "finish_reason": "stop"}
        ]
    },
]
EVENTS = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me think."}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Done."}},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "name": "find", "input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"q"'}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
    {"type": "message_delta", "delta": {"stop_reason": "stop"}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(("api", "values"), [(faults.COMPLETIONS, CHUNKS), (faults.MESSAGES, EVENTS)])
def test_both_apis_are_read_alike(api: Any, values: list[dict[str, Any]]) -> None:
    got = faults.Received(status=200)
    for value in values:
        faults.read_line(got, api, b"event: any\n")
        faults.read_line(got, api, b"data: " + json.dumps(value).encode() + b"\n")
    assert faults.must_keep_reasoning(got) == (True, "separate")
    assert faults.must_have_call(got) == (True, "one call")
    assert faults.must_fail(got) == (False, "complete: finish reason 'stop'")
    faults.read_line(got, api, b'data: {"type": "error", "error": {"message": "out of memory"}}')
    assert faults.must_fail(got) == (True, "an error")
