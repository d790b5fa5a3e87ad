"""A conversation as items of the Responses API, and what of it is lost."""

from typing import Any

from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.formats.responses.write import write_items
from app.formats.seal import Seal, read_seal

from tests.each_case import each_case

Json = dict[str, Any]
NO_FIELD = "cannot be written as items of the Responses API"
PNG = "data:image/png;base64,iVBORw0KGgo="


def message(role: Role, *parts: Part, **fields: Any) -> Message:
    return Message(role, parts, path="messages[0]", **fields)


def items(*messages: Message) -> list[Json]:
    return write_items(messages)[0]


def losses(*messages: Message) -> list[tuple[str, str]]:
    return [(loss.path, loss.message) for loss in write_items(messages)[1]]


@each_case(
    ("part", "content"),
    [
        (Text("Hi"), "Hi"),
        (Text(""), [{"type": "input_text", "text": ""}]),
        (Media("image", (PNG,)), [{"type": "input_image", "image_url": PNG, "detail": "auto"}]),
        (Media("image", (PNG,), detail="low"), [{"type": "input_image", "image_url": PNG, "detail": "low"}]),
        (Media("file", ("https://h/a",)), [{"type": "input_file", "file_url": "https://h/a"}]),
        (
            Media("file", ("data:,a",), name="a.txt"),
            [{"type": "input_file", "filename": "a.txt", "file_data": "data:,a"}],
        ),
        (Media("video", ("https://h/v",)), [{"type": "input_video", "video_url": "https://h/v"}]),
        (
            Media("video", ("https://h/1", "https://h/2"), frames=True),
            [
                {"type": "input_image", "image_url": "https://h/1", "detail": "auto"},
                {"type": "input_image", "image_url": "https://h/2", "detail": "auto"},
            ],
        ),
    ],
)
def test_a_part_of_a_user_is_input(part: Text | Media, content: Any) -> None:
    assert items(message("user", part)) == [{"type": "message", "role": "user", "content": content}]


@each_case(
    ("media", "audio"),
    [
        (Media("audio", ("https://h/a.wav",)), {"data": "https://h/a.wav"}),
        (Media("audio", ("https://h/a.wav",), format="wav"), {"data": "https://h/a.wav", "format": "wav"}),
        (Media("audio", ("data:audio/wav;base64,UklG",)), {"data": "UklG", "format": "wav"}),
        (Media("audio", ("data:audio/x-unknown;base64,UklG",)), {"data": "data:audio/x-unknown;base64,UklG"}),
        (Media("audio", ("data:audio/mpeg;base64,UklG",), format="wav"), {"data": "UklG", "format": "wav"}),
        (Media("audio", ("data:audio/wav,RIFF",)), {"data": "data:audio/wav,RIFF", "format": "wav"}),
    ],
)
def test_audio_is_base64_with_its_format_or_a_url(media: Media, audio: Json) -> None:
    assert items(message("user", media))[0]["content"] == [{"type": "input_audio", "input_audio": audio}]


def test_several_parts_are_a_list_and_none_is_an_empty_text() -> None:
    assert items(message("user", Text("a"), Text("b")))[0]["content"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_text", "text": "b"},
    ]
    assert items(message("user"))[0]["content"] == ""


@each_case(
    ("role", "extra", "written"),
    [
        ("system", {}, "system"),
        ("system", {"developer": True}, "developer"),
        ("user", {"developer": True}, "user"),
        ("system", {"developer": 1}, "system"),
    ],
)
def test_a_system_message_that_was_a_developers_stays_one(role: Role, extra: Json, written: str) -> None:
    assert items(message(role, Text("a"), extra=extra))[0]["role"] == written


def test_a_result_is_the_output_of_its_call() -> None:
    written = items(
        message("assistant", ToolCall("f", "{}", "c1"), ToolCall("g", "[1]")),
        message("tool", ToolResult((Text("r"),), "f", "c1"), ToolResult((Text("s"), Media("image", (PNG,))))),
    )
    assert [item["type"] for item in written] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert written[1]["call_id"] == written[3]["call_id"] != ""
    assert (written[1]["name"], written[1]["arguments"]) == ("g", "[1]")
    assert (written[2]["output"], written[3]["output"][0]) == ("r", {"type": "input_text", "text": "s"})


def test_identical_items_at_different_places_have_different_ids_that_do_not_change() -> None:
    messages = [message("assistant", Text("a")), message("user", Text("b")), message("assistant", Text("a"))]
    written = items(*messages)
    ids = [item["id"] for item in written if "id" in item]
    assert len(set(ids)) == 2
    assert all(id_.startswith("msg_") and len(id_) == 4 + 32 for id_ in ids)
    assert items(*messages) == written


def test_the_last_text_of_a_refusal_is_one() -> None:
    [item] = items(message("assistant", Text("a"), Text("no"), extra={"refusal": True}))
    assert item["content"] == [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "refusal", "refusal": "no"},
    ]
    [item] = items(message("assistant", Text("no"), Media("image", (PNG,)), extra={"refusal": True}))
    assert [part["type"] for part in item["content"]] == ["output_text", "input_image"]


def test_only_the_text_after_the_last_call_is_a_refusal() -> None:
    written = items(message("assistant", Text("a"), ToolCall("f", "{}", "c1"), Text("no"), extra={"refusal": True}))
    assert [part["type"] for item in (written[0], written[2]) for part in item["content"]] == ["output_text", "refusal"]


DETAILS = [{"type": "reasoning.text", "text": "r"}]


