"""Notes of what a message cannot say, which count only where they fit."""

from typing import Any

from app.chat.messages import Message, Text
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format

from tests.each_case import each_case
from tests.formats.agentscope.cases import decoded, encoded, msg

either = each_case("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])


HI = [{"type": "text", "text": "hi"}]


@either
def test_what_a_client_adds_to_our_message_stays_with_it(form: Format) -> None:
    (item,) = encoded(form, [Message("user", (Text("hi"),))])
    time = "timestamp" if form is AGENTSCOPE else "created_at"
    for added, name in (({time: "now"}, None), ({"metadata": {"k": 1}}, None), ({"id": "mine"}, "user")):
        changed = {**item, **added}
        (found,) = decoded(form, changed)
        assert found.name == name
        assert encoded(form, [found]) == [changed]


NOTES: list[Any] = [
    None,
    {"id": "1", "name": "Friday"},
    {"id": "1", "name": "Friday", "pieces": []},
    {"id": "1", "name": "Bob", "pieces": [{"blocks": 1, "name": None}]},
    {"id": "1", "name": "Friday", "pieces": [{"blocks": 2, "name": None}]},
    {"id": "1", "name": "Friday", "pieces": [{"blocks": 1, "name": None, "odd": 1}]},
    {"id": "1", "name": "Friday", "pieces": [{"blocks": 1, "name": 1}]},
]


@either
@each_case("notes", NOTES)
def test_notes_that_do_not_fit_do_not_count(form: Format, notes: Any) -> None:
    item = msg(HI, metadata={"parley": notes})
    (found,) = decoded(form, item)
    assert found.name == "Friday"
    assert encoded(form, [found]) == [item]


@either
def test_notes_that_make_one_piece_of_two_kinds_do_not_count(form: Format) -> None:
    notes = {"id": "1", "name": "Friday", "pieces": [{"blocks": 2, "name": None}]}
    found = decoded(form, msg([*HI, {"type": "thinking", "thinking": "r"}], metadata={"parley": notes}))
    assert [one.name for one in found] == ["Friday", "Friday"]


@either
def test_notes_of_media_that_are_not_there_are_left_out(form: Format) -> None:
    media = [{"at": 0, "blocks": 1, "media": "file"}]
    notes = {"id": "1", "name": "Friday", "pieces": [{"blocks": 1, "media": media}]}
    (found,) = decoded(form, msg(HI, metadata={"parley": notes}))
    assert found.parts == (Text("hi"),)
