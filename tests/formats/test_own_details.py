"""Items that a client has got in the server's own events are not sent again."""

from app.chat.events import Event, Extra, TextDelta
from app.formats.own_details import count_details, drop_details


def test_the_first_items_are_dropped_and_all_else_stays() -> None:
    text = TextDelta("A")
    first, second = Extra({"reasoning_details": [1, 2], "a": 1}), Extra({"reasoning_details": [3]}, 4)
    events: list[Event] = [first, text, second]
    assert drop_details(events, 0) == (events, 0)
    assert drop_details(events, 1) == ([Extra({"reasoning_details": [2], "a": 1}), text, second], 0)
    left: list[Event] = [Extra({"reasoning_details": [], "a": 1}), text, Extra({"reasoning_details": []}, 4)]
    assert drop_details(events, 5) == (left, 2)
    assert [count_details(event) for event in (first, text, Extra({"reasoning_details": "x"}))] == [2, 0, 0]
