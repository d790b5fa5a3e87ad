"""A reply that is passed on, and the record of the requests for one."""

from collections.abc import Sequence

from app.chat.events import Event, TextDelta
from app.chat.stream import Attempt, AttemptLog, ForwardedReply, Receiver
from app.chat.token_usage import CallUsage, TokenUsage

HELLO = TextDelta("Hello")
CRASH = RuntimeError("a defect")


class Source:
    """A reply that writes down what is asked of it."""

    fallback_model = "other"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def tick(self, now: float) -> None:
        self.calls.append(f"tick {now}")

    def close(self) -> None:
        self.calls.append("close")


class Client:
    """A receiver that keeps what it is given."""

    def __init__(self) -> None:
        self.received: list[object] = []

    def on_events(self, events: list[Event]) -> None:
        self.received += events

    def on_batches(self, batches: Sequence[list[Event]]) -> None:
        self.received.append(list(batches))

    def on_crash(self, error: Exception) -> None:
        self.received.append(error)


def test_a_reply_is_passed_on_in_both_directions() -> None:
    source, client = Source(), Client()
    reply = ForwardedReply(source)
    reply.start(client)
    assert source.receiver is not None
    source.receiver.on_events([HELLO])
    source.receiver.on_batches([[HELLO], []])
    source.receiver.on_crash(CRASH)
    assert client.received == [HELLO, [[HELLO], []], CRASH]
    reply.pause()
    reply.resume()
    reply.tick(1.5)
    reply.close()
    assert source.calls == ["pause", "resume", "tick 1.5", "close"]
    assert reply.fallback_model == "other"


def test_a_defect_before_the_start_of_a_reply_has_no_receiver() -> None:
    ForwardedReply(Source()).on_crash(CRASH)


def test_the_usage_of_a_call_that_outlives_its_request_is_reported() -> None:
    log, late = AttemptLog(), list[CallUsage]()
    first, second = CallUsage(TokenUsage(1)), CallUsage(TokenUsage(2))
    log.report_usage(first)
    log.on_late_usage = late.append
    log.report_usage(second)
    assert (log.usage, late) == (CallUsage(TokenUsage(3)), [second])


def test_an_attempt_that_fails_after_its_request_is_reported() -> None:
    log, late = AttemptLog(), list[Attempt]()
    begun = Attempt("a", "http://a", 1.0)
    failed = Attempt("a", "http://a", 2.0, cause="reset", outcome="upstream_incomplete")
    log.add_attempt(begun)
    assert not log.shown
    log.on_late_failure = late.append
    log.replace_attempt(begun, failed)
    assert (log.attempts, late, log.shown) == ([failed], [failed], True)
