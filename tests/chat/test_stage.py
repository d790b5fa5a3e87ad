"""A stage gets the batches of a reply one after the other, and may end the reply before its last one."""

from app.chat.events import Event, Failed, Fault, Finish, TextDelta
from app.chat.stage import Pipe, feed_to_end

FAILED = Failed(Fault("tool_use_failed", "no", transient=False))


class FailAt:
    """Fails a reply at a text, and passes nothing on after that."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._failed = False

    def feed(self, events: list[Event]) -> list[Event]:
        if self._failed:
            return []
        self._failed = TextDelta(self._text) in events
        return [FAILED] if self._failed else events


def test_batches_are_fed_to_the_end_of_the_reply() -> None:
    batches: list[list[Event]] = [[TextDelta("a")], [], [TextDelta("b")], [Finish("stop")]]
    assert feed_to_end(FailAt("x"), batches) == batches
    assert feed_to_end(FailAt("x"), batches[:2]) == batches[:2]
    assert feed_to_end(FailAt("b"), batches) == [[TextDelta("a")], [], [FAILED]]
    assert feed_to_end(FailAt("x"), []) == []


def test_a_pipe_feeds_each_stage_what_the_one_before_passes() -> None:
    pipe = Pipe((FailAt("x"), FailAt("y")))
    assert pipe.feed([TextDelta("a")]) == [TextDelta("a")]
    assert pipe.feed([]) == []
    assert pipe.feed([TextDelta("y")]) == [FAILED]
    assert pipe.feed([TextDelta("b")]) == []
