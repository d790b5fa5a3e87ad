"""The ids, names and times of the messages that are written, in both versions."""

from typing import Any

from app.chat.messages import Media, Message, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.agentscope.common_write import find_placeholder_losses, make_head
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format, Options

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, decoded, encoded

either = each_case("form", [AGENTSCOPE, AGENTSCOPE2], ids=["1", "2"])


def assistant(*parts: Any, **fields: Any) -> Message:
    return Message("assistant", parts, **fields)


def only(form: Format, *messages: Message, **options: Any) -> Json:
    items: list[Json] = form.write(messages, Options(**options)).messages
    assert len(items) == 1
    return items[0]


@either
def test_the_name_is_the_speakers_or_the_role_or_that_of_the_agent(form: Format) -> None:
    assert only(form, Message("user", (Text("q"),), "Ada"))["name"] == "Ada"
    assert only(form, Message("user", (Text("q"),)))["name"] == "user"
    assert only(form, assistant(Text("t")), agent_name="Friday")["name"] == "Friday"


@either
def test_an_id_is_that_of_the_message_or_its_turn_or_made_of_the_content(form: Format) -> None:
    assert only(form, assistant(Text("t"), extra={"message_id": "m1"}))["id"] == "m1"
    assert only(form, assistant(Text("t"), turn="t1"))["id"] == "t1"
    made = [only(form, assistant(Text(text), turn="messages[3]"))["id"] for text in ("t", "t", "u")]
    assert made[0] == made[1] != made[2]
    assert not made[0].startswith("messages[")


@either
def test_equal_ids_of_one_list_are_numbered(form: Format) -> None:
    messages = [assistant(Text("t"), extra={"message_id": "m1"}), Message("user", (Text("q"),))]
    assert [item["id"] for item in encoded(form, messages * 3)][::2] == ["m1", "m1_2", "m1_3"]


@either
def test_the_time_of_a_message_is_kept(form: Format) -> None:
    item = only(form, assistant(Text("t"), extra={"message_id": "m1", "created_at": "then"}))
    assert item["timestamp" if form is AGENTSCOPE else "created_at"] == "then"
    unknown = only(form, assistant(Text("t"), extra={"message_id": "m1", "created_at": 1}))
    assert not {"timestamp", "created_at"} & unknown.keys()


@either
def test_a_message_whose_id_and_name_are_made_up_needs_no_notes_and_another_has_some(form: Format) -> None:
    assert only(form, assistant(Text("t")))["metadata"] == {}
    noted = only(form, assistant(Text("t"), extra={"message_id": "m1", "mine": 1}))
    assert noted["metadata"]["parley"]["pieces"][0]["extra"]["mine"] == 1
    [again] = decoded(form, noted)
    assert again.extra["mine"] == 1


@either
def test_pieces_of_a_conversation_come_back(form: Format) -> None:
    messages = (
        Message("user", (Text("q"),)),
        assistant(Reasoning("r")),
        assistant(ToolCall("f", "{}", "c1")),
        Message("tool", (ToolResult((Text("r"),), "f", "c1"),)),
    )
    found = decoded(form, *encoded(form, messages))
    assert [part for one in found for part in one.parts] == [part for one in messages for part in one.parts]


@each_case(("role", "turn"), [("assistant", "id"), ("user", None), ("system", None)])
def test_only_an_assistant_message_has_a_turn(role: Role, turn: str | None) -> None:
    assert make_head(role, "n", "id", "p", {"a": 1}) == Message(role, (), "n", turn, "p", {"a": 1})


def test_media_without_a_block_are_a_loss_also_in_a_result() -> None:
    image = Media("image", ("https://h/a.png",))
    messages = [
        Message("user", (image, Text("t")), path="messages[0]"),
        Message("tool", (ToolResult((Media("image", ("https://h/a.png",), path="p"),), "f", "1"),), path="messages[1]"),
    ]
    losses = find_placeholder_losses(messages, lambda media: False)
    assert [loss.path for loss in losses] == ["messages[0]", "p"]
    assert find_placeholder_losses(messages, lambda media: True) == []
