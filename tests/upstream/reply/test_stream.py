"""What is reported of a reply that a defect of the gateway ends."""

from typing import Any

from app.chat.events import Event
from app.upstream.reply.stream import UpstreamStream

from tests.each_case import each_case
from tests.reply_pipeline import TARGET, Batches, Parts

ONE = b'data: {"choices":[{"index":0,"delta":{"content":"One"}}]}\n\n'


class FailingStage:
    """A stage with a defect that the second read of a reply shows, or the end after one read."""

    def __init__(self) -> None:
        self._reads = 0

    def feed(self, events: list[Event]) -> list[Event]:
        self._reads += 1
        if self._reads > 1:
            raise ValueError("a defect")
        return events


class Body(Parts):
    encoding: str | None = None


class Crashed(Batches):
    def on_crash(self, error: Exception) -> None:
        """The defect that the stage has."""


class Meter:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def end(self, events: list[Event], count: int, told: dict[str, Any] | None) -> list[Event]:
        self.calls.append(("end", count))
        return events

    def stop(self, count: int, told: dict[str, Any] | None) -> None:
        self.calls.append(("stop", count))


@each_case(("parts", "counted"), [([ONE, ONE], 2), ([ONE], 1)])
def test_a_reply_that_a_defect_ends_is_metered_once(parts: list[bytes], counted: int) -> None:
    meter = Meter()
    stream = UpstreamStream(Body(parts, broken=False), "chat-1", [FailingStage()], TARGET, meter=meter)
    stream.start(Crashed())
    stream.close()
    assert meter.calls == [("stop", counted)]
