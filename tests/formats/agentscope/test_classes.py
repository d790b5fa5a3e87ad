"""What AgentScope's own classes accept is accepted, and what they refuse is refused, but for what `DIFFERENT` says."""

from typing import Any

import pytest
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, load, refused

IMAGE_URL = {"type": "url", "url": "x"}
PNG = {"type": "base64", "data": "AAAA", "media_type": "image/png"}


def v1(content: Any = "x", **fields: Any) -> Json:
    return {"name": "u", "role": "user", "content": content, **fields}


def v2(*blocks: Json, role: str = "user", **fields: Any) -> Json:
    return {"name": "u", "role": role, "content": list(blocks), **fields}


def data(**source: Any) -> Json:
    return v2({"type": "data", "source": source})


PROBES_1: dict[str, Json] = {
    "from_dict invocation_id": v1(invocation_id="i"),
    "from_dict minimal": v1(),
    "from_dict without name": {"role": "user", "content": "x"},
    "from_dict extra key ignored": v1(other=1),
    "role tool": v1(role="tool"),
    "role function": v1(role="function"),
    "content None": v1(None),
    "metadata None becomes": v1(metadata=None),
    "unknown block type not validated": v1([{"type": "file", "source": IMAGE_URL}]),
    "malformed block not validated": v1([{"type": "tool_use"}]),
    "id falsy in from_dict kept": v1(id=""),
}
PROBES_2: dict[str, Json] = {
    "minimal": v2(),
    "content plain string": {**v2(), "content": "x"},
    "role tool": v2(role="tool"),
    "user with thinking block": v2({"type": "thinking", "thinking": "x"}),
    "system with data block": v2({"type": "data", "source": PNG}, role="system"),
    "1.x tool_use block": v2({"type": "tool_use", "id": "1", "name": "f", "input": {}}, role="assistant"),
    "1.x image block": v2({"type": "image", "source": PNG}),
    "1.x tool_result block with str output": v2(
        {"type": "tool_result", "id": "1", "name": "f", "output": "x"}, role="assistant"
    ),
    "tool_result in system role (1.x convention)": v2(
        {"type": "tool_result", "id": "1", "name": "f", "output": "x"}, role="system"
    ),
    "text block without id": v2({"type": "text", "text": "x"}),
    "URLSource without media_type": data(type="url", url="https://example.com/a.png"),
    "URLSource data URI": data(type="url", url="data:image/png;base64,AAAA", media_type="image/png"),
    "URLSource bare path": data(type="url", url="/tmp/a.png", media_type="image/png"),
    "URLSource normalises host only url": data(type="url", url="https://example.com", media_type="image/png"),
    "thinking extra field kept": v2({"type": "thinking", "thinking": "x", "signature": "s"}, role="assistant"),
    "text extra field": v2({"type": "text", "text": "x", "other": 1}),
    "1.x Msg dict with timestamp": v2({"type": "text", "text": "x"}, timestamp="2026-01-01 00:00:00.001"),
    "metadata null": v2(metadata=None),
    "tool_call input dict": v2({"type": "tool_call", "id": "1", "name": "f", "input": {}}, role="assistant"),
    "tool_result state unknown": v2(
        {"type": "tool_result", "id": "1", "name": "f", "output": "x", "state": "odd"}, role="assistant"
    ),
}
OF_PYTHON = {
    "content tuple",
    "get_text_content multi",
    "get_text_content none",
    "invocation_id serialised by to_dict",
    "timestamp default format",
    "to_dict keys",
}
"""Probes of objects that no JSON says anything about."""
DIFFERENT = {
    ("v1_probes", "content None"): "1.0.0 wrote null",
    ("v1_probes", "unknown block type not validated"): "a path of a file is never read",
    ("v1_probes_1_0_0", "unknown block type not validated"): "a path of a file is never read",
    ("v1_probes", "malformed block not validated"): "a call that names no tool would be lost",
    ("v1_probes_1_0_0", "malformed block not validated"): "a call that names no tool would be lost",
}
CASES: list[tuple[Any, str, Json]] = [
    (AGENTSCOPE2 if file.startswith("v2") else AGENTSCOPE, file, probe)
    for file, golden in load("agentscope/classes").items()
    for probe in golden["probes"]
    if probe["probe"] not in OF_PYTHON
]


@each_case(("form", "file", "probe"), [pytest.param(*case, id=f"{case[1]}-{case[2]['probe']}") for case in CASES])
def test_what_the_classes_accept_is_accepted(form: Any, file: str, probe: Json) -> None:
    message = (PROBES_2 if form is AGENTSCOPE2 else PROBES_1)[probe["probe"]]
    accepted = not refused(form, message)
    assert accepted is (probe["ok"] is not ((file, probe["probe"]) in DIFFERENT))


def test_every_probe_of_json_is_tried_and_every_difference_is_one() -> None:
    probes = {(file, probe["probe"]) for _, file, probe in CASES}
    assert DIFFERENT.keys() <= probes
    assert {probe for file, probe in probes if file != "v2_probes"} == PROBES_1.keys()
    assert {probe for file, probe in probes if file == "v2_probes"} == PROBES_2.keys()
