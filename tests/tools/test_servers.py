import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from app.access import ModelGlobs
from app.chat.server_tools import ToolError
from app.chat.tool_asks import ApprovalRule, ServerAsk, ToolFilter
from app.errors import Busy, Forbidden, InvalidInput
from app.tools import McpServers

from tests.each_case import each_case
from tests.tools.local_servers import NO_KEYS, call, configure, open_session, run_servers, serve_http, text_of

pytestmark = pytest.mark.anyio


def messages(log: Path, method: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [row for row in rows if row.get("method") == method]


async def wait_for(condition: Any, seconds: float = 10) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def child_pids(servers: McpServers) -> list[int]:
    files = [Path(f"/proc/{pid}/task/{pid}/children") for pid in servers.process_ids()]
    return [int(pid) for file in files if file.exists() for pid in file.read_text().split()]


def kill_and_block(pid: int) -> None:
    """Kill a process, so that the event loop finds the end of all its pipes at once."""
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)


# -- lists ----------------------------------------------------------------------------------


async def test_nothing_is_started_before_a_reply_needs_a_server() -> None:
    async with run_servers(configure()) as servers:
        assert servers.process_ids() == []
        assert [row.state for row in servers.list_status()] == ["idle"]


async def test_all_pages_are_listed_and_tools_without_name_or_schema_are_left_out() -> None:
    async with run_servers(configure()) as servers:
        (listed,) = (await open_session(servers)).servers
    assert [tool.tool for tool in listed.tools][:3] == ["echo", "environment", "fail"] and len(listed.tools) == 25
    echo, other = listed.tools[:2]
    assert (echo.name, echo.description, echo.read_only) == ("s-echo", "repeats", True)
    assert echo.annotations == {"readOnlyHint": True} and (other.description, other.annotations) == (None, None)
    assert echo.to_schema() == {"name": "s-echo", "description": "repeats", "parameters": {"type": "object"}}


