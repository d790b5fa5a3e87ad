"""What `bench/agent-mix` sends, what it measures, and what it says of it."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import agent_mix
import paced_replies
import pytest
from agent_mix import MARK, MixFailed, MixRequest, Rung, make_script
from agent_turn import TurnServer

from tests.each_case import each_case

ONCE = ("compaction", "count", "title")


@asynccontextmanager
async def serving(status: str = "200 OK") -> AsyncIterator[TurnServer]:
    """The model server in this process; with another `status`, one that answers with nothing else."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()

    answer = paced_replies.serve if status == "200 OK" else refuse
    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**26)
    port = server.sockets[0].getsockname()[1]
    async with server:
        process = SimpleNamespace(port=port)
        yield cast(TurnServer, SimpleNamespace(name="it", server=process, headers=(), cpu_ms=lambda: 0.0))


def measure(script: list[MixRequest], sessions: int, seconds: float, status: str = "200 OK") -> Rung:
    async def measured() -> Rung:
        async with serving(status) as server:
            return await agent_mix.measure_rung(server, [script], sessions, itertools.count(), seconds, 0.0)

    return asyncio.run(measured())


@each_case(
    ("path", "kinds"),
    [
        ("/v1/messages", {"title", "first", "continued", "subagent", "count", "compaction"}),
        ("/v1/responses", {"first", "continued", "subagent", "compaction"}),
        ("/v1/chat/completions", {"title", "first", "continued", "subagent", "compaction"}),
    ],
)
def test_a_session_sends_what_its_agent_sends(path: str, kinds: set[str]) -> None:
    script = make_script(path, 3, "mock")
    assert {request.kind for request in script} == kinds
    assert all(sum(request.kind == kind for request in script) == 1 for kind in kinds.intersection(ONCE))
    assert all(request.body.count(MARK.encode()) == 1 for request in script)
    assert all(json.loads(request.body)["model"] == "mock" for request in script)
    longest = max(len(request.body) for request in script)
    assert longest > 300_000


def test_counts_of_tokens_have_only_fields_that_they_may_have() -> None:
    (count,) = [request for request in make_script("/v1/messages", 0, "mock") if request.kind == "count"]
    assert json.loads(count.body).keys() == {"model", "system", "messages", "tools", "thinking"}


@each_case("path", agent_mix.PATHS)
def test_replies_of_the_model_server_are_read_whole_and_timed(path: str) -> None:
    measured = measure(make_script(path, 0, "mock")[:2], 2, 0.8)
    assert measured.sessions == 2
    assert measured.turns_per_second > 1
    assert measured.added_p99_ms >= 0


def test_a_failure_is_said_with_what_was_asked() -> None:
    script = [MixRequest("first", "/v1/messages", MARK.encode(), stream=True)]
    with pytest.raises(MixFailed, match=r"it /v1/messages \(first\): .*502 bad gateway"):
        measure(script, 1, 5, "502 Bad Gateway")


def test_a_stream_without_its_end_is_a_failure() -> None:
    request = MixRequest("first", "/v1/chat/completions", b'{"stream":false}', stream=True)
    with pytest.raises(MixFailed):
        measure([request], 1, 5)


def rung(sessions: int, turns: float, p99: float) -> Rung:
    return Rung(sessions, turns, p99, 1.5)


def test_the_best_rung_is_the_fastest_within_the_bound() -> None:
    assert agent_mix.best([rung(10, 20.0, 3.0), rung(20, 40.0, 9.9), rung(40, 55.0, 30.0)]) == rung(20, 40.0, 9.9)
    assert agent_mix.best([rung(10, 20.0, 300.0)]) is None


def test_figures_have_a_number_of_each_round_and_costs_are_those_of_one_number_of_sessions() -> None:
    rounds = [[rung(5, 11.0, 1.0), rung(20, 40.0, 2.0)], [rung(5, 10.0, 3.0), rung(20, 42.0, 12.0)]]
    figures = agent_mix.figures(rounds)
    assert tuple(figures) == agent_mix.FIGURES
    assert figures[agent_mix.KEPT] == (40.0, 10.0)
    assert figures[agent_mix.P99] == (2.0, 12.0)
    assert figures[agent_mix.CPU] == (1.5, 1.5)


def test_every_server_is_measured_with_as_many_sessions_as_costs_are_compared_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def too_late(_: object, __: object, sessions: int, *___: object) -> Rung:
        return rung(sessions, 1.0, agent_mix.BOUND_MS + 1)

    monkeypatch.setattr(agent_mix, "measure_rung", too_late)
    server = cast(TurnServer, SimpleNamespace(name="it"))
    rungs = agent_mix.measure(server, "/v1/responses", (5, 10, agent_mix.AT, 40, 80))
    assert [each.sessions for each in rungs] == [5, 10, agent_mix.AT]


def test_a_rung_goes_on_until_there_were_enough_turns() -> None:
    async def measured() -> Rung:
        async with serving() as server:
            script = [request for request in make_script("/v1/chat/completions", 0, "mock") if request.kind == "title"]
            return await agent_mix.measure_rung(server, [script], 2, itertools.count(), 0.1, 0.0, turns=5)

    rung = asyncio.run(measured())
    assert rung.turns_per_second > 0
