"""Marks of where a piece came from, and notes of what a message cannot say, are only believed where they fit."""

from typing import Any

import pytest
from app.chat.messages import Media, Message, Reasoning, Text
from app.formats.agentscope.media import choose_media_type, guess_type
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format
from msgspec.structs import replace

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, decoded, encoded, msg

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


def test_links_of_01_come_after_the_text() -> None:
    thought: Json = msg([{"type": "thinking", "thinking": "r"}], url="https://h/a.png")
    found = decoded(AGENTSCOPE, thought)
    image = Media("image", ("https://h/a.png",), path="messages[0].url")
    assert [one.parts for one in found] == [(Reasoning("r"),), (image,)]
    assert encoded(AGENTSCOPE, found) == [thought]
    assert encoded(AGENTSCOPE, [replace(one, extra={}) for one in found])[0]["content"][1]["type"] == "image"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://h/a.PNG?x=1", "image/png"),
        ("https://h/a", None),
        ("https://[h/a.png", None),
        ("data:audio/wav;base64,AAAA", "audio/wav"),
        ("data:text/plain,hello", None),
    ],
)
def test_a_media_type_is_guessed_from_the_path_alone(url: str, found: str | None) -> None:
    assert guess_type(url) == found


def test_a_media_type_is_always_of_its_kind() -> None:
    assert choose_media_type("image", "https://h/a.mp4") == "image/png"
    assert choose_media_type("audio", "https://h/a") == "audio/wav"
    assert choose_media_type("video", "https://h/a.webm") == "video/webm"
    assert choose_media_type("file", "https://h/a.png") == "application/octet-stream"
