from app.chat.messages import CacheMark, Media, Message, Text, ToolResult
from app.steps.media.descriptions import find_media, replace_media, write_description, write_failure

ONE, TWO, SOUND = Media("image", ("one",)), Media("image", ("two",)), Media("audio", ("sound",))
MESSAGES = (
    Message("user", (Text("a"), ONE, Text("b"))),
    Message("assistant", (Text("c"),)),
    Message("tool", (ToolResult((Text("d"), SOUND, TWO), "f", "call_1"),)),
)


def test_all_media_of_the_conversation_are_counted() -> None:
    assert find_media(MESSAGES, ["image"]) == {1: ONE, 3: TWO}
    assert find_media(MESSAGES, ["video"]) == {}


def test_texts_stand_in_the_places_of_media_also_in_results() -> None:
    first, second, third = replace_media(MESSAGES, {1: "ONE", 3: "TWO"})
    assert first.parts == (Text("a"), Text("ONE"), Text("b"))
    assert second is MESSAGES[1]
    (result,) = third.parts
    assert isinstance(result, ToolResult) and result.content == (Text("d"), SOUND, Text("TWO"))


def test_a_mark_stays_at_its_place() -> None:
    mark = CacheMark({"type": "ephemeral"}, "p")
    (message,) = replace_media((Message("user", (Media("image", ("u",), mark=mark),)),), {1: "x"})
    assert message.parts == (Text("x", mark),)


def test_words_are_one_line_with_the_kind_and_the_number() -> None:
    assert write_description(ONE, 2, "a\nb <c>") == "<image 2: a b <c>>"
    assert write_failure(SOUND, 3, "no\n ears") == "[audio 3 could not be described: no ears]"
