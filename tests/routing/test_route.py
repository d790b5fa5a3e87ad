"""The fallbacks and the price of a model, and a request that is ready to be sent."""

import pytest
from app.chat.admitted import mark_admitted
from app.chat.events import Fault
from app.chat.messages import ChatRequest
from app.errors import UpstreamFailed
from app.routing import ModelRoute, PreparedRequest
from msgspec.structs import replace

from tests.each_case import each_case

ROUTE = ModelRoute("m", (), {})
REQUEST = ChatRequest("m", ())
SHARED, OTHER = b"x" * 100, b"y" * 40


@pytest.mark.parametrize(
    ("bodies", "original", "size"),
    [
        ((SHARED,), None, 100),
        ((SHARED, SHARED), None, 100),
        ((SHARED, OTHER, SHARED), None, 140),
        ((), None, 0),
        ((SHARED,), REQUEST, 200),
        ((SHARED, OTHER), REQUEST, 240),
        ((), REQUEST, 0),
    ],
)
def test_deployments_share_equal_bodies_and_the_request_counts_as_the_largest(
    bodies: tuple[bytes, ...], original: ChatRequest | None, size: int
) -> None:
    whole = None if original is None else mark_admitted(original)
    assert PreparedRequest(ROUTE, REQUEST, bodies, (), 0, None, original=whole).size == size


FALLBACKS = ModelRoute(
    "m", (), {}, fallbacks=("a",), fallbacks_on_context_length=("b",), fallbacks_on_content_filter=("c",)
)


def test_a_route_keeps_only_the_fallbacks_that_are_allowed() -> None:
    route = FALLBACKS.with_fallbacks("ac".__contains__)
    assert (route.list_fallbacks(), FALLBACKS.list_fallbacks()) == (["a", "c"], ["a", "b", "c"])
    assert (FALLBACKS.has_fallbacks, FALLBACKS.with_fallbacks(lambda _: False).has_fallbacks) == (True, False)


@each_case(
    ("code", "retryable", "models"),
    [
        ("timeout", True, ("a",)),
        ("upstream_error", False, ()),
        ("context_length_exceeded", False, ("b",)),
        ("content_filter", False, ("c",)),
    ],
)
def test_the_fallbacks_depend_on_the_error(code: str, retryable: bool, models: tuple[str, ...]) -> None:
    assert FALLBACKS.fallbacks_after(UpstreamFailed(Fault(code, "", retryable))) == models


def test_the_fallbacks_are_tried_after_a_cause_that_lasts() -> None:
    fault = Fault("upstream_incomplete", "", transient=False, cause="tls_client_certificate_refused")
    assert FALLBACKS.fallbacks_after(UpstreamFailed(fault)) == ("a",)


def test_a_route_has_fallbacks_if_any_error_has_some() -> None:
    assert not ROUTE.has_fallbacks
    for name in ("fallbacks", "fallbacks_on_context_length", "fallbacks_on_content_filter"):
        assert replace(ROUTE, **{name: ("a",)}).has_fallbacks


ONE = PreparedRequest(ROUTE, REQUEST, (SHARED,), (), 0, None)


@each_case(
    ("prepared", "single"),
    [
        (ONE, True),
        (replace(ONE, route=replace(ROUTE, deadline_seconds=9.0)), False),
        (replace(ONE, route=replace(ROUTE, hedge_after=1.0)), False),
        (replace(ONE, max_retries=1), False),
        (replace(ONE, original=REQUEST), False),
        (replace(ONE, bodies=(SHARED, OTHER)), False),
    ],
)
def test_a_request_is_sent_once_if_nothing_can_follow_it(prepared: PreparedRequest, single: bool) -> None:
    assert prepared.has_one_attempt is single
