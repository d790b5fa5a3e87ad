"""Every case of the corpus over real sockets: a scripted model server, the gateway under uvicorn, a client."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
from app.config.settings import Settings

from tests.conformance.case_runner import CASES
from tests.conformance.cases import Json, body_chunks, compare
from tests.cuts import bytewise
from tests.each_case import each_case
from tests.effort import LONG
from tests.scripted_server import Reply
from tests.uvicorn_gateway import ByModel, ask, serving

pytestmark = pytest.mark.anyio

BYTEWISE = random.Random(1).sample([case for case in CASES if case["upstream_kind"] == "stream"], 20)
MODES = ("delta", "snapshot", "whole")
CASES_AND_MODES = [
    (case, mode) for at, case in enumerate(CASES) for mode in (MODES if LONG else {"delta", MODES[at % 3]})
]
"""Without sockets, every case is tried in every mode: test_in_process.py."""


def name_of(value: Json | str) -> str:
    return value if isinstance(value, str) else str(value["id"])


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True, slots=True)
class Bench:
    """A gateway with a model for each case, and the server behind it."""

    client: httpx.AsyncClient
    upstream: ByModel

    async def differences(self, case: Json, mode: str, parts: list[bytes]) -> list[str]:
        abrupt = case["upstream_end"] == "abrupt"
        self.upstream.scripts[case["id"]] = Reply(
            parts, case["upstream_status"], case["upstream_headers"], abrupt=abrupt
        )
        tools = {
            "functions": [{"name": one} if isinstance(one, str) else one for one in case["request"].get("tools", [])]
        }
        status, received = await ask(self.client, mode, model=case["id"], **tools)
        assert status < 500 or status in (502, 503, 504)
        assert status == 200 or received.error is not None
        return compare(case, received.as_case())


@pytest.fixture(scope="module")
async def bench() -> AsyncIterator[Bench]:
    models = {case["id"]: {"upstreams": ["scripted"], "profile": case["profile"]} for case in CASES}
    async with ByModel() as upstream:
        settings = {"upstreams": {"scripted": {"base_url": f"{upstream.url}/v1"}}, "models": models}
        async with serving(Settings.model_validate({**settings, "server": {"log_level": "error"}})) as client:
            yield Bench(client, upstream)


@each_case(("case", "mode"), CASES_AND_MODES, ids=name_of)
async def test_a_caller_reads_what_the_case_expects(bench: Bench, case: Json, mode: str) -> None:
    assert await bench.differences(case, mode, body_chunks(case)) == []


@pytest.mark.parametrize("case", BYTEWISE, ids=lambda case: case["id"])
async def test_reads_of_one_byte_change_nothing(bench: Bench, case: Json) -> None:
    assert await bench.differences(case, "delta", bytewise(b"".join(body_chunks(case)))) == []