def test_what_the_server_wants_back_is_sealed_in_the_first_reasoning() -> None:
    call = ToolCall("f", "{}", "c1", {"extra_content": {"google": 1}})
    written = items(message("assistant", Reasoning("r"), Reasoning("s"), call, extra={"reasoning_details": DETAILS}))
    assert [item["type"] for item in written] == ["reasoning", "reasoning", "function_call"]
    assert read_seal(written[0]["encrypted_content"]) == Seal("r", DETAILS, {"c1": {"google": 1}})
    assert "encrypted_content" not in written[1]


def test_without_reasoning_the_seal_is_an_item_of_its_own_before_the_others() -> None:
    call = ToolCall("f", "{}", "c1", {"extra_content": {"google": 1}})
    written = items(message("assistant", Text("t"), call))
    assert [item["type"] for item in written] == ["reasoning", "message", "function_call"]
    assert (written[0]["content"], written[0]["summary"]) == ([], [])
    assert read_seal(written[0]["encrypted_content"]) == Seal("", [], {"c1": {"google": 1}})


def test_details_that_are_no_list_are_not_sealed() -> None:
    [item] = items(message("assistant", Reasoning("r"), extra={"reasoning_details": "x"}))
    assert item["content"] == [{"type": "reasoning_text", "text": "r"}]
    assert "encrypted_content" not in item


def test_a_name_is_lost_unless_it_is_that_of_the_role_or_of_a_tool() -> None:
    assert losses(message("user", Text("a"), name="Ada")) == [("messages[0]", f"the name 'Ada' {NO_FIELD}")]
    assert losses(message("user", Text("a"), name="user")) == []
    assert losses(message("tool", ToolResult((Text("r"),), "f", "c1"), name="f")) == []


def test_that_a_result_is_an_error_is_lost() -> None:
    assert losses(message("tool", ToolResult((Text("r"),), "f", "c1", is_error=True))) == [
        ("messages[0]", f"is_error {NO_FIELD}")
    ]
    assert losses(message("tool", ToolResult((Text("r"),), "f", "c1", is_error=False))) == []


@each_case(("path", "place"), [("messages[0].content[0].video", "messages[0].content[0].video"), ("", "messages[0]")])
def test_that_images_are_the_frames_of_a_video_is_lost_also_in_a_result(path: str, place: str) -> None:
    frames = Media("video", ("https://h/1",), frames=True, path=path)
    lost = [(place, "the frames of a video are written as images")]
    assert losses(message("user", frames)) == lost
    assert losses(message("tool", ToolResult((frames,), "f", "c1"))) == lost
    assert losses(message("user", Media("video", ("https://h/1",), path=path))) == []


def test_fields_without_a_place_are_lost_and_those_with_one_are_not() -> None:
    kept = {"reasoning_details": [], "extra_content": {}, "arguments_valid": False, "developer": True, "refusal": True}
    assert losses(message("assistant", Text("a"), extra={**kept, "mine": 1})) == [("messages[0]", f"mine {NO_FIELD}")]


def test_the_same_loss_is_named_once() -> None:
    frames = Media("video", ("https://h/1",), frames=True)
    assert len(losses(message("user", frames, frames))) == 1


def test_turns_that_are_read_as_one_are_a_loss() -> None:
    first = Message("assistant", (Text("a"),), path="messages[0]")
    second = Message("assistant", (Text("b"),), path="messages[1]")
    goes_on = Message("assistant", (ToolCall("f", "{}", "c1"),), path="messages[1]")
    user = Message("user", (Text("?"),))
    text = "is a turn of its own, and is read as one turn with the one before it"
    assert losses(first, second) == [("messages[1]", text)]
    assert losses(first, goes_on) == losses(first, user, second) == []
    assert [path for path, _ in losses(first, second, Message("assistant", (Text("c"),), path="messages[2]"))] == [
        "messages[1]",
        "messages[2]",
    ]


def test_an_assistant_message_is_its_reasoning_texts_and_calls_in_order() -> None:
    parts = (Reasoning("Hm."), Text("So:"), ToolCall("f", "{}", "c1"), Text("Done."))
    written = items(Message("assistant", parts))
    assert [item["type"] for item in written] == ["reasoning", "message", "function_call", "message"]
    assert written[2] == {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


def test_opaque_fields_of_a_message_are_on_its_last_text() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "x"}}}
    parts = (Text("a"), ToolCall("f", "{}", "c1"), Text("b"))
    written = items(Message("assistant", parts, extra=extra))
    assert [item.get("extra_content") for item in written] == [None, None, extra["extra_content"]]


def test_an_assistant_message_that_is_empty_or_shows_an_image_is_a_message() -> None:
    [empty] = items(Message("assistant", ()))
    [image] = items(Message("assistant", (Media("image", ("https://e.com/a.png",)),)))
    assert (empty["role"], empty["content"]) == ("assistant", [])
    assert image["content"] == [{"type": "input_image", "image_url": "https://e.com/a.png", "detail": "auto"}]


def test_a_result_in_a_message_of_the_assistant_is_no_item() -> None:
    """Results are messages of the role `tool`; the parsers put them nowhere else."""
    written = items(Message("assistant", (Text("a"), ToolResult((Text("b"),), "f", "c1"), Text("c"))))
    assert [item["content"][0]["text"] for item in written] == ["a", "c"]


def test_a_result_without_content_is_an_empty_string() -> None:
    [item] = items(Message("tool", (ToolResult((), "f", "c1"),)))
    assert item == {"type": "function_call_output", "call_id": "c1", "output": ""}
