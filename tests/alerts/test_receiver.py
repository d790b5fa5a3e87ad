"""Sending alerts: to whom, how often, and what happens if they are not taken."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
from app.alerts.conditions import make_condition
from app.alerts.receiver import MAX_WAITING, NotSent, Receiver, ReceiverRules
from app.alerts.tracker import Alert

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer

START = 1_800_000_000.0
SECRET = "https://hooks.test/T0/geheim"
DOWN = Alert(make_condition("ParleyUpstreamUnavailable", {"upstream": "u"}), START)
BUDGET = Alert(make_condition("ParleyBudget", {"owner": "o", "percent": "80", "period": "day"}), START)


class Hook:
    """A receiver's server, and the receiver."""

    def __init__(self, *answers: int | Exception, **rules: object) -> None:
        self._answers = list(answers)
        self.server = ModelServer(self._answer)
        self.counts: Counter[tuple[str, str]] = Counter()
        made = ReceiverRules("ops", SECRET, **rules)  # type: ignore[arg-type]  # each of its own type
        self.receiver = Receiver(made, self.server, self.counts, (0.0, 0.0, 0.0, 0.0))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = self._answers.pop(0) if self._answers else 200
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer)

    def run(self, *steps: Callable[[], None]) -> None:
        async def scenario() -> None:
            for step in steps:
                step()
                while self.receiver._task is not None:
                    await asyncio.sleep(0)
            await self.receiver.aclose()

        asyncio.run(scenario())


def test_a_message_has_the_headers_of_the_settings() -> None:
    hook = Hook(headers=(("x-token", "t"),))
    hook.run(lambda: hook.receiver.take(START, [DOWN], {"f": DOWN}))
    (request,) = hook.server.requests
    assert (request.method, str(request.url), request.headers["x-token"]) == ("POST", SECRET, "t")
    assert request.headers["content-type"] == "application/json"
    assert hook.counts == {("ParleyUpstreamUnavailable", "sent"): 1}


@each_case(
    ("answers", "tries", "outcome"),
    [
        ((500, 503, 429, httpx.ConnectError("x"), 200), 5, "sent"),
        ((httpx.ReadTimeout("x"), httpx.RemoteProtocolError("x"), 204), 3, "sent"),
        ((500,) * 9, 5, "failed"),
        ((404,), 1, "failed"),
        ((302,), 1, "failed"),
    ],
)
def test_what_may_work_later_is_sent_five_times(answers: tuple[int | Exception, ...], tries: int, outcome: str) -> None:
    hook = Hook(*answers)
    hook.run(lambda: hook.receiver.take(START, [DOWN], {"f": DOWN}))
    assert len(hook.server.requests) == tries
    assert hook.counts == {("ParleyUpstreamUnavailable", outcome): 1}


def test_a_failure_is_logged_without_the_url(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        hook = Hook(410)
        hook.run(lambda: hook.receiver.take(START, [DOWN], {"f": DOWN}))
    assert "alerts were not sent to the receiver ops: it answered with the status 410" in caplog.text
    assert "geheim" not in caplog.text


def test_one_that_lasts_is_sent_again_after_a_while_and_its_end_at_once() -> None:
    hook = Hook(repeat_seconds=100.0)
    key = DOWN.condition.fingerprint
    ended = Alert(DOWN.condition, START, START + 150)

    def at(seconds: float, *changes: Alert, lasts: bool = True) -> Callable[[], None]:
        return lambda: hook.receiver.take(START + seconds, changes, {key: DOWN} if lasts else {})

    hook.run(at(0, DOWN), at(50), at(100), at(110))
    assert len(hook.server.requests) == 2
    hook.run(at(150, ended, lasts=False))
    assert b'"resolved"' in hook.server.requests[-1].content and hook.receiver.sent_at == {}


@each_case(
    ("rules", "wanted"),
    [
        ({}, [True, True]),
        ({"events": ("ParleyBudget",)}, [False, True]),
        ({"events": ("*Down", "ParleyUpstream*")}, [True, False]),
        ({"budget_percent": (50, 100)}, [True, False]),
        ({"budget_percent": ()}, [True, False]),
    ],
)
def test_a_receiver_gets_what_it_wants(rules: dict[str, object], wanted: list[bool]) -> None:
    hook = Hook(**rules)
    assert [hook.receiver.rules.wants(alert) for alert in (DOWN, BUDGET)] == wanted


def test_what_waits_is_bounded() -> None:
    hook = Hook()
    alerts = [
        Alert(make_condition("ParleyRedisDown", {"use": str(number)}), START) for number in range(MAX_WAITING + 3)
    ]

    def take_all() -> None:
        for number, alert in enumerate(alerts):
            hook.receiver.take(START, [alert], {str(number): alert})

    hook.run(take_all)
    assert hook.counts == {("ParleyRedisDown", "sent"): MAX_WAITING, ("ParleyRedisDown", "dropped"): 3}


def test_a_receiver_that_is_not_there_is_an_error_with_its_reason() -> None:
    async def scenario() -> None:
        hook = Hook(httpx.ConnectError("x"))
        with pytest.raises(NotSent, match="connection could not be made"):
            await hook.receiver.send([DOWN])

    asyncio.run(scenario())
