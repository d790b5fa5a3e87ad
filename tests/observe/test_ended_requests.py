"""Requests that have ended are reported together, each once and in the order of their ends."""

import asyncio

import pytest
from app.observe.ended_requests import GATHER_SECONDS, REPORTED_TOGETHER, EndedRequests
from app.observe.request_record import RequestRecord
from app.runtime.turn_queue import TURN_SECONDS, TurnBudget

from tests.work_clock import WorkClock

pytestmark = pytest.mark.anyio


async def test_requests_that_end_at_nearly_the_same_time_are_reported_together() -> None:
    ended, seen = EndedRequests(), list[tuple[str, str]]()
    ended.observers += [lambda record: seen.append(("log", record.request_id))]
    ended.observers += [lambda record: seen.append(("metrics", record.request_id))]
    for id_ in ("a", "b"):
        ended.add(RequestRecord(id_, "chat"))
    assert seen == []
    await asyncio.sleep(GATHER_SECONDS * 5)
    assert seen == [("log", "a"), ("log", "b"), ("metrics", "a"), ("metrics", "b")]
    seen.clear()
    ended.add(RequestRecord("c", "chat"))
    await asyncio.sleep(GATHER_SECONDS * 5)
    assert seen == [("log", "c"), ("metrics", "c")]


async def test_many_requests_that_end_at_once_are_reported_in_several_turns() -> None:
    clock, seen = WorkClock(), list[str]()
    ended = EndedRequests(budget=TurnBudget(clock))

    def observe(record: RequestRecord) -> None:
        seen.append(record.request_id)
        clock.now += TURN_SECONDS / REPORTED_TOGETHER

    ended.observers += [observe]
    ids = [str(number) for number in range(2 * REPORTED_TOGETHER + 1)]
    for id_ in ids:
        ended.add(RequestRecord(id_, "chat"))
    turns: list[int] = []
    while len(seen) < len(ids):
        before = len(seen)
        await asyncio.sleep(0)
        turns += [len(seen) - before] if len(seen) > before else []
    assert (turns, seen) == ([REPORTED_TOGETHER, REPORTED_TOGETHER, 1], ids)


async def test_who_needs_them_at_once_gets_each_request_once() -> None:
    ended, seen = EndedRequests(), list[str]()
    ended.observers += [lambda record: seen.append(record.request_id)]
    ended.add(RequestRecord("a", "chat"))
    ended.report()
    assert seen == ["a"]
    ended.report()
    await asyncio.sleep(GATHER_SECONDS * 5)
    assert seen == ["a"]


async def test_the_time_until_the_report_is_no_part_of_the_request() -> None:
    ended, seen = EndedRequests(), list[float]()
    ended.observers += [lambda record: seen.append(record.duration)]
    record = RequestRecord("a", "chat")
    ended.add(record)
    duration = record.duration
    await asyncio.sleep(GATHER_SECONDS * 5)
    assert seen == [duration]


async def test_a_record_that_an_observer_fails_for_takes_no_other_with_it() -> None:
    ended, seen = EndedRequests(), list[str]()

    def observe(record: RequestRecord) -> None:
        if record.request_id == "b":
            raise RuntimeError("broken observer")
        seen.append(record.request_id)

    ended.observers += [observe]
    for id_ in ("a", "b", "c"):
        ended.add(RequestRecord(id_, "chat"))
    ended.report()
    assert seen == ["a", "c"]
