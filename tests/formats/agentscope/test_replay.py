"""An original message is written again if its pieces still say the same."""

from typing import Any

from app.chat.messages import Message, Reasoning, Text
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format

from tests.each_case import each_case
from tests.formats.agentscope.cases import encoded, msg

either = each_case("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])


HI = [{"type": "text", "text": "hi"}]


def marked(form: Format, raw: Any, k: Any = 0) -> Message:
    return Message("assistant", (Text("hi"),), "Friday", extra={form.name: {"raw": raw, "k": k}})


@either
def test_a_raw_item_is_sent_again_where_it_says_the_same(form: Format) -> None:
    raw = msg(HI, odd=1)
    assert encoded(form, [marked(form, raw)]) == [raw]


@either
@each_case(
    "raw",
    [
        None,
        "hi",
        {},
        msg([{"type": "odd"}]),
        msg([{"type": "text", "text": "bye"}]),
        msg(HI, name="Bob"),
        msg([{"type": "tool_use", "id": "1", "name": "f", "input": {}}], "user"),
        msg([{"type": "tool_call", "id": "1", "name": "f", "input": ""}], "user"),
        msg([*HI, {"type": "thinking", "thinking": "r"}]),
    ],
)
def test_a_raw_item_that_says_something_else_is_not_sent(form: Format, raw: Any) -> None:
    (found,) = encoded(form, [marked(form, raw)])
    assert (found["name"], found["content"]) == ("Friday", HI)
    assert form.name not in str(found["metadata"].get("parley", {}))


@either
def test_a_raw_item_of_a_later_piece_is_none(form: Format) -> None:
    assert "odd" not in encoded(form, [marked(form, msg(HI, odd=1), k=1)])[0]


@either
def test_a_message_ends_where_a_raw_item_begins(form: Format) -> None:
    thought = Message("assistant", (Reasoning("r"),), "Friday")
    raw = msg(HI, odd=1)
    made, again = encoded(form, [thought, marked(form, raw)])
    assert [block["type"] for block in made["content"]] == ["thinking"]
    assert again == raw
    (made,) = encoded(form, [thought, marked(form, msg("x"))])
    assert [block["type"] for block in made["content"]] == ["thinking", "text"]
