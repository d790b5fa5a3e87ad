"""The shared list of requests that are refused before a model is asked, and of some that are taken."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process_gateway import ModelServer, Running
from tests.tool_loop.golden_cases import FOLDER

Json = dict[str, Any]
LIST: Json = json.loads((FOLDER / "refused.json").read_text()) if (FOLDER / "refused.json").is_file() else {}
SCHEMA = {"type": "object", "properties": {}}
TOOLS = {
    "wx": [
        {"name": "get_weather", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
        {"name": "set_alarm", "inputSchema": SCHEMA},
    ],
    "clock": [{"name": "now", "inputSchema": SCHEMA}],
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, ModelServer]]:
    folder: Path = tmp_path_factory.mktemp("servers")
    servers: Json = {}
    for name, settings in LIST["settings"]["mcp_servers"].items():
        servers[name] = dict(settings)
        if name in TOOLS:
            script = folder / f"{name}.json"
            script.write_text(json.dumps({"tools": TOOLS[name], "answers": {}}))
            servers[name] |= {"command": sys.executable, "args": [str(FOLDER / "scripted_mcp.py"), str(script)]}
    keys = {
        name: {"sha256": hashlib.sha256(f"secret-{name}".encode()).hexdigest()} for name in LIST["settings"]["keys"]
    }
    model = ModelServer()
    settings = {
        "upstreams": {"local": {"base_url": "http://model.test/v1"}},
        "models": {"m": {"upstreams": ["local"]}},
        "mcp_servers": servers,
        "keys": keys,
    }
    with Running(settings, model) as running:
        yield running, model


@pytest.mark.skipif(not LIST, reason="PARLEY_TOOL_CASES names no folder")
def test_each_request_is_answered_as_the_list_says(gateway: tuple[Running, ModelServer]) -> None:
    running, model = gateway
    wrong = []
    for case in LIST["cases"]:
        answer = running.post(case["path"], case["body"], {"authorization": f"Bearer secret-{case['key']}"})
        error = answer.json["error"]
        if (answer.status, error.get("param")) != (case["status"], case["param"]):
            wrong.append(f"{case['name']}: {answer.status} {error}")
    assert wrong == []
    assert model.requests == []
    for case in LIST["accepted"]:
        model.requests.clear()
        answer = running.post(
            case["path"], {**case["body"], "stream": False}, {"authorization": f"Bearer secret-{case['key']}"}
        )
        offered = [tool["function"]["name"] for tool in json.loads(model.requests[-1].content).get("tools", [])]
        if answer.status != 200 or offered != case.get("offers", offered):
            wrong.append(f"{case['name']}: {answer.status} {offered} {answer.body[:300]!r}")
        elif case.get("warning") and b"warnings" not in answer.body:
            wrong.append(f"{case['name']}: no warning")
    assert wrong == []
