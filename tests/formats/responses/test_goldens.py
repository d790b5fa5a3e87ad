"""The Responses API against its goldens: requests, replies, and what real clients sent turn by turn."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from app.chat.events import Failed
from app.errors import UpstreamFailed
from app.formats.base import ReplyInfo, ReplyMode
from app.formats.responses import RESPONSES

from tests.cuts import bytewise, distinct_cuts
from tests.formats.responses.golden_cases import (
    LOOPS,
    REPLIES,
    REQUESTS,
    Comparison,
    Json,
    join_deltas,
    stored_by_turn,
    to_bytes,
    with_numbered_ids,
)
from tests.golden_gateway import GoldenGateway
from tests.in_process_gateway import Answer
from tests.reply_pipeline import Recorded, replay


@pytest.fixture(scope="module")
def gateway() -> Iterator[GoldenGateway]:
    with GoldenGateway(to_bytes) as gateway:
        yield gateway


PATH = "/v1/responses"


def places(warnings: list[str]) -> list[str]:
    return [re.split(r"[: ]", text)[0] for text in warnings]


def check_request(gateway: GoldenGateway, request: Json, expect: Json) -> None:
    gateway.answer_with(None)
    asked = len(gateway.sent)
    answer = gateway.post(PATH, request)
    if "error" in expect:
        assert len(gateway.sent) == asked
        error, wanted = answer.json["error"], expect["error"]
        params = [one["param"] for one in error.get("violations", ())] or [error["param"]]
        assert (answer.status, error["type"], error["code"]) == (wanted["status"], wanted["type"], wanted["code"])
        assert sorted(params) == sorted(wanted["params"]), error
        assert error["param"] in params
        return
    assert answer.status == 200, answer.body
    assert gateway.sent[-1] == expect["upstream"]
    warnings = json.loads(answer.headers.get("x-parley-warnings", "[]"))
    assert places(warnings) == places(expect["warnings"]), warnings


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_sent_upstream_or_refused_as_its_golden_says(gateway: GoldenGateway, name: str) -> None:
    case = with_numbered_ids(REQUESTS[name])
    gateway.store(case.get("stored", {}))
    check_request(gateway, case["request"], case["expect"])


def check_reply(expected: Any, answer: Answer) -> None:
    comparison = Comparison("qwen3")
    if isinstance(expected, dict):
        assert answer.status == expected["status"], answer.body
        for name, value in expected.get("headers", {}).items():
            assert answer.headers[name] == value
        comparison.check(expected["body"], answer.json)
        return
    comparison.check(join_deltas(expected), join_deltas(answer.frames))


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_written_as_its_golden_says(gateway: GoldenGateway, name: str) -> None:
    case = REPLIES[name]
    gateway.answer_with(case["upstream"])
    whole = gateway.post(PATH, case["request"] | {"stream": False})
    check_reply(case["expect"]["whole"], whole)
    gateway.answer_with(case["upstream"])
    answer = gateway.post(PATH, case["request"] | {"stream": True})
    check_reply(case["expect"]["stream"], answer)
    if answer.status == 200:
        lines = answer.body.decode().split("\n")
        assert [line[7:] for line in lines if line.startswith("event: ")] == [one["type"] for one in answer.frames]
        assert [one["sequence_number"] for one in answer.frames] == list(range(len(answer.frames)))


MODES: tuple[ReplyMode, ReplyMode] = ("delta", "whole")
STREAMS = [name for name, case in REPLIES.items() if "chunks" in case["upstream"]]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_of_the_servers_bytes_gives_the_same_reply(name: str) -> None:
    case = REPLIES[name]
    data, broken = to_bytes(case["upstream"]), bool(case["upstream"].get("cut"))

    def render(parts: list[bytes]) -> tuple[Any, Any]:
        batches = asyncio.run(replay(Recorded(parts, broken=broken)))
        info = ReplyInfo("resp_1", "req-1", "qwen3", 1)
        stream, whole = (RESPONSES.reply_encoder(info, mode) for mode in MODES)
        frames, body = (
            encoder.open() + b"".join(encoder.feed(events) for events in batches) for encoder in (stream, whole)
        )
        last = batches[-1][-1]
        if isinstance(last, Failed):
            body = whole.fail(UpstreamFailed(last.fault).to_dict("req-1"))
        events = (json.loads(line[6:]) for line in frames.decode().split("\n") if line.startswith("data: "))
        return join_deltas(events), body

    expected = render([data])
    for parts in [*distinct_cuts(data), bytewise(data)]:
        assert render(parts) == expected, parts


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_client_sends_turn_by_turn_goes_upstream_as_its_golden_says(gateway: GoldenGateway, name: str) -> None:
    """The first turns are stored as the client received them."""
    case = with_numbered_ids(LOOPS[name])
    for number, turn in enumerate(case["requests"]):
        check_request(gateway, turn["body"], turn["expect"])
        if isinstance(case["script"], list) and number < len(case["script"]):
            gateway.store(stored_by_turn(case["script"][number], turn["body"]))
