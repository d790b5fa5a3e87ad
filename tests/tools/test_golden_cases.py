"""The shared cases with real servers of tools in processes of their own: what the model is sent, and what the servers
receive. They are in the folder that `PARLEY_TOOL_CASES` names."""

import json
import sys
from pathlib import Path

import pytest

from tests.golden_comparison import Differences
from tests.in_process_gateway import Running
from tests.tool_loop.golden_cases import FOLDER, Json, ScriptedModel, join_deltas, list_cases, read_case

CASES = [name for name in list_cases() if "qwen" in read_case(name)["requests"]]


def configure(case: Json, folder: Path) -> Json:
    servers: Json = {}
    for name, script in case["servers"].items():
        file = folder / f"{name}.json"
        file.write_text(json.dumps(script))
        given: Json = {"command": sys.executable, "args": [str(FOLDER / "scripted_mcp.py"), str(file)]}
        given |= {"command": script["command"], "args": []} if "command" in script else {}
        given["env"] = {"MCP_LOG": str(folder / f"{name}.log")}
        servers[name] = {"startup_timeout_sec": 30, **given, **case["settings"].get("mcp_servers", {}).get(name, {})}
    row = {"upstreams": ["local"], **(case.get("models") or {}).get("m", {})}
    row["profile"] = {"valid_arguments": False, **row.get("profile", {})}
    return {
        "upstreams": {"local": {"base_url": "http://model.test/v1"}},
        "models": {"m": row},
        "mcp_servers": servers,
        "tools": case["settings"].get("tools", {}),
    }


@pytest.mark.skipif(not CASES, reason="PARLEY_TOOL_CASES names no folder")
@pytest.mark.parametrize("name", CASES)
def test_the_model_and_the_servers_get_what_the_case_says(name: str, tmp_path: Path) -> None:
    case, differences, model = read_case(name), Differences(), ScriptedModel()
    model.turns = list(case["turns"])
    path, body = case["requests"]["qwen"]
    with Running(configure(case, tmp_path), model) as gateway:
        answer = gateway.post(path, {**body, "stream": True})
    lines = [line for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    frames = join_deltas([json.loads(line[6:]) for line in lines], "qwen")
    wanted_frames = join_deltas(case["expect"]["qwen"]["stream"], "qwen")
    if name == "result_too_large":  # its text has a placeholder, whose length the case counts
        wanted_frames[-1]["server_tools"]["calls"][0]["bytes"] = "<bytes>"
    if not any("error" in frame for frame in wanted_frames):
        differences.compare(wanted_frames, frames, "frames")
    for number, (wanted, sent) in enumerate(zip(case["expect"]["upstream"], model.sent, strict=False)):
        wanted = {key: value for key, value in wanted.items() if value and key not in ("contains", "last_role")}
        differences.compare(wanted, sent, f"upstream[{number}]")
    received = [
        json.dumps([server, row["params"]["name"], row["params"].get("arguments")])
        for server in case["servers"]
        if (log := tmp_path / f"{server}.log").exists()
        for row in map(json.loads, log.read_text().splitlines())
        if row.get("method") == "tools/call"
    ]
    assert sorted(received) == sorted(json.dumps(call) for turn in case["expect"]["mcp"] for call in turn)
    assert differences.found == []
