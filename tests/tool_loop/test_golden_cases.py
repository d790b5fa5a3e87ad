"""The shared cases with scripted servers of tools in this process: frames, bodies, and what the model is sent."""

import json
from typing import Any, cast

import pytest
from app.chat.messages import Media, Text
from app.chat.server_tools import OfferedTool, ToolAnswer, ToolBounds, ToolError
from app.chat.tool_asks import make_tool_name

from tests.golden_comparison import Differences
from tests.in_process_gateway import Running
from tests.tool_loop.fake_servers import FakeServers
from tests.tool_loop.golden_cases import Json, ScriptedModel, join_deltas, list_cases, read_case

FORMATS = ("qwen", "openai", "messages", "responses", "autogen", "agentscope", "agentscope2")
NEEDS_PROCESS = {
    "pages_and_filters",
    "result_too_large",
    "server_absent",
    "server_dies",
    "several_blocks",
    "tool_timeout",
}
"""Cases about the servers themselves."""


def make_servers(case: Json) -> FakeServers:
    tools, answers = [], {}
    for server, script in case["servers"].items():
        waits = case["settings"].get("mcp_servers", {}).get(server, {}).get("approval", [])
        for tool in script["tools"]:
            name = make_tool_name(server, tool["name"])
            description, schema = tool.get("description"), tool["inputSchema"]
            annotations = tool.get("annotations")
            tools.append(
                OfferedTool(
                    *(name, server, tool["name"], description, schema, tool["name"] in waits),
                    annotations=annotations,
                )
            )
            answers[name] = make_answer(script["answers"].get(tool["name"], []))
    bounds = ToolBounds(**case["settings"].get("tools", {}))
    return FakeServers(tools, answers, bounds=bounds)


def make_answer(script: list[Json]) -> Any:
    def answer(arguments: Json) -> ToolAnswer:
        row = next(row for row in script if row.get("when", arguments) == arguments)
        content = tuple(
            Text(item["text"])
            if item["type"] == "text"
            else Media(item["type"], (f"data:{item['mimeType']};base64,{item['data']}",))
            for item in row["content"]
        )
        text = "\n".join(part.text for part in content if isinstance(part, Text))
        error = ToolError("execution", 0, text) if row.get("isError") else None
        return ToolAnswer(content, error, "ok" if error is None else "error", len(text.encode()))

    return answer


def run(case: Json, format_: str, *, stream: bool, second: bool = False) -> tuple[Any, ScriptedModel, FakeServers]:
    path, body = (case["second"] if second else case)["requests"][format_]
    model = ScriptedModel()
    model.turns = list((case["second"] if second else case)["turns"])
    servers = make_servers(case)
    row = {"upstreams": ["local"], **(case.get("models") or {}).get("m", {})}
    row["profile"] = {"valid_arguments": False, **row.get("profile", {})}  # the cases' server takes any arguments
    settings = {"upstreams": {"local": {"base_url": "http://model.test/v1"}}, "models": {"m": row}}
    with Running(settings, model) as gateway:
        gateway.context.tools = cast(Any, servers)
        answer = gateway.post(path, {**body, "stream": stream})
    if stream:
        lines = answer.body.decode().split("\n")
        frames = [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
        return frames, model, servers
    return answer.json, model, servers


def compare_streams(differences: Differences, expected: list[Json], got: list[Json], format_: str) -> None:
    """Of a failed reply only the frames before the error and the kind of the last one count."""
    wanted, told = join_deltas(expected, format_), join_deltas(got, format_)
    if is_failure(expected[-1]):
        assert is_failure(told[-1]), told[-1]
        wanted, told = wanted[:-1], told[:-1]
    differences.compare(wanted, told, "stream")


def is_failure(frame: Json) -> bool:
    kinds = ("response.failed", "error")
    return (
        "error" in frame
        and frame["error"] is not None
        or frame.get("type") in kinds
        or frame.get("finished_reason") == "error"
    )


CASES = [
    (name, format_)
    for name in list_cases()
    if name not in NEEDS_PROCESS
    for format_ in FORMATS
    if format_ in read_case(name)["expect"]
]


@pytest.mark.skipif(not CASES, reason="PARLEY_TOOL_CASES names no folder")
@pytest.mark.parametrize(("name", "format_"), CASES)
def test_a_reply_is_that_of_the_case(name: str, format_: str) -> None:
    case, differences = read_case(name), Differences()
    expected = case["expect"]
    for stream in (True, False):
        if not stream and "whole" not in expected[format_]:
            continue
        got, model, servers = run(case, format_, stream=stream)
        if stream:
            compare_streams(differences, expected[format_]["stream"], got, format_)
        else:
            differences.compare(expected[format_]["whole"], got, "whole")
        for number, (wanted, sent) in enumerate(zip(expected["upstream"], model.sent, strict=False)):
            wanted = {key: value for key, value in wanted.items() if key not in ("contains", "last_role")}
            differences.compare(wanted, sent, f"upstream[{number}]")
            shown = "\n".join(str(message["content"]) for message in sent["messages"])
            assert all(text in shown for text in expected["upstream"][number].get("contains", ()))
        calls = sorted(json.dumps([make_tool_name(*call[:2]), call[2]]) for turn in expected["mcp"] for call in turn)
        assert sorted(json.dumps(call) for call in servers.calls) == calls
    assert differences.found == []


APPROVALS = [
    (name, format_)
    for name in list_cases()
    for format_ in read_case(name).get("second", {}).get("requests", {})
    if name not in NEEDS_PROCESS and format_ in FORMATS
]


@pytest.mark.skipif(not APPROVALS, reason="PARLEY_TOOL_CASES names no folder")
@pytest.mark.parametrize(("name", "format_"), APPROVALS)
def test_an_answer_to_an_approval_goes_on_with_the_call(name: str, format_: str) -> None:
    case, differences = read_case(name), Differences()
    second = case["second"]
    for stream in (True, False):
        got, model, servers = run(case, format_, stream=stream, second=True)
        for number, (wanted, sent) in enumerate(zip(second["upstream"], model.sent, strict=True)):
            differences.compare(wanted, sent, f"upstream[{number}]")
        calls = [json.dumps([make_tool_name(*call[:2]), call[2]]) for turn in second["mcp"] for call in turn]
        assert sorted(json.dumps(call) for call in servers.calls) == sorted(calls)
        if not stream and format_ == "qwen":
            differences.compare(second["qwen"]["whole_messages"], got["messages"], "messages")
        elif not stream and format_ == "responses":
            shown = [item for item in got["output"] if item["type"] != "mcp_list_tools"]
            differences.compare(second["responses"]["whole_output"], shown, "output")
    assert differences.found == []
