"""What a request in progress may hold for the log."""

import gc
import weakref

from app.observe.request_log.capture import ByteBudget, RequestCapture, choose_headers

from tests.each_case import each_case


def capture(budget: ByteBudget, max_bytes: int = 1000) -> RequestCapture:
    return RequestCapture(budget, "owner", "/v1/chat", [], max_bytes)


def test_a_reply_is_kept_up_to_the_bound_and_its_size_goes_on() -> None:
    budget = ByteBudget(10_000)
    one = capture(budget)
    for _ in range(30):
        one.reply.record_data(b"x" * 100)
    facts = one.reply.describe()
    assert (len(b"".join(one.reply.data)), facts.size, facts.is_cut) == (1000, 3000, True)
    assert list(one.reply.list_parts()[1]) == [100] * 10
    assert budget.held == 1000
    one.release()
    assert budget.held == 0


def test_two_bodies_share_the_bound() -> None:
    one = capture(ByteBudget(10_000))
    got = one.begin_exchange("local", "/chat/completions", b"")
    got.record_data(b"x" * 600)
    one.reply.record_data(b"x" * 600)
    assert (got.is_cut, one.reply.is_cut, one.reply.size) == (False, True, 600)


def test_a_body_that_exceeds_the_budget_is_not_kept_and_leaves_nothing_taken() -> None:
    budget = ByteBudget(500)
    one = capture(budget)
    one.request.record_whole(b"x" * 501)
    one.reply.record_data(b"x" * 501)
    assert (one.request.is_cut, one.request.size, one.reply.is_cut, budget.held) == (True, 501, True, 0)


def test_after_the_end_nothing_is_recorded() -> None:
    budget = ByteBudget(10_000)
    one = capture(budget)
    got = one.begin_exchange("local", "/chat/completions", b"body")
    got.record_data(b"early")
    one.close()
    got.record_data(b"late")
    got.record_end(None)
    one.begin_exchange("local", "/chat/completions", b"late")
    assert (got.size, got.end, len(one.bodies)) == (5, "", 4)
    one.release()
    assert (got.data, budget.held) == ([], 0)


def test_without_bodies_only_sizes_are_kept() -> None:
    one = capture(ByteBudget(10_000), 0)
    one.request.record_whole(b"body")
    one.reply.record_data(b"reply")
    assert (one.holds_bodies, one.request.size, one.reply.size) == (False, 4, 5)
    assert one.request.data == one.reply.data == []


def test_a_capture_is_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        one = capture(ByteBudget(10_000))
        one.begin_exchange("local", "/chat/completions", b"body").record_data(b"reply")
        freed = weakref.ref(one)
        del one
        assert freed() is None
    finally:
        gc.enable()


@each_case(
    ("name", "kept"),
    [
        (b"User-Agent", True),
        (b"anthropic-version", True),
        (b"x-ratelimit-remaining-requests", True),
        (b"authorization", False),
        (b"x-api-key", False),
        (b"cookie", False),
        (b"set-cookie", False),
        (b"x-goog-api-key", False),
    ],
)
def test_only_headers_of_a_short_list_are_kept(name: bytes, kept: bool) -> None:
    assert bool(choose_headers([(name, b"value")])) is kept
