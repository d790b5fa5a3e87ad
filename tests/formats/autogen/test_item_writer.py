"""A message as an item of AutoGen."""

from app.chat.messages import Media, Text, ToolCall
from app.formats.autogen import AUTOGEN
from app.formats.autogen.sidecar import normalize_message
from app.formats.base import Options
from msgspec.structs import replace

from tests.formats.autogen.recorded_cases import read, text, written
from tests.formats.autogen.sample_messages import answer, make_message, result

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGP8z8DAwMAAAAYIAQHLR3Z1AAAAAElFTkSuQmCC"


def test_a_call_without_an_id_gets_one_and_its_result_names_it() -> None:
    messages = (
        answer(ToolCall("f", "{}")),
        answer(ToolCall("g", "{}")),
        result(None, name="g"),
        result(None, name="?"),
    )
    request, execution = written(messages)
    first, second = (one["id"] for one in request["content"])
    assert first and second and first != second
    assert [one["call_id"] for one in execution["content"]] == [second, first]
    assert [normalize_message(one) for one in read([request, execution])] == [
        normalize_message(one) for one in messages
    ]


def test_an_image_is_carried_and_other_media_leave_a_word() -> None:
    image = Media("image", (f"data:image/png;base64,{PNG}",))
    far, sound = Media("image", ("https://h/x.png",)), Media("audio", ("data:audio/wav;base64,AAAA",))
    message = make_message("user", Text("see"), image, far, sound, name="user", path="messages[0]")
    encoded = AUTOGEN.write([message], Options())
    assert encoded.messages[0]["type"] == "MultiModalMessage"
    assert encoded.messages[0]["content"] == ["see", {"data": PNG}, "[image: https://h/x.png]", "[audio]"]
    assert [one.path for one in encoded.losses] == ["messages[0]"] * 2
    assert read(encoded.messages)[0].parts == tuple(
        replace(one, path="messages[0]") if isinstance(one, Media) else one for one in message.parts
    )


def test_media_alone_become_a_text() -> None:
    (item,) = written((make_message("user", Media("file", ("https://h/x.pdf",)), name="user"),))
    assert (item["type"], item["content"]) == ("TextMessage", "[file: https://h/x.pdf]")


def test_media_in_a_result_leave_a_word_and_come_back() -> None:
    messages = (answer(ToolCall("f", "{}", "1")), result("1", Text("see"), Media("image", ("https://h/x",))))
    items = written(messages)
    assert items[1]["content"][0]["content"] == "see\n[image: https://h/x]"
    assert [normalize_message(one) for one in read(items)] == [normalize_message(one) for one in messages]


def test_what_messages_say_of_themselves_has_its_own_place() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    extra = {"message_id": "m", "created_at": "2026-01-01T00:00:00Z", "metadata": {"k": "v"}, "usage": usage}
    (item,) = written((make_message("user", Text("q"), name="user", extra=extra),))
    assert item == text("user", "q", id="m", created_at=extra["created_at"], metadata={"k": "v"}, models_usage=usage)
