"""Which events end a reply."""

from app.chat.events import Event, Failed, Fault, Finish, TextDelta, is_end

from tests.each_case import each_case

TEXT, FAILED = TextDelta("t"), Failed(Fault("timeout", "", True))


@each_case(
    ("events", "ends"),
    [([], False), ([TEXT], False), ([Finish("stop")], True), ([TEXT, FAILED], True), ([Finish("stop"), TEXT], False)],
)
def test_only_the_last_event_can_end_a_reply(events: list[Event], ends: bool) -> None:
    assert is_end(events) is ends