@each_case(("mode", "count"), [("endless_pages", 100), ("same_cursor", 50), ("no_tools", 0)])
async def test_a_list_without_an_end_is_cut(mode: str, count: int) -> None:
    async with run_servers(configure(env={"MCP_MODE": mode})) as servers:
        session = await open_session(servers)
    assert sum(len(tools.tools) for tools in session.servers) in (count, count // 2)


async def test_the_configuration_and_the_request_choose_tools() -> None:
    server = configure(enabled_tools=("echo", "fail", "die"), disabled_tools=("die",))
    async with run_servers(server) as servers:
        everything = await open_session(servers)
        one = await open_session(servers, ServerAsk("s", ToolFilter(names=("fail", "die"))))
        reading = await open_session(servers, ServerAsk("s", ToolFilter(read_only=True)))
    assert [tool.tool for tool in everything.servers[0].tools] == ["echo", "fail"]
    assert [tool.tool for tool in one.servers[0].tools] == ["fail"]
    assert one.warnings == ["the server of tools 's' does not offer 'die'"]
    assert [tool.tool for tool in reading.servers[0].tools] == ["echo"]


async def test_a_list_is_read_again_after_it_has_changed() -> None:
    async with run_servers(configure()) as servers:
        first = await open_session(servers)
        await call(first, "change")
        await wait_for(lambda: servers._servers["s"]._listed_at is None)
        second = await open_session(servers)
    assert len(second.servers[0].tools) == len(first.servers[0].tools) + 1


@each_case(
    ("changes", "reason"),
    [
        ({"command": "no-such-command"}, "its command, or its cwd, does not exist"),
        ({"cwd": "/no/such/folder"}, "its command, or its cwd, does not exist"),
        ({"args": ("-c", "raise SystemExit(3)")}, "it ended before it was ready"),
        ({"env": {"MCP_MODE": "old_version"}}, "it speaks another version of the protocol (1999-01-01)"),
        ({"env": {"MCP_MODE": "deaf"}, "startup_seconds": 0.5}, "it was not ready within 0.5 s (startup_timeout_sec)"),
    ],
)
async def test_a_server_that_cannot_be_used_is_absent_with_a_warning(changes: dict[str, Any], reason: str) -> None:
    async with run_servers(configure(**changes), configure("other")) as servers:
        session = await open_session(servers, ServerAsk("s"), ServerAsk("other"))
        assert servers.list_status()[0].error == reason
    assert [(row.server, row.error) for row in session.servers] == [("s", reason), ("other", None)]
    assert session.warnings == [f"the tools of the server 's' are absent: {reason}"]


async def test_what_a_server_wrote_before_it_died_is_for_the_operator_alone() -> None:
    script = "import sys; sys.exit('first\\nno module s3cret-value\\n')"
    dying = configure(args=("-c", script), secrets=("s3cret-value",))
    async with run_servers(dying) as servers:
        session = await open_session(servers, ServerAsk("s"))
        (status,) = servers.list_status()
    reason = "it ended before it was ready"
    assert status.error == f"{reason}; its last line of stderr: no module [redacted]"
    assert session.warnings == [f"the tools of the server 's' are absent: {reason}"]
    (row,) = session.servers
    assert (row.error, row.full_error) == (reason, status.error)


async def test_a_required_server_that_cannot_be_used_refuses_the_request() -> None:
    async with run_servers(configure(command="no-such-command", required=True)) as servers:
        with pytest.raises(Busy, match="'s' cannot be used now"):
            await open_session(servers)


# -- who may use what -----------------------------------------------------------------------


async def test_keys_and_models_that_may_not_use_a_server_are_refused() -> None:
    async with run_servers(
        configure("a", keys=ModelGlobs(("team-*",))), configure("b", models=ModelGlobs(("qwen*",)))
    ) as servers:
        for server, key, model in (("a", "alice", "qwen3"), ("b", "team-1", "llama"), ("a", "", "qwen3")):
            with pytest.raises(Forbidden) as refused:
                await servers.open([ServerAsk(server, path="p")], key, model, approvable=True)
            assert refused.value.param == "p"
        assert servers.process_ids() == []
        assert servers.list_for_model("qwen3", "team-1") == {"a": (), "b": ()}
        assert servers.list_for_model("llama", "alice") == {}


@each_case(
    ("asks", "message"),
    [
        ([ServerAsk("x", path="functions[0]")], "functions[0]: there is no server of tools 'x'; available: s"),
        ([ServerAsk("s"), ServerAsk("s", path="functions[1]")], "functions[1]: the server of tools 's' is named twice"),
    ],
)
async def test_unknown_and_doubled_servers_are_refused(asks: list[ServerAsk], message: str) -> None:
    async with run_servers(configure()) as servers:
        with pytest.raises(InvalidInput) as refused:
            await open_session(servers, *asks)
    assert refused.value.message.startswith(message)


@each_case(
    ("ask", "path"),
    [
        (ServerAsk("s", url="http://other/mcp", url_path="u"), "u"),
        (ServerAsk("x", url="http://other/mcp", url_path="u"), "u"),
        (ServerAsk("s", ToolFilter(("echo", "ecko")), name_paths=("t[0]", "t[1]")), "t[1]"),
        (ServerAsk("s", approval=ApprovalRule(never=ToolFilter()), approval_path="a"), "a"),
    ],
)
async def test_what_a_request_may_not_say_of_a_server_is_refused_at_its_place(ask: ServerAsk, path: str) -> None:
    async with run_servers(configure(approval=("echo",))) as servers:
        with pytest.raises(InvalidInput) as refused:
            await open_session(servers, ask)
    assert [violation.path for violation in refused.value.violations] == [path]


async def test_a_server_that_the_key_may_not_use_is_not_named_in_errors() -> None:
    async with run_servers(configure("hidden", keys=NO_KEYS)) as servers:
        with pytest.raises(InvalidInput, match="the gateway's operator has configured none"):
            await open_session(servers, ServerAsk("hiden"))


async def test_a_model_offers_its_own_tools_and_the_request_wins() -> None:
    asks = {"m": (ServerAsk("s", ToolFilter(names=("echo",))), ServerAsk("secret"))}
    async with run_servers() as servers:
        servers.configure([configure(), configure("secret", keys=NO_KEYS)], asks)
        own = await servers.open([], "", "m", approvable=True)
        named = await open_session(servers, ServerAsk("s", ToolFilter(names=("fail",))))
        other = await servers.open([], "", "n", approvable=True)
    assert [[tool.tool for tool in row.tools] for row in own.servers] == [["echo"]]
    assert [[tool.tool for tool in row.tools] for row in named.servers] == [["fail"]]
    assert other.servers == []


ALWAYS, NEVER = ApprovalRule(always=ToolFilter()), ApprovalRule(never=ToolFilter())


@each_case(
    ("operator", "asked", "needed"),
    [
        (False, None, False),
        (False, ALWAYS, True),
        (False, NEVER, False),
        (False, ApprovalRule(never=ToolFilter(names=("fail",)), others=True), True),
        (True, None, True),
        (True, NEVER, True),
        (("echo",), NEVER, True),
        (("fail",), None, False),
    ],
)
async def test_the_operators_approval_is_the_least(operator: Any, asked: ApprovalRule | None, needed: bool) -> None:
    async with run_servers(configure(approval=operator)) as servers:
        ask = ServerAsk("s", ToolFilter(names=("echo",)), asked)
        (tool,) = (await open_session(servers, ask)).servers[0].tools
        assert tool.approval == needed
        mute = await open_session(servers, ask, approvable=False)
    assert (len(mute.servers[0].tools), len(mute.warnings)) == ((0, 1) if needed else (1, 0))


# -- calls ----------------------------------------------------------------------------------


async def test_a_call_brings_the_result_of_the_tool() -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        answer = await call(session, "echo", {"ü": [1, None]})
        assert (json.loads(text_of(answer)), answer.error, answer.outcome) == ({"ü": [1, None]}, None, "ok")
        failed = await call(session, "fail")
        assert (text_of(failed), failed.error) == ("no such city", ToolError("execution", 0, "no such city"))
        refused = await call(session, "refuse")
        assert (text_of(refused), refused.outcome) == ("Error: Unknown tool: x", "error")
        assert refused.error == ToolError("protocol", -32602, "Unknown tool: x")


@each_case(
    ("tool", "expected"),
    [("garbage", "after garbage"), ("twice", "first"), ("unknown_id", "known"), ("ask", "asked")],
)
async def test_what_else_a_server_writes_does_not_matter(tool: str, expected: str) -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        assert text_of(await call(session, tool)) == expected
        assert text_of(await call(session, "echo")) == "{}"


@pytest.mark.parametrize("mode", [None, "", "json"], ids=["stdio", "events", "json"])
async def test_a_result_with_a_half_surrogate_is_mended_and_one_that_is_too_deep_is_an_error(mode: str | None) -> None:
    with contextlib.nullcontext() if mode is None else serve_http(mode) as url:
        async with run_servers(configure(url=url)) as servers:
            session = await open_session(servers)
            assert text_of(await call(session, "half_pair")) == "a?b \U0001f600"
            too_deep = await call(session, "deep", {"levels": 5000})
            assert text_of(too_deep) == "Error: the server's answer is nested deeper than 200 levels"
            assert text_of(await call(session, "deep", {"levels": 100})).startswith('{"a": [[')


async def test_arguments_that_cannot_be_written_fail_their_call_and_no_later_one() -> None:
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"a": deep}
    async with run_servers(configure(tool_seconds=5.0)) as servers:
        session = await open_session(servers)
        assert (await call(session, "echo", deep)).outcome == "error"
        assert text_of(await call(session, "echo", {"x": 1})) == '{"x": 1}'


async def test_a_request_of_the_server_is_refused_as_unknown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with run_servers(configure(env={"MCP_LOG": str(log)})) as servers:
        session = await open_session(servers)
        await call(session, "ask")
        await wait_for(lambda: '"q1"' in log.read_text())
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["error"]["code"] for row in rows if row.get("id") == "q1"] == [-32601]
    (hello,) = [row for row in rows if row.get("method") == "initialize"]
    assert hello["params"]["capabilities"] == {} and hello["params"]["protocolVersion"] == "2025-11-25"


@each_case("tool", ["long_line", "no_newline"])
async def test_a_message_without_an_end_ends_the_server_and_not_the_gateway(tool: str) -> None:
    async with run_servers(configure(), configure("other")) as servers:
        session = await open_session(servers, ServerAsk("s"), ServerAsk("other"))
        answer = await call(session, tool, {"size": 5_000_000})
        assert text_of(answer) == "Error: the server of the tool ended before it answered"
        assert text_of(await call(session, "echo")) == "{}"
        assert [row.starts for row in servers.list_status()] == [2, 1]


@each_case(
    ("arguments", "expected"),
    [
        ({"rest": '"error":{"code":123456789012345678901234567890,"message":"x"}'}, "Error: x"),
        ({"rest": '"error":{"code":-99999999999999999999,"message":""}'}, "Error"),
        ({"rest": '"error":{"code":1e999,"message":"x"}'}, "Error: the server's answer is not a valid message"),
        ({"rest": '"error":{"code":1,"message":"x","data":NaN}'}, "Error: x"),
        ({"rest": '"result":{"content":[],"structuredContent":{"a":NaN,"b":1e999}}'}, '{"a": NaN, "b": Infinity}'),
        ({"rest": '"result":{"content":[{"type":"text","text":"\\ud800"}]}'}, "?"),
        ({"rest": '"result":[]'}, "Error: the server's answer is not a valid message"),
        ({"rest": '"result":{"isError":1,"content":[{"type":"text","text":7}]}'}, "[content of the unknown type"),
    ],
)
async def test_no_answer_is_without_a_result_and_the_server_goes_on(arguments: dict[str, Any], expected: str) -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        answer = await call(session, "raw", arguments)
        assert text_of(answer).startswith(expected)
        assert text_of(await call(session, "echo")) == "{}"
    assert servers.list_status()[0].starts == 1


async def test_what_one_server_does_ends_no_call_of_another() -> None:
    async with run_servers(configure("bad", max_message_bytes=30_000_000), configure("good")) as servers:
        session = await open_session(servers, ServerAsk("bad"), ServerAsk("good"))
        bad, good = ({tool.tool: tool for tool in listed.tools} for listed in session.servers)
        waiting = asyncio.create_task(session.call(good["hang"], {}, None))
        await wait_for(lambda: servers.list_status()[1].calls)
        before = {*child_pids(servers)}
        flood = await session.call(bad["ask_much"], {"times": 3000}, None)
        assert text_of(flood) == "asked much"
        processes = {name: server.process.pid for name, server in servers._servers.items()}
        os.kill(processes["bad"] or 0, signal.SIGKILL)  # as the kernel does where its memory is full
        await wait_for(lambda: servers.list_status()[0].state == "down")
        assert text_of(await session.call(good["echo"], {}, None)) == "{}"
        assert not waiting.done() and len(before & {*child_pids(servers)}) == 1
        waiting.cancel()


async def test_a_server_that_never_lists_its_tools_is_down_and_delays_no_further_request() -> None:
    async with run_servers(configure(env={"MCP_MODE": "no_list"}, startup_seconds=1.5)) as servers:
        reason = "it did not list its tools within 1.5 s (startup_timeout_sec)"
        first = await open_session(servers)
        assert first.warnings == [f"the tools of the server 's' are absent: {reason}"]
        assert [(row.state, row.error) for row in servers.list_status()] == [("down", reason)]
        began = time.monotonic()
        second = await open_session(servers)
        assert second.warnings[0].startswith(f"the tools of the server 's' are absent: {reason}; it is asked again in ")
        assert time.monotonic() - began < 1
        await wait_for(lambda: not child_pids(servers))


async def test_a_server_that_refuses_to_list_its_tools_is_down_with_its_reason() -> None:
    async with run_servers(configure(env={"MCP_MODE": "refuses_list"})) as servers:
        reason = "it did not list its tools: the index is gone"
        assert (await open_session(servers)).warnings == [f"the tools of the server 's' are absent: {reason}"]
        assert [(row.state, row.error) for row in servers.list_status()] == [("down", reason)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux shows processes as files")
async def test_a_server_cannot_look_into_the_gateway_and_its_tool_process() -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        for pid in (os.getpid(), *servers.process_ids()):
            assert text_of(await call(session, "read", {"pid": pid})) == ""
        (own,) = child_pids(servers)
        assert text_of(await call(session, "read", {"pid": own})) != ""


async def test_a_result_is_cut_before_it_reaches_the_gateway() -> None:
    async with run_servers(configure(max_message_bytes=30_000_000)) as servers:
        session = await open_session(servers)
        began = time.process_time()
        answer = await call(session, "big", {"size": 4_000_000})
        used = time.process_time() - began
    assert text_of(answer) == "é" * 500 + "\n[… 7999000 of 8000000 bytes left out]"
    assert used < 0.2


async def test_a_call_that_takes_too_long_is_cancelled_and_others_stand(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with run_servers(configure(env={"MCP_LOG": str(log)}, tool_seconds=0.3)) as servers:
        session = await open_session(servers)
        answer = await call(session, "hang")
        assert text_of(answer) == "Error: the tool did not answer within 0.3 s"
        await wait_for(lambda: messages(log, "notifications/cancelled"))
        assert text_of(await call(session, "echo")) == "{}"
    assert servers.list_status()[0].starts == 1


@each_case("http", [False, True])
async def test_cancelling_a_call_tells_the_server(http: bool, tmp_path: Path) -> None:
    log = tmp_path / f"log-{http}"
    with serve_http(log=log) as url:
        server = configure(url=url) if http else configure(env={"MCP_LOG": str(log)})
        async with run_servers(server) as servers:
            session = await open_session(servers)
            with anyio.move_on_after(0.5):
                await call(session, "hang")
            await wait_for(lambda: messages(log, "notifications/cancelled"), 1)
            if http:
                await wait_for(lambda: '"closed"' in log.read_text(), 1)


async def test_calls_beyond_the_limit_wait_within_their_time() -> None:
    async with run_servers(configure(max_concurrent_calls=1, tool_seconds=0.5)) as servers:
        session = await open_session(servers)
        await servers._servers["s"].slots.acquire()  # as another call does
        answer = await call(session, "echo")
    assert text_of(answer).startswith("Error: 1 calls of this server run already")
    assert answer.outcome == "not_run"


async def test_the_trace_is_passed_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with run_servers(configure(env={"MCP_LOG": str(log)})) as servers:
        session = await open_session(servers)
        await call(session, "echo")
    (sent,) = messages(log, "tools/call")
    assert sent["params"]["_meta"]["traceparent"] == "00-1-2-01" and "progressToken" in sent["params"]["_meta"]


# -- processes ------------------------------------------------------------------------------


async def test_a_server_that_dies_is_started_by_the_next_call_and_no_call_is_sent_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with run_servers(configure(env={"MCP_LOG": str(log)})) as servers:
        session = await open_session(servers)
        for _ in range(5):
            assert text_of(await call(session, "die")) == "Error: the server of the tool ended before it answered"
            assert text_of(await call(session, "echo")) == "{}"
    assert [row["params"]["name"] for row in messages(log, "tools/call")] == ["die", "echo"] * 5


async def test_a_server_that_dies_again_and_again_is_started_after_a_pause() -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        answers = [text_of(await call(session, "die")) for _ in range(3)]
        starts = servers.list_status()[0].starts
    assert "again in 0.5 s" in answers[-1] and starts == 2


async def test_killing_the_server_fails_the_call_and_the_next_one_works() -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        await call(session, "echo")
        answers: list[str] = []

        async def hang() -> None:
            answers.append(text_of(await call(session, "hang")))

        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang)
                await wait_for(lambda: servers.list_status()[0].calls)
                await anyio.sleep(0.1)
                for pid in child_pids(servers):
                    os.kill(pid, signal.SIGKILL)
            assert text_of(await call(session, "echo")) == "{}"
    assert answers == ["Error: the server of the tool ended before it answered"] * 3


async def test_a_server_that_does_not_want_to_end_is_killed_with_its_children() -> None:
    async with run_servers(configure(env={"MCP_MODE": "stubborn"})) as servers:
        session = await open_session(servers)
        grandchild = int(text_of(await call(session, "child")))
        pids = [*servers.process_ids(), *child_pids(servers), grandchild]
        assert all(map(is_running, pids))
    await wait_for(lambda: not any(map(is_running, pids)))


async def test_killing_the_tool_process_fails_the_call_and_leaves_no_child() -> None:
    async with run_servers(configure(env={"MCP_MODE": "stubborn"})) as servers:
        session = await open_session(servers)
        before = [*servers.process_ids(), *child_pids(servers)]
        answers: list[str] = []

        async def hang() -> None:
            answers.append(text_of(await call(session, "hang")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            await wait_for(lambda: servers.list_status()[0].calls)
            os.kill(before[0], signal.SIGKILL)
        assert answers == ["Error: the server of the tool is not available: the tool process has ended"]
        await wait_for(lambda: not any(map(is_running, before)))
        assert text_of(await call(session, "echo")) == "{}"


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_a_call_at_the_moment_at_which_the_tool_process_ends_fails_or_is_run() -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        kill_and_block(*servers.process_ids())

        async def call_after(turns: int) -> str:
            for _ in range(turns):
                await asyncio.sleep(0)
            return text_of(await call(session, "echo"))

        answers = await asyncio.gather(*map(call_after, range(8)))
    assert {*answers} <= {"{}", "Error: the server of the tool is not available: the tool process has ended"}


async def test_a_child_has_no_variable_of_the_gateway_but_those_that_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GATEWAY_SECRET", "x")
    async with run_servers(configure(env={"LEVEL": "1"})) as servers:
        session = await open_session(servers)
        found = json.loads(text_of(await call(session, "environment")))
    assert found.keys() - {"LC_CTYPE"} == {"LEVEL"}


async def test_a_secret_is_removed_from_the_error_of_a_tool() -> None:
    async with run_servers(configure(env={"KEY": "s3cret-value"}, secrets=("s3cret-value",))) as servers:
        session = await open_session(servers)
        answer = await call(session, "secret")
    assert text_of(answer) == "the key [redacted] is wrong"
    assert answer.error is not None and "s3cret" not in answer.error.message


async def test_a_reply_can_have_a_connection_of_its_own() -> None:
    async with run_servers(configure(shared=False)) as servers:
        first, second = await open_session(servers), await open_session(servers)
        one, again, other = [json.loads(text_of(await call(session, "echo"))) for session in (first, first, second)]
        assert (one, again, other) == ({}, {}, {})
        await wait_for(lambda: servers.list_status()[0].starts == 3)
        first.close()
        second.close()
        with anyio.fail_after(10):
            while len(child_pids(servers)) != 1:
                await anyio.sleep(0.05)


async def test_a_reload_ends_a_changed_server_once_no_reply_uses_it() -> None:
    async with run_servers(configure()) as servers:
        session = await open_session(servers)
        (old,) = child_pids(servers)
        servers.configure([configure(tool_seconds=5)], {})
        assert text_of(await call(session, "echo")) == "{}" and is_running(old)
        assert [row.state for row in servers.list_status()] == ["idle"]
        session.close()
        await wait_for(lambda: not is_running(old))
        assert text_of(await call(await open_session(servers), "echo")) == "{}"
        servers.configure([], {})
        assert servers.names() == []


# -- HTTP -----------------------------------------------------------------------------------


@each_case("mode", ["", "json", "session", "moved"])
async def test_a_server_over_http_answers(mode: str, tmp_path: Path) -> None:
    log = tmp_path / f"log-{mode}"
    with serve_http(mode, log) as url:
        async with run_servers(configure(url=url, headers={"x-key": "k"})) as servers:
            session = await open_session(servers)
            assert text_of(await call(session, "echo", {"a": "ü"})) == '{"a": "\\u00fc"}'
            assert text_of(await call(session, "fail")) == "no such city"
    sent = messages(log, "tools/call")[-1]
    assert sent["headers"]["x-key"] == "k"
    assert sent["headers"]["mcp-protocol-version"] == "2025-11-25"
    assert len(messages(log, "DELETE")) == (mode == "session")


@pytest.mark.parametrize("mode", ["session", "session_text", "session_code"])
async def test_a_lost_session_is_opened_again_and_the_call_is_run_once(mode: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serve_http(mode, log) as url:
        async with run_servers(configure(url=url)) as servers:
            session = await open_session(servers)
            await call(session, "lose_session")
            assert text_of(await call(session, "echo")) == "{}"
    assert len(messages(log, "initialize")) == 2


@each_case("status", [401, 403, 429, 500, 503])
async def test_a_status_of_the_server_is_an_error_result(status: int) -> None:
    with serve_http() as url:
        async with run_servers(configure(url=url)) as servers:
            session = await open_session(servers)
            answer = await call(session, "status", {"status": status})
            assert text_of(answer) == f"Error: the server answered with the HTTP status {status}"
            assert answer.error == ToolError("http", status, f"the server answered with the HTTP status {status}")
            assert text_of(await call(session, "echo")) == "{}"


@each_case(
    ("mode", "reason"),
    [
        ("unauthorized", "HTTP status 401: look at bearer_token_env_var"),
        ("elsewhere", "HTTP status 307: it redirects elsewhere"),
    ],
)
async def test_a_server_over_http_that_refuses_is_absent(mode: str, reason: str) -> None:
    with serve_http(mode) as url:
        async with run_servers(configure(url=url)) as servers:
            (warning,) = (await open_session(servers)).warnings
    assert reason in warning and "127.0.0" not in warning


async def test_a_server_over_http_that_is_restarted_is_found_again() -> None:
    with serve_http() as url:
        async with run_servers(configure(url=url)) as servers:
            session = await open_session(servers)
            await call(session, "echo")
            with serve_http() as other:
                answer = await call(session, "die")
                assert answer.outcome == "error" and "127.0.0.1" not in text_of(answer)
                answer = await call(session, "echo")
                assert text_of(answer).startswith("Error: ") and other not in text_of(answer)


async def test_an_answer_over_http_that_is_too_long_is_an_error_result() -> None:
    for mode in ("", "json"):
        with serve_http(mode) as url:
            async with run_servers(configure(url=url)) as servers:
                session = await open_session(servers)
                answer = await call(session, "big", {"size": 400_000})
                assert text_of(answer) == "Error: the server's answer is longer than its limit", mode
                assert text_of(await call(session, "echo")) == "{}"
